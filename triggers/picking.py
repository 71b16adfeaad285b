"""The fields of a real event as clauses one can click together to a filter. Pure."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from triggers.errors import BadFilter
from triggers.filters import compile_filter
from triggers.viewing import MISSING, Readable, data_of, slug_of

MOST = 60  # fields of one event
DEEPEST = 6  # levels
LONGEST = 120  # characters of a text that is compared as a whole
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = frozenset(
    {"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"}
    | {"namespace", "null", "package", "return", "true", "var", "void", "while"}
)
ONE = "item"  # the variable of a comprehension


@dataclass(frozen=True, slots=True)
class Field:
    """One value of an event: where it stands, what it is, and the clause that asks for it."""

    path: str
    shown: str
    clause: str


def fields_of(event: Readable) -> list[Field]:
    """The first MOST of them, the envelope first."""
    return [field for _, field in zip(range(MOST), every_field(event), strict=False)]


def every_field(event: Readable) -> Iterator[Field]:
    yield compared("event.type", event.type)
    if slug := slug_of(event):
        yield compared("event.source", slug)
    if event.subject and len(event.subject) <= LONGEST:
        yield compared("event.subject", event.subject)
    data = data_of(event)
    if data is not MISSING:
        yield from inside("event.data", data, 0)


def inside(path: str, value: Any, depth: int) -> Iterator[Field]:
    if is_plain(value):
        yield compared(path, value)
    elif isinstance(value, dict) and depth < DEEPEST:
        for name, item in value.items():
            yield from inside(f"{path}{step(name)}", item, depth + 1)
    elif isinstance(value, list):
        yield from of_list(path, value)


def of_list(path: str, items: list[Any]) -> Iterator[Field]:
    """That one of its items is, or has, what the first one is, or has."""
    first = items[0] if items else None
    if is_plain(first):
        yield any_item(path, f"{path}[]", ONE, first)
    elif isinstance(first, dict):
        for name, value in first.items():
            if is_plain(value):
                yield any_item(path, f"{path}[]{step(name)}", f"{ONE}{step(name)}", value)


def any_item(path: str, shown: str, inner: str, value: Any) -> Field:
    return Field(shown, literal(value), f"{path}.exists({ONE}, {inner} == {literal(value)})")


def compared(path: str, value: Any) -> Field:
    return Field(path, literal(value), f"{path} == {literal(value)}")


def is_plain(value: Any) -> bool:
    """Whether it can be compared as it is: a short text, a yes or no, a whole number of 64 bits."""
    if isinstance(value, str):
        return len(value) <= LONGEST
    return isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63)


def step(name: str) -> str:
    return f".{name}" if WORD.fullmatch(name) and name not in RESERVED else f"[{literal(name)}]"


def literal(value: Any) -> str:
    """As CEL writes it; JSON's escapes are CEL's too, as long as no letter is split into halves."""
    return json.dumps(value, ensure_ascii=False)


def joined(filter: str, clause: str) -> str:
    """`filter` that asks for `clause` as well, unless one of its own clauses does."""
    before = filter.strip()
    if not before:
        return clause
    if clauses_in(clause) <= clauses_in(before):
        return before
    end = "\n" if "//" in before.rpartition("\n")[2] else ""  # what follows a comment would belong to it
    return f"({before}{end}) && {clause}" if "||" in before or "?" in before else f"{before}{end or ' '}&& {clause}"


def clauses_in(filter: str) -> set[str]:
    """What it asks for, part by part; of what does not compile, all of it as one."""
    try:
        return {one["text"] for one in compile_filter(filter)["clauses"]}
    except BadFilter:
        return {filter}
