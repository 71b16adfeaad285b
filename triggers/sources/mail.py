"""A mailbox as a source: which folders are read, and how one mail, however broken, becomes an event.

A mail is known by its account and Message-ID; one without is known by the hash of what it holds."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from typing import Any, Literal

from imap_tools import MailAttachment
from pydantic import Field, field_validator

from project.lib.schema import rfc3339
from project.lib.text import UNSTORABLE, made_storable
from triggers.sources.farside import FarSide, parse, refuse_closed

PORTS = (143, 993)
PORT_OF = {"tls": 993, "starttls": 143, "none": 143}  # by the encryption, when none is named (RFC 8314)
LONGEST_TEXT = 512 * 1024  # characters of text or HTML in the event's data
LONGEST_LINE = 2000  # characters of one header
MOST_PEOPLE = 200  # addresses of one header
MOST_PARTS = 500  # of one mail
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, MessageError)


class MailSource(FarSide):
    """The `config` of a source of kind `email`; the password is its secret."""

    host: str = Field(title="IMAP server", min_length=1, max_length=253)
    port: int | None = Field(None, title="Port", description="Empty: 993, with STARTTLS 143.", ge=1, le=65535)
    security: Literal["tls", "starttls", "none"] = Field(
        "tls", title="Encryption", description="none: only to a server inside, named in EGRESS_ALLOW."
    )
    username: str = Field(title="User name", min_length=1, max_length=320)
    folders: list[str] = Field(
        ["INBOX"], title="Folders", description="One a line. A mail that lies in two of them rings once.", min_length=1
    )
    start: Literal["new", "all"] = Field(
        "new", title="Begin with", description="new: what arrives from now on. all: what lies there too."
    )
    automatic: Literal["suppress", "take"] = Field(
        "suppress",
        title="Automatic mail",
        description="Out-of-office notes, bounces, mail of programs: suppress keeps them and starts nothing, so that "
        "no two programs answer each other for ever.",
    )

    @field_validator("folders")
    @classmethod
    def folders_have_names(cls, value: list[str]) -> list[str]:
        if any(not name or len(name) > 200 or UNSTORABLE.search(name) for name in value):
            raise ValueError("each has a name of at most 200 characters")
        return list(dict.fromkeys(value))

    @property
    def number(self) -> int:
        return self.port or PORT_OF[self.security]

    @property
    def account(self) -> str:
        return f"{self.username}@{self.host}"


def parse_mailbox(config: Mapping[str, Any]) -> MailSource:
    """Raises NotValid."""
    return parse(MailSource, config)


def checked_mailbox(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config as it is saved: readable, and its server may be called. Raises NotValid."""
    mailbox = parse_mailbox(config)
    refuse_closed("host", mailbox.host, mailbox.number, PORTS, "mail")
    return mailbox.model_dump(mode="json", exclude_defaults=True)


@dataclass(slots=True)
class Attached:
    """What hangs on a mail; without `content` it could not be read."""

    name: str
    type: str
    content: bytes | None


@dataclass(slots=True)
class Mail:
    """One mail as an event tells it: `facts` is its data but for the attachments."""

    key: str  # its Message-ID, or the hash of what it holds
    facts: dict[str, Any]
    time: datetime | None
    sender: str  # the first address it comes from
    automatic: str  # why no program may answer it; empty: a person wrote it
    attached: list[Attached] = field(default_factory=list)

    @property
    def subject(self) -> str:
        return str(self.facts["subject"])


def read_mail(raw: bytes, received: datetime | None) -> Mail:
    """Raises one of UNREADABLE for what no reader of mail can take apart."""
    message = message_from_bytes(raw)
    named = header(message, "Message-ID")
    people = {name.lower().replace("-", "_"): addresses_of(message, name) for name in ("From", "To", "Cc", "Reply-To")}
    sent = date_of(message)
    text, html, attached = contents(message)
    facts = {
        "message_id": named,
        "subject": header(message, "Subject"),
        **people,
        "date": told(sent or received),
        "date_is_received": sent is None,  # the sender named no date that is one
        "in_reply_to": header(message, "In-Reply-To"),
        "references": header(message, "References").split(),
        "list_id": header(message, "List-Id"),
        "text": text,
        "html": html,
    }
    sender = people["from"][0]["address"].lower() if people["from"] else ""
    key = named or f"sha256:{hashlib.sha256(raw).hexdigest()}"
    return Mail(key, facts, sent, sender, automatic(message), attached)


def told(moment: datetime | None) -> str | None:
    return rfc3339(moment) if moment else None


def automatic(message: Message) -> str:
    """Why a program must not answer it (RFC 3834): empty for what a person wrote."""
    said = header(message, "Auto-Submitted").partition(";")[0].strip().lower()
    if said and said != "no":
        return said
    if "Return-Path" in message and header(message, "Return-Path").strip() in ("", "<>"):
        return "bounce"
    if message.get_content_type() == "multipart/report":
        return "report"
    precedence = header(message, "Precedence").lower()
    return precedence if precedence in ("auto_reply", "bulk", "junk") else ""


def date_of(message: Message) -> datetime | None:
    """When the sender says it wrote; None for what is no time, or none that can be kept."""
    try:
        moment = parsedate_to_datetime(header(message, "Date"))
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ArithmeticError, IndexError, TypeError, ValueError):
        return None
    return moment if 1970 <= moment.year <= 2200 else None


def addresses_of(message: Message, name: str) -> list[dict[str, str]]:
    raw = [one_line(value, decode=False) for value in values(message, name)]
    found = [(one_line(who), address.strip()) for who, address in getaddresses(raw)]
    return [{"name": who, "address": made_storable(address)} for who, address in found if who or address][:MOST_PEOPLE]


def header(message: Message, name: str) -> str:
    """The first header of this name as one line of text."""
    return one_line(next(iter(values(message, name)), ""))


def values(message: Message, name: str) -> list[str]:
    """All headers of this name as they came, bytes beyond ASCII as surrogates."""
    return [str(value) for known, value in message.raw_items() if known.lower() == name.lower()]


def one_line(value: Any, *, decode: bool = True) -> str:
    """A header as one line of text: folded lines and control characters are spaces, whatever it was encoded in."""
    text = decoded(str(value or "")) if decode else str(value or "")
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return " ".join("".join(c if c.isprintable() else " " for c in made_storable(text)).split())[:LONGEST_LINE]


def decoded(text: str) -> str:
    """The encoded words of a header (RFC 2047); one that is broken stays as it stands."""
    try:
        parts = decode_header(text)
    except UNREADABLE:
        return text
    return "".join(part if isinstance(part, str) else in_charset(part, charset) for part, charset in parts)


def in_charset(content: bytes, charset: str | None) -> str:
    """Text in what it says it is written in; what that cannot say, or nobody knows, is U+FFFD."""
    named = re.sub(r"[^A-Za-z0-9_.:-]", "", charset or "") or "utf-8"
    try:
        return content.decode(named, "replace")
    except (LookupError, UnicodeError, ValueError):
        return content.decode("utf-8", "replace")


def contents(message: Message) -> tuple[str, str, list[Attached]]:
    """Its plain text, its HTML, and what hangs on it; a mail inside a mail hangs on it whole."""
    texts: dict[str, list[str]] = {"text/plain": [], "text/html": []}
    attached: list[Attached] = []
    for part in leaves(message):
        kind = part.get_content_type()
        if kind in texts and not part.get_filename():
            payload = part.get_payload(decode=True)
            texts[kind].append(in_charset(payload if isinstance(payload, bytes) else b"", part.get_content_charset()))
        else:
            attached.append(attachment(part))
    text, html = (made_storable("".join(found))[:LONGEST_TEXT] for found in texts.values())
    return text, html, attached


def leaves(message: Message) -> Iterator[Message]:
    """Every part that holds something, in order; without recursion, since a mail may be nested as deep as it likes."""
    waiting, seen = [message], 0
    while waiting and seen < MOST_PARTS:
        part = waiting.pop()
        seen += 1
        inside = part.get_payload() if part.get_content_maintype() == "multipart" else None
        if isinstance(inside, list):
            waiting += [each for each in reversed(inside) if isinstance(each, Message)]
        else:
            yield part


def attachment(part: Message) -> Attached:
    told = MailAttachment(part)
    try:
        name, content = one_line(told.filename), told.payload
    except UNREADABLE:
        name, content = "", None
    return Attached(name, part.get_content_type()[:200], content)
