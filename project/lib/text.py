"""Texts: what every database can hold, and times in words for sentences."""

import re
from datetime import datetime

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # PostgreSQL refuses NUL, UTF-8 the halves of a surrogate pair
REPLACED = "\ufffd"  # stands for each of them

UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def is_storable(text: str) -> bool:
    return not UNSTORABLE.search(text)


def made_storable(text: str) -> str:
    return UNSTORABLE.sub(REPLACED, text)


def span(seconds: float) -> str:
    """`4 s`, `7 min`, `3 h`, `2 d`: a length of time, cut down to its largest unit."""
    for size, word in UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {word}"
    return f"{int(seconds)} s"


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
