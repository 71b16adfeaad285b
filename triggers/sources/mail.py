"""A mailbox as a source: which folders are read, and how one mail, however broken, becomes an event.

A mail is known by its account and Message-ID; one without is known by the hash of what it holds."""

import base64
import hashlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.parser import BytesFeedParser
from email.policy import Compat32
from email.utils import getaddresses, parsedate_to_datetime
from itertools import islice
from typing import Any, Literal

from imap_tools import MailAttachment
from pydantic import Field, field_validator

from project.lib.schema import rfc3339
from project.lib.text import UNSTORABLE, made_storable
from project.lib.text import decoded as in_named
from triggers.errors import BadDelivery
from triggers.sources.farside import FarSide, parse, refuse_closed

PORTS = (143, 993)
PORT_OF = {"tls": 993, "starttls": 143, "none": 143}  # by the encryption, when none is named (RFC 8314)
LONGEST_TEXT = 512 * 1024  # characters of text or HTML in the event's data
LONGEST_LINE = 2000  # characters of one header
LONGEST_HEADER = 8 * LONGEST_LINE  # characters of it that are read at all: some of its time grows with their square
MOST_ALIKE = 10  # headers of one name
MOST_PEOPLE = 200  # addresses of one header
MOST_PARTS = 500  # of one mail
MOST_HEADERS = 20_000  # of all its parts
PIECE = 64 * 1024  # bytes that are taken apart between two looks at the clock
PATIENCE = 20.0  # seconds of a processor for one mail
LIST = "list"  # why no program may answer what a person wrote to many
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

    lists: Literal["take", "suppress"] = Field(
        "take",
        title="Mail of lists",
        description="People write it, to many: an answer reaches them all. suppress keeps it and starts nothing.",
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

    def suppresses(self, automatic: str) -> bool:
        """Whether mail that no program may answer for this reason starts nothing."""
        return bool(automatic) and (self.lists if automatic == LIST else self.automatic) == "suppress"


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
    """Raises one of UNREADABLE for what no reader of mail can take apart, BadDelivery for what takes one too long."""
    until = time.thread_time() + PATIENCE
    message = parsed(raw, until)
    named = header(message, "Message-ID")
    people = {name.lower().replace("-", "_"): addresses_of(message, name) for name in ("From", "To", "Cc", "Reply-To")}
    sent = date_of(message)
    text, html, attached = contents(message, until)
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


class AsItCame(Compat32):
    """Headers are read as far as anybody reads on; whatever is written again is written as it came."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        return super().header_fetch_parse(name, value[:LONGEST_HEADER])

    def fold_binary(self, name: str, value: str) -> bytes:
        return f"{name}: {value}{self.linesep}".encode("ascii", "surrogateescape")


def parsed(raw: bytes, until: float) -> Message:
    """Its parts. The time that takes may grow with its lines times its levels."""
    parser: BytesFeedParser[Message] = BytesFeedParser(policy=AsItCame())
    for start in range(0, len(raw), PIECE):
        parser.feed(raw[start : start + PIECE])
        refuse_late(until)
    message = parser.close()
    if sum(len(part) for part in message.walk()) > MOST_HEADERS:
        raise BadDelivery(f"It has over {MOST_HEADERS:,} headers.")
    return message


def refuse_late(until: float) -> None:
    if time.thread_time() > until:
        raise BadDelivery(f"Reading it takes over {PATIENCE:.0f} s of a processor.")


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
    if precedence in ("auto_reply", "bulk", "junk"):
        return precedence
    if precedence == LIST or any(name in message for name in ("List-Id", "List-Post", "List-Unsubscribe")):
        return LIST
    unwanted = header(message, "X-Auto-Response-Suppress").lower()
    return "no-reply" if any(word in unwanted for word in ("all", "oof", "autoreply")) else ""


def date_of(message: Message) -> datetime | None:
    """When the sender says it wrote; None for what is no time, or none that can be kept."""
    try:
        moment = parsedate_to_datetime(header(message, "Date"))
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ArithmeticError, IndexError, TypeError, ValueError):
        return None
    return moment if 1970 <= moment.year <= 2200 else None


def addresses_of(message: Message, name: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for value in values(message, name):
        line = one_line(value, decode=False, most=LONGEST_HEADER)
        try:
            people = [(one_line(who), address.strip()) for who, address in getaddresses([line])]
        except UNREADABLE:
            people = [(line[:LONGEST_LINE], "")]  # brackets within brackets without end
        found += [{"name": who, "address": made_storable(address)} for who, address in people if who or address]
        if len(found) >= MOST_PEOPLE:
            break
    return found[:MOST_PEOPLE]


def header(message: Message, name: str) -> str:
    """The first header of this name as one line of text."""
    return one_line(next(values(message, name), ""))


def values(message: Message, name: str) -> Iterator[str]:
    """The headers of this name as they came, bytes beyond ASCII as surrogates; as far as anybody reads on."""
    alike = (str(value) for known, value in message.raw_items() if known.lower() == name.lower())
    return (value[:LONGEST_HEADER] for value in islice(alike, MOST_ALIKE))


def one_line(value: Any, *, decode: bool = True, most: int = LONGEST_LINE) -> str:
    """A header as one line of text: folded lines and control characters are spaces, whatever it was encoded in."""
    text = decoded(str(value or "")) if decode else str(value or "")
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return " ".join("".join(c if c.isprintable() else " " for c in made_storable(text)).split())[:most]


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
        return in_named(content, named, "replace")
    except (LookupError, ValueError):
        return content.decode("utf-8", "replace")


def contents(message: Message, until: float) -> tuple[str, str, list[Attached]]:
    """Its plain text, its HTML, and what hangs on it; a mail inside a mail hangs on it whole."""
    texts: dict[str, list[str]] = {"text/plain": [], "text/html": []}
    attached: list[Attached] = []
    for part in leaves(message):
        refuse_late(until)
        kind = part.get_content_type()
        if kind in texts and not part.get_filename():
            payload = part.get_payload(decode=True)
            content = payload[: 4 * LONGEST_TEXT] if isinstance(payload, bytes) else b""  # no charset needs more
            if sum(map(len, texts[kind])) < LONGEST_TEXT:
                texts[kind].append(in_charset(content, part.get_content_charset()))
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
        if part.get_content_maintype() == "multipart" and part.is_multipart():
            waiting += reversed(inside(part))
        else:
            yield part


def attachment(part: Message) -> Attached:
    try:
        name, content = one_line(MailAttachment(part).filename), content_of(part)
    except UNREADABLE:
        name, content = "", None
    return Attached(name, part.get_content_type()[:200], content)


def content_of(part: Message) -> bytes:
    """What a part holds; a mail inside a mail as it came."""
    if not part.is_multipart():
        payload = part.get_payload(decode=True)  # undecoded it would be read in any charset it names
        return payload if isinstance(payload, bytes) else b""
    first = next((each.as_bytes() for each in inside(part)), b"")
    how = str(part.get("content-transfer-encoding", "")).strip().lower()
    return base64.b64decode(first) if how == "base64" else first


def inside(part: Message) -> list[Message]:
    """The parts of one that has some."""
    parts: Any = part.get_payload()
    return [each for each in parts if isinstance(each, Message)]
