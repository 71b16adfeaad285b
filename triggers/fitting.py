"""Whether an event's data is what its type says, and in words what is not. Pure."""

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Any

import jsonschema_rs
import orjson

from project.lib.json_schema import BadSchema, Validator, compiled, place_of
from triggers.shapes import type_name
from triggers.viewing import MISSING, Readable, data_of

logger = logging.getLogger("nightdesk.types")
MOST_FAULTS = 10  # of one value
LONGEST_WORDS = 500  # characters of one fault
LONGEST_PLACE = 255  # of where it is, as a dead letter keeps it: senders choose the names of members


def checker_of(schema: dict[str, Any]) -> Validator:
    """Made once for each text. Raises BadSchema."""
    return compiled(orjson.dumps(schema).decode())


def readable(type: str, schema: dict[str, Any]) -> Validator | None:
    """The checker of a type's schema as its row has it; None when nobody can read it (any more)."""
    try:
        return checker_of(schema)
    except BadSchema as unreadable:
        logger.error("The schema of the type %s cannot be read: %s", type, unreadable)
        return None


def faults_in(check: Validator, value: Any) -> Iterator[tuple[str, str]]:
    """`(data.path, in words)` of the first few faults, without a word of the data itself. Items share one path."""
    for error in islice(check.iter_errors(value), MOST_FAULTS):
        parts = ["[]" if isinstance(part, int) else str(part) for part in error.instance_path]
        missing = [error.kind.as_dict()["property"]] if error.kind.name == "required" else []
        yield named("data", *parts, *missing), words_of(error)


def named(*parts: str) -> str:
    return ".".join(parts)[:LONGEST_PLACE]


def words_of(error: jsonschema_rs.ValidationError) -> str:
    kind = error.kind.name
    if kind == "required":
        return "is missing"
    if kind == "type":
        return f"is {type_name(error.instance)}"
    if kind in ("enum", "const"):
        return "is none of the known values"
    return f"does not fit `{kind}`"


def misfit(check: Validator, event: Readable) -> tuple[str, str] | None:
    """The place and the sentence of the first fault of an event's data; the sentence quotes the data."""
    value = data_of(event)
    if value is MISSING:
        value = None  # no data at all, or none a reader understands
    try:
        error = next(check.iter_errors(value), None)
    except ValueError as refused:  # a number no reader of schemas understands
        return "data", str(refused)[:LONGEST_WORDS]
    return (place_of(error, "data")[:LONGEST_PLACE], error.message[:LONGEST_WORDS]) if error else None
