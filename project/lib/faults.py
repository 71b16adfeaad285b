"""What pydantic found wrong, as the place and the sentence people read. The value itself is never repeated."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

Place = tuple[str | int, ...]  # the members and numbers that lead there; empty for what is said of the whole


def faults(error: ValidationError) -> Iterator[tuple[Place, str]]:
    return read_faults(error.errors(include_url=False, include_input=False, include_context=False))


def read_faults(items: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Place, str]]:
    """The same of pydantic's own list, as ninja hands it on."""
    for item in items:
        yield tuple(item["loc"]), str(item["msg"]).removeprefix("Value error, ")


def first_fault(error: ValidationError) -> tuple[str, str]:
    """The first of them, its place as `a.b.0`."""
    place, said = next(faults(error))
    return ".".join(map(str, place)), said
