"""What a step was asked with, and how that differs from what the code asks now. Pure."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from project.lib.text import is_storable, made_storable

SMALL = 256  # characters of one argument that are kept as they are
BEGINNING = 80  # of a longer one
MOST = 4_000  # characters kept of all arguments


@dataclass(frozen=True, slots=True)
class Input:
    """The arguments of one step: a hash to compare, and a text for people."""

    hash: str = ""  # empty: they are not JSON, and are not compared
    text: str = ""

    @classmethod
    def of(cls, arguments: tuple[Any, ...], named: dict[str, Any]) -> "Input":
        try:
            whole = canonical([arguments, named])
        except (TypeError, ValueError, RecursionError):
            return cls()
        digest = hashlib.sha256(whole.encode()).hexdigest()
        if len(whole) <= SMALL:
            return cls(digest, stored(whole))
        cut = [[brief(argument) for argument in arguments], {name: brief(value) for name, value in named.items()}]
        return cls(digest, stored(canonical(cut)))


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def stored(text: str) -> str:
    """Readable letters where every database takes them; too many arguments are not kept."""
    if len(text) > MOST:
        return ""
    plain = json.dumps(json.loads(text), ensure_ascii=False)
    return plain if is_storable(plain) else made_storable(text)


def brief(argument: Any) -> Any:
    """A short argument as it is, a long one as its beginning, its length and a hash that tells it from others."""
    text = canonical(argument)
    if len(text) <= SMALL:
        return argument
    mark = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{text[:BEGINNING]}… ({len(text):,} characters, {mark})"


def differences(before: str, after: str) -> list[dict[str, str]]:
    """`{argument, before, now}` for each argument that differs, as far as their texts were kept."""
    old, new = named(before), named(after)
    if not old or not new:
        return []
    names = [*old, *(name for name in new if name not in old)]
    return [
        {"argument": name, "before": old.get(name, "nothing"), "now": new.get(name, "nothing")}
        for name in names
        if old.get(name) != new.get(name)
    ]


def named(text: str) -> dict[str, str]:
    """Every argument by a name for people: `argument 1`, or its own."""
    if not text:
        return {}
    plain, by_name = json.loads(text)
    places = {f"argument {number}": value for number, value in enumerate(plain, 1)} | by_name
    return {name: json.dumps(value, ensure_ascii=False) for name, value in places.items()}
