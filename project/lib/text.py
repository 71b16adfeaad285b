"""Texts: what every database can hold, numbers of rows in them, and times in words for sentences."""

import codecs
import difflib
import re
from collections.abc import Callable, Iterable
from datetime import datetime

from project.lib.language import spoken, words

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # PostgreSQL refuses NUL, UTF-8 the halves of a surrogate pair
REPLACED = "\ufffd"  # stands for each of them

NO_CHARSETS = ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")  # slow or no text

LONGEST_REASON = 2000  # characters of why

UNITS = ((86400, words("{n} d")), (3600, words("{n} h")), (60, words("{n} min")), (0, words("{n} s")))


def is_storable(text: str) -> bool:
    return text.isprintable() or not UNSTORABLE.search(text)  # what can be printed is neither of them, at a glance


def made_storable(text: str) -> str:
    return text if text.isprintable() else UNSTORABLE.sub(REPLACED, text)


def decoded(content: bytes, charset: str, errors: str = "strict") -> str:
    """Text in the charset that somebody else names. Raises LookupError for none of a text, or one that takes for ever
    (the time of punycode grows with the square of the length), and ValueError for bytes that do not fit."""
    if codecs.lookup(charset).name in NO_CHARSETS:
        raise LookupError(charset)
    return content.decode(charset, errors)


def reason_of(text: str, refusal: Callable[..., Exception], *, field: str = "reason") -> str:
    """What a person says of why, trimmed. Raises what `refusal` makes when it cannot be kept as it is."""
    text = text.strip()
    if len(text) > LONGEST_REASON:
        raise refusal(f"A {field} has at most {LONGEST_REASON:,} characters.", field=field)
    if not is_storable(text):
        raise refusal(f"The {field} holds a character that cannot be stored.", field=field)
    return text


def number(text: str) -> int:
    """The number of a row or a revision as a form or an address carried it; 0, which is none's, for anything else."""
    return int(text) if text.isdecimal() and len(text) < 19 else 0


def span(seconds: float) -> str:
    """`4 s`, `7 min`, `3 h`, `2 d`: a length of time, cut down to its largest unit."""
    size, told = next((unit for unit in UNITS if seconds >= unit[0]), UNITS[-1])
    return spoken(told).format(n=int(seconds // (size or 1)))


def parsed_time(value: object) -> datetime | None:
    """A time as it is, or from its RFC 3339 text; None for anything else."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence: `; did you mean x?`, or a full stop where nothing known is written like it."""
    found = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean `{found[0]}`?" if found else "."
