"""An event on its way in: the CloudEvents attributes, the exact bytes, and the keys that make it once."""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from project.lib.text import is_storable

UNREAD = object()  # nobody has parsed the data yet
LONGEST_NAME = 512  # characters of an event's id, source and subject
LONGEST_TYPE = 255  # bytes in UTF-8, so that with the longest subject it still fits an entry of PostgreSQL's indexes
LONGEST_KEY = 512  # characters; a longer key is claimed as its hash
APPROVALS = "/approvals"  # what becomes of actions
INNER = (APPROVALS, "/nightdesk")  # sources without a row: only the desk itself speaks in these names
RESERVED = ("nightdesk.", "approvals.")  # types only the desk itself may emit


@dataclass(frozen=True, slots=True, eq=False)
class Signed:
    """What the sender of one delivery signed, as a key that all its events have in common.

    Where it `claims` nothing it is only looked for: what has no id may come again, but not what came with one. Where it
    does not `count`, others are known by it and it is not: its source trusts what nobody signs."""

    key: str
    claims: bool = True
    counts: bool = True


@dataclass(slots=True)
class Arrival:
    """A cleaned candidate for an event; nothing in it touches the database."""

    source_id: int | None
    source: str  # the slug, or /approvals, /nightdesk
    ce_id: str
    ce_source: str
    type: str
    subject: str = ""
    time: datetime | None = None
    datacontenttype: str = ""
    dataschema: str = ""
    raw: bytes | None = b""  # the exact body
    data_json: str | None = None  # clean JSON text; None: `raw` is that already; "": no data
    parsed: Any = UNREAD  # the value of that text, when the door has read it
    headers: dict[str, str] = field(default_factory=dict)
    credentials: str = ""  # sealed: what proved the sender, of the headers and of the body
    taken: list[tuple[int, str]] = field(default_factory=list)  # credentials out of the body, and where they stood
    severity: str = "info"
    traceparent: str = ""
    correlationid: str = ""
    idempotencykey: str = ""
    hops: int = 0
    keys: list[tuple[str, str]] = field(default_factory=list)  # (key, reason a repeat is told)
    signed: Signed | None = None
    window: int = 7 * 86400  # seconds a key stays claimed
    sanitized: int = 0  # characters replaced by U+FFFD
    remote: str = ""
    requester_id: int | None = None
    is_own: bool = False  # what the desk itself did over there: starts nothing
    automatic: str = ""  # what a program sent that must not be answered by one, in a word: starts nothing

    @property
    def size(self) -> int:
        """Bytes of data."""
        return len(self.data_json) if self.data_json is not None else len(self.raw or b"")


def is_type(name: str) -> bool:
    """May an event be of this type, or a run wait for one?"""
    return 0 < len(name) <= LONGEST_TYPE and len(name.encode(errors="replace")) <= LONGEST_TYPE and is_storable(name)


def is_subject(name: str) -> bool:
    return len(name) <= LONGEST_NAME and is_storable(name)


def key_of(prefix: str, value: str) -> str:
    """A key for `seen`: byte-exact, hashed when it is too long to keep."""
    if len(value) > LONGEST_KEY:
        value = "sha256:" + hashlib.sha256(value.encode()).hexdigest()
    return f"{prefix}:{value}"
