"""JSON schemas (draft 2020-12) that others wrote, kept from doing harm: bounded, without look-ups outside themselves,
their patterns for a linear engine only."""

import json
import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jsonschema_rs
import orjson

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
NAMES = ("$id", "$anchor", "$dynamicAnchor")  # with these, a reference would mean something else
INSIDE = "#/$defs/"
PLAIN = re.compile(r"[\w.-]+")  # letters, digits, _ . -
PATTERNS = jsonschema_rs.RegexOptions(size_limit=256 * 1024, dfa_size_limit=1024 * 1024)
LONGEST = 20_000  # characters of one that a server told; to compile more takes long
Validator = jsonschema_rs.Draft202012Validator


class BadSchema(ValueError):
    """This is no schema that can be used here; its text says why."""


def check_references(schema: dict[str, Any], *, called: str = "schema") -> None:
    """A schema refers to nothing but its own `$defs`, and these to nothing at all. Raises BadSchema."""
    shared = schema.get("$defs")
    if any(name in part for part in objects(shared) for name in REFERENCES):
        raise BadSchema("what stands under `$defs` may not refer to anything")
    for part in objects(schema):
        if any(name in part for name in NAMES):
            raise BadSchema(f"a {called} and its parts have no names of their own")
        refers = [part[name] for name in REFERENCES if name in part]
        if not all(is_shared(target, shared) for target in refers):
            raise BadSchema(f"a {called} refers to nothing but the objects of its own `{INSIDE}<name>`")


def is_shared(target: Any, shared: Any) -> bool:
    """Does it name one object under `$defs`, by a name that stands for itself in a reference?"""
    name = target.removeprefix(INSIDE) if isinstance(target, str) and target.startswith(INSIDE) else ""
    return bool(PLAIN.fullmatch(name)) and isinstance(shared, dict) and isinstance(shared.get(name), dict)


def validator(schema: dict[str, Any]) -> Validator:
    """Raises BadSchema for what is no JSON schema, or has a pattern that no linear engine takes."""
    try:
        return Validator(
            schema, validate_formats=True, ignore_unknown_formats=True, offline=True, pattern_options=PATTERNS
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise BadSchema(f"this is no JSON schema: {str(error).splitlines()[0][:200]}") from None


def bounded(schema: dict[str, Any]) -> Validator:
    """The same of one that a server told: at most LONGEST, and it refers to nothing outside. Raises BadSchema."""
    if len(json.dumps(schema)) > LONGEST:
        raise BadSchema(f"a schema has at most {LONGEST:,} characters here")
    check_references(schema)
    return validator(schema)


@lru_cache(maxsize=512)
def compiled(text: str) -> Validator:
    """The validator of a schema's JSON text, made once."""
    return validator(orjson.loads(text))


def place_of(error: jsonschema_rs.ValidationError, *before: str) -> str:
    """Where in the value it is, items by their number; a member that is missing is named itself."""
    missing = [error.kind.as_dict()["property"]] if error.kind.name == "required" else []
    return ".".join([*before, *(str(part) for part in [*error.instance_path, *missing])])


def size(value: Any, deepest: int, depth: int = 0) -> float:
    """Roughly the characters of its JSON; infinite when it is too deep or no JSON at all."""
    if depth > deepest:
        return math.inf
    if isinstance(value, dict):
        return 2 + sum(4 + len(str(name)) + size(part, deepest, depth + 1) for name, part in value.items())
    if isinstance(value, list | tuple):
        return 2 + sum(1 + size(part, deepest, depth + 1) for part in value)
    if isinstance(value, float) and not math.isfinite(value):
        return math.inf
    return len(str(value)) if isinstance(value, int | float | str | bool | None) else math.inf


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside `value`, itself included."""
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(part)
