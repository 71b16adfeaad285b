"""`email.send`: one mail of text, through the SMTP server of the connection.

A mail that was handed in cannot be looked up or called back, so an unclear outcome is left to a person. Its Message-ID
is made from the key: the same mail, sent again because a person said so, is one that mail programs can tell.
"""

import hashlib
from collections.abc import Mapping
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import formatdate
from typing import Annotated, Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator
from pydantic import AfterValidator, Field, model_validator

from approvals.errors import NotSent, OutcomeUnknown, Refused
from approvals.kinds import Arguments, Far, Kind, Result, facts, register
from approvals.tiers import Tier
from project.lib import smtp
from project.lib.egress import Forbidden, NoAnswer, Unreachable
from project.lib.language import spoken

MOST_RECIPIENTS = 50
is_address = EmailValidator()


def bare(text: str) -> str:
    """An address and nothing else: a name beside it could say that it is somebody else's."""
    try:
        is_address(text)
        Address(addr_spec=text.encode("ascii", "replace").decode())
        in_ascii(text)
    except (ValidationError, ValueError):
        raise ValueError("must be a bare address like ann@example.org") from None
    if not text.partition("@")[0].isascii():
        raise ValueError("letters beyond ASCII before the @ are not carried by every server")
    return text


def one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line without control characters")
    return text


Recipient = Annotated[str, Field(max_length=254), AfterValidator(bare)]
Line = Annotated[str, AfterValidator(one_line)]


class Mail(Arguments):
    """The sender is the connection's. `reply_to` is where answers go instead."""

    to: list[Recipient] = Field(min_length=1)
    cc: list[Recipient] = []
    bcc: list[Recipient] = []
    reply_to: Recipient | None = None
    subject: Line = Field(min_length=1, max_length=500)
    body: str = Field(min_length=1, max_length=200_000)

    @model_validator(mode="after")
    def is_for_few(self) -> "Mail":
        if len(self.everybody) > MOST_RECIPIENTS:
            raise ValueError(f"at most {MOST_RECIPIENTS} recipients")
        return self

    @property
    def everybody(self) -> list[str]:
        return list(dict.fromkeys([*self.to, *self.cc, *self.bcc]))


def in_ascii(address: str) -> str:
    """The address as it is sent: a domain in other letters becomes its `xn--` name."""
    user, _, domain = address.rpartition("@")
    return f"{user}@{domain.encode('idna').decode()}"


def shown(address: str) -> str:
    """The address, and for a domain in other letters also the name behind it, so that no look-alike passes."""
    return address if address.isascii() else f"{address} ({in_ascii(address)})"


def deliver(far: Far, mail: Mail, key: str) -> Result:
    message, words = send(far, mail, key)
    return {"message_id": message["Message-ID"], "recipients": len(mail.everybody), "answer": words}


def send(far: Far, mail: Mail, key: str, *, follows: str = "") -> tuple[EmailMessage, str]:
    """What went out, and what the server said; with `follows`, the id of another mail, as a reply to it.

    Raises NotSent, Refused or OutcomeUnknown."""
    sender = sender_of(far)
    try:
        message = composed(mail, bare(sender), key)
        recipients = [in_ascii(each) for each in mail.everybody]
    except ValueError as error:  # UnicodeError is one
        raise Refused(f"the mail cannot be written: {error}") from None
    if follows:
        message["In-Reply-To"] = message["References"] = follows
    try:
        words = smtp.send(server_of(far), message, in_ascii(sender), recipients, far.timeout)
    except (Unreachable, smtp.Declined) as error:
        later = not isinstance(error, smtp.Declined) or error.later
        raise (NotSent if later else Refused)(str(error)) from None
    except Forbidden as error:
        raise Refused(str(error)) from None
    except NoAnswer as error:
        raise OutcomeUnknown(str(error)) from None
    return message, words


def composed(mail: Mail, sender: str, key: str) -> EmailMessage:
    message = EmailMessage(policy=smtp.POLICY)
    message["From"] = in_ascii(sender)
    message["To"] = ", ".join(map(in_ascii, mail.to))
    if mail.cc:
        message["Cc"] = ", ".join(map(in_ascii, mail.cc))
    if mail.reply_to:
        message["Reply-To"] = in_ascii(mail.reply_to)
    message["Subject"] = mail.subject
    message["Date"] = formatdate()
    message["Message-ID"] = message_id(key, sender)
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: out-of-office replies stay away
    message.set_content(mail.body)
    return message


def message_id(key: str, sender: str) -> str:
    mark = hashlib.sha256(key.encode()).hexdigest()[:32]
    return f"<nightdesk.{mark}@{in_ascii(sender).rpartition('@')[2]}>"


def sender_of(far: Far) -> str:
    """The address mails come from: the connection's, or EMAIL_FROM for the desk's own."""
    return settings.EMAIL_FROM if is_the_desks(far) else str(far.config.get("sender") or "")


def is_the_desks(far: Far) -> bool:
    """Is it the connection that EMAIL_URL makes? Its row holds no server: the environment does."""
    return far.config.get("from") == "EMAIL_URL"


def security_of(config: Mapping[str, Any]) -> Any:
    return str(config.get("security") or "starttls")


def port_of(config: Mapping[str, Any]) -> int:
    """The port that is named, or the usual one of the encryption. Raises ValueError for what is none."""
    try:
        usual = smtp.PORT_OF[security_of(config)]
        return int(config.get("port") or usual)
    except (KeyError, TypeError, ValueError):
        raise ValueError("its port or its encryption makes no sense") from None


def server_of(far: Far) -> smtp.Server:
    if is_the_desks(far):
        return smtp.server_at(settings.EMAIL_URL)
    security = security_of(far.config)
    if not far.config.get("host"):
        raise Refused(f"the connection {far.slug} names no mail server")
    try:
        port = port_of(far.config)
    except ValueError as error:
        raise Refused(f"the connection {far.slug} cannot be used: {error}") from None
    username, password = str(far.config.get("username") or ""), str(far.secrets.get("password") or "")
    return smtp.Server(str(far.config["host"]), port, security, username, password)


def title(mail: Mail) -> str:
    more = f" and {len(mail.everybody) - 1} more" if len(mail.everybody) > 1 else ""
    return f"Mail to {shown(mail.to[0])}{more}: {mail.subject}"


def preview(mail: Mail) -> list[dict[str, str]]:
    """Every recipient, whole: whom it reaches is what people decide about."""
    people = [
        (spoken("To"), mail.to),
        (spoken("Cc"), mail.cc),
        (spoken("Bcc"), mail.bcc),
        (spoken("Answers to"), [mail.reply_to or ""]),
    ]
    rows = [(label, ", ".join(map(shown, filter(None, some)))) for label, some in people]
    return [
        *facts([*rows, (spoken("Subject"), mail.subject)]),
        {"label": spoken("Body"), "text": mail.body, "form": "markdown"},
    ]


EMAIL_SEND = register(
    Kind(
        name="email.send",
        system="smtp",
        tier=Tier.MEDIUM,
        safety="unsafe",
        arguments=Mail,
        deliver=deliver,
        title=title,
        preview=preview,
        pretend=lambda mail, number: {
            "message_id": f"<practice.{number}@localhost>",
            "recipients": len(mail.everybody),
        },
        reversible="A mail cannot be called back.",
        blast_radius="everybody it is addressed to",
    )
)
