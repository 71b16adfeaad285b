"""Values of somebody else's columns: as JSON, and as cursors that are kept, compared and moved back. Pure."""

import base64
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

from project.lib.text import made_storable

ANY_ZONE = timedelta(days=1)  # so far ahead may a time lie that says no zone
TIME = re.compile(r"\d{4}(-?)\d\d\1\d\d(?:(.)\d\d(:?)\d\d(\3\d\d(?:[.,](\d{1,6}))?)?(Z|[+-]\d\d(?::?\d\d)?)?)?")


def plain(value: Any) -> Any:
    """A value of a column as JSON has it; bytes in base64, what JSON has no word for as text."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else None
        case str():
            return made_storable(value)
        case datetime() | date() | time():
            return value.isoformat()
        case bytes() | memoryview():
            return base64.b64encode(bytes(value)).decode()
        case dict():
            return {made_storable(str(name)): plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
    return made_storable(str(value))


def moment_of(value: Any) -> datetime | None:
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def kept(value: Any) -> dict[str, str] | None:
    match value:
        case None:
            return None
        case datetime():
            return {"time": value.isoformat()}
        case date():
            return {"date": value.isoformat()}
        case int() | float() | Decimal():
            return {"number": str(value)}
    return {"text": str(value)}


def restored(told: dict[str, str] | None) -> Any:
    if not told:
        return None
    [(kind, text)] = told.items()
    if kind == "time":
        return datetime.fromisoformat(text)
    if kind == "date":
        return date.fromisoformat(text)
    if kind == "number":
        return int(text) if text.lstrip("-").isdigit() else float(text)
    return text


def is_placed(value: Any, latest: datetime) -> bool:
    """Whether a cursor has a place that others can lie behind: NULL, NaN, the infinities, and a time after `latest`
    have none. That is as far as the clock of the database has come: 9999-12-31 would hide all that comes later."""
    if isinstance(value, str):
        if value.lower().lstrip("+-") in ("infinity", "inf", "nan"):
            return False
        value = time_in(value) or value
    if isinstance(value, datetime):
        return value <= latest if value.tzinfo else value.replace(tzinfo=UTC) <= latest + ANY_ZONE
    if isinstance(value, date):
        return value <= (latest + ANY_ZONE).date()
    return value is not None and (not isinstance(value, float | Decimal) or isfinite(value))


def time_in(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def is_after(value: Any, other: Any) -> bool:
    """Whether it lies behind; what cannot be compared moves no cursor."""
    try:
        return other is None or bool(value > other)
    except (TypeError, ArithmeticError):  # Decimal compares no NaN
        return False


def max_of(one: Any, other: Any) -> Any:
    return other if other is not None and is_after(other, one) else one


def back(value: Any, span: timedelta, steps: float) -> Any:
    """The cursor so much earlier. Raises ValueError for a text that is no time."""
    if isinstance(value, int):
        return value - int(steps)
    if isinstance(value, Decimal):
        return value - Decimal(steps)
    if isinstance(value, float):
        return value - steps
    return back_in_text(value, span) if isinstance(value, str) else value - span


def back_in_text(text: str, span: timedelta) -> str:
    """The time so much earlier, written as that one is: texts are compared letter by letter."""
    if (found := TIME.fullmatch(text)) is None:
        raise ValueError(f"{text} is no time")
    earlier = datetime.fromisoformat(text) - span
    dash, between, colon, seconds, fraction, zone = found.groups()
    written = earlier.strftime(f"%Y{dash}%m{dash}%d")
    if between:
        written += between + earlier.strftime(f"%H{colon}%M" + (f"{colon}%S" if seconds else ""))
    if fraction:
        written += text[found.start(5) - 1] + f"{earlier.microsecond:06d}"[: len(fraction)]
    return written + (zone or "")
