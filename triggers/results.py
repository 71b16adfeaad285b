"""What a step may return: JSON of a bounded size that comes back as it went in, or a named reason why not. Pure."""

import json
import math
import reprlib
from typing import Any

from project.lib.text import made_storable
from triggers.errors import NotJson, ResultTooLarge

INLINE = 64 * 1024  # bytes of JSON that are kept in the step's own row; more is kept as a blob
MAX_RESULT = 8 * 1024 * 1024  # bytes of JSON one step may return
MAX_RUN = 32 * 1024 * 1024  # bytes all steps of a run may return together
SHOWN = 2_000  # characters kept of a result that JSON cannot say
DEEPEST = 100  # levels
BRIEF = reprlib.Repr()
BRIEF.maxdict = BRIEF.maxlist = BRIEF.maxtuple = BRIEF.maxset = 50
BRIEF.maxstring = BRIEF.maxother = 500


def to_json(value: Any, whose: str) -> str:
    """The JSON text of a result; raises NotJson with the path of the culprit, or ResultTooLarge.

    A tuple is a list from then on, also for whoever asked first. Keys that are no texts are refused: they would come
    back as others."""
    try:
        text = written(value)
        found = "" if json.loads(text) == value else culprit(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"{whose} returned something JSON cannot say: {culprit(value) or error}") from error
    if found:
        raise NotJson(f"{whose} returned something JSON cannot say: {found}")
    if (size := size_of(text)) > MAX_RESULT:
        raise ResultTooLarge(f"{whose} returned {size:,} bytes of JSON; the most is {MAX_RESULT:,}")
    return text


def data_of(value: Any, type: str) -> str:
    """The JSON text of an event that the desk or a handler emits; raises NotJson with the path of the culprit."""
    try:
        return written(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"{type} carries something JSON cannot say: {culprit(value) or error}") from error


def written(value: Any) -> str:
    """As JSON that every database stores: letters as they are, halves of surrogate pairs as escapes."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    return text if is_utf8(text) else json.dumps(value, allow_nan=False)


def is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def size_of(text: str) -> int:
    """Bytes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def culprit(value: Any, path: str = "$", depth: int = 0) -> str:
    """Where in `value` the part is that JSON cannot say: `$.a[3]: datetime`; empty when there is none."""
    if depth > DEEPEST:
        return f"{path[:200]}…: nested more than {DEEPEST} levels deep"
    if value is None or isinstance(value, str | bool | int):
        return ""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{path}: {value}"
    parts: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                return f"{path}: the key {key!r} is a {type(key).__name__}, no text"
        parts = [(f"{path}.{key}", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return f"{path}: {type(value).__name__}"
    return next((found for where, item in parts if (found := culprit(item, where, depth + 1))), "")


def shown(value: Any) -> str:
    """A few words of a result that cannot be kept: its effect may have happened."""
    return made_storable(BRIEF.repr(value))[:SHOWN]


def readable(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts of a log line: what is no JSON is shown as Python shows it."""
    return {str(name): value if not culprit(value) else shown(value) for name, value in facts.items()}
