"""Values of somebody else's columns: as JSON, and as cursors that are kept, compared and moved back. Pure."""

import base64
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

from project.lib.text import made_storable


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


def is_placed(value: Any) -> bool:
    """Whether a cursor has a place that others can lie behind: NULL, NaN and the infinities have none."""
    if isinstance(value, str):
        return value.lower().lstrip("+-") not in ("infinity", "inf", "nan")
    return value is not None and (not isinstance(value, float | Decimal) or isfinite(value))


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
    if isinstance(value, str):
        earlier = datetime.fromisoformat(value) - span
        if len(value) <= 10:
            return earlier.date().isoformat()
        text = earlier.isoformat(sep=value[10], timespec="microseconds" if "." in value else "seconds")
        return text.replace("+00:00", "Z") if value.endswith("Z") else text
    return value - span
