"""What people do with an event type: describe it, keep another schema, and say whether what does not fit is refused."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import transaction

from project.lib import json_schema
from project.lib.json_schema import BadSchema
from project.lib.live import changed
from triggers.errors import NotValid, Stale
from triggers.fitting import checker_of, misfit
from triggers.models import Event, EventType
from triggers.viewing import DOOR_BYTES

if TYPE_CHECKING:
    from project.people.models import User

LARGEST = 64 * 1024  # characters of a schema's JSON
DEEPEST = 32  # levels of it
MODES = ("warn", "refuse")
LONGEST_WORDS = 2000  # characters of a description
TRIED = 50  # newest events a schema is tried on


def change(row: EventType, *, by: "User | None", version: int, **fields: Any) -> EventType:
    """Write `schema`, `mode` or `description` when `version` is still the row's. Raises Stale, NotValid.

    A schema that is kept by a person forgets the drift from the one before and grows no more by itself."""
    checked = checked_fields(fields)
    with transaction.atomic():
        held = EventType.objects.select_for_update(no_key=True).get(pk=row.pk)
        if held.version != version:
            raise Stale(version=held.version)
        if checked.get("mode", held.mode) == "refuse" and not checked.get("schema", held.schema):
            raise NotValid("Without a schema there is nothing to refuse by.", field="mode")
        if not held.versions.exists():
            held.note_version(by=None)  # what the desk itself had learnt until now
        if "schema" in checked:
            checked |= {"drift": [], "is_settled": True}
        elif checked.get("mode") == "refuse":
            checked |= {"is_settled": True}  # what refuses does not change by what comes
        held.keep(by=by, **checked)
        changed("event_types")
    return held


def checked_fields(fields: dict[str, Any]) -> dict[str, Any]:
    if "schema" in fields:
        check_schema(fields["schema"])
    if fields.get("mode", "warn") not in MODES:
        raise NotValid("`mode` is warn or refuse.", field="mode")
    if len(fields.get("description", "")) > LONGEST_WORDS:
        raise NotValid(f"A description has at most {LONGEST_WORDS:,} characters.", field="description")
    return dict(fields)


def check_schema(schema: Any) -> None:
    """Raises NotValid for what cannot be used: no schema, too large, with references outside, or an endless pattern."""
    try:
        if not isinstance(schema, dict):
            raise BadSchema("a schema is a JSON object")
        size = json_schema.size(schema, DEEPEST)
        if size > LARGEST:
            much = "nests too deep" if math.isinf(size) else f"has {int(size):,} characters"
            raise BadSchema(f"a schema has at most {LARGEST:,} characters and {DEEPEST} levels; this one {much}")
        json_schema.check_references(schema)
        checker_of(schema)
    except BadSchema as refused:
        raise NotValid(f"{str(refused)[:1].upper()}{str(refused)[1:]}.", field="schema") from refused


@dataclass(frozen=True, slots=True)
class Fit:
    """What a schema says of one stored event; `place` is empty when it fits."""

    event: Event
    place: str = ""
    words: str = ""


def tried(row: EventType, schema: dict[str, Any]) -> Sequence[Fit]:
    """The newest events of this type that the schema would refuse, of those that still have their payload."""
    if not schema:
        return []
    check = checker_of(schema)
    rows = Event.objects.filter(type=row.type, source__isnull=False, pruned_at=None).order_by("-pk")[:TRIED]
    judged = ((event, misfit(check, event)) for event in rows if len(event.data_text) <= DOOR_BYTES)  # type: ignore[arg-type]
    return [Fit(event, *fault) for event, fault in judged if fault]
