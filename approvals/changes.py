"""What an edit changed, argument by argument, as people read it. Pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from project.lib.jsontext import line_difference

ABSENT = object()
AROUND = 2  # unchanged lines shown around a changed one


@dataclass(frozen=True, slots=True)
class Change:
    """One argument that differs: where it stands (`files[0].content`), and its lines as (add | del | same, text)."""

    label: str
    lines: list[tuple[str, str]]


def changes(before: Any, after: Any, label: str = "") -> Iterator[Change]:
    """Everything that differs, from the outside in."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*before, *(name for name in after if name not in before)]:
            place = f"{label}.{name}" if label else str(name)
            yield from changes(before.get(name, ABSENT), after.get(name, ABSENT), place)
    elif isinstance(before, list) and isinstance(after, list):
        for at in range(max(len(before), len(after))):
            old, new = (value[at] if at < len(value) else ABSENT for value in (before, after))
            yield from changes(old, new, f"{label}[{at}]")
    elif type(before) is not type(after) or before != after:
        yield Change(label, line_difference(said(before), said(after), around=AROUND))


def said(value: Any) -> list[str]:
    """A value in lines: a text as it is, anything else as JSON; none for what is not there."""
    if value is ABSENT:
        return []
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return text.split("\n") if text else ["(empty)"]
