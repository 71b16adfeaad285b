"""What the API takes and shows of event types."""

from typing import Any, ClassVar, Literal

from ninja import Schema
from pydantic import Field

from project.lib.pages import Filters, Words
from project.lib.schema import Moment
from triggers.models import EventType
from triggers.schemas import Strict
from triggers.shapes import without_values


class TypeFilters(Filters):
    NAME: ClassVar[str] = "event-types"
    COLUMNS: ClassVar[dict[str, str]] = {"type": "type", "mode": "mode"}

    type: Words = []
    mode: list[Literal["warn", "refuse"]] = []


class Drift(Schema):
    """A difference from the kept schema: where, what, since which event, and in how many that were looked into."""

    path: str
    what: str
    since: int
    at: str
    last: int
    count: int


class TypeRow(Schema):
    type: str
    description: str
    mode: str
    version: int
    first_at: Moment
    last_at: Moment
    count: int
    sample: int  # the newest event
    sources: list[str]
    drift: int

    @classmethod
    def of(cls, row: EventType) -> dict[str, Any]:
        facts = {name: getattr(row, name) for name in set(TypeRow.model_fields) - {"drift"}}
        return {**facts, "drift": len(row.drift)}


class TypeOut(TypeRow):
    kept_schema: dict[str, Any] = Field(serialization_alias="schema")
    settled: bool
    drift: list[Drift]  # type: ignore[assignment]

    @classmethod
    def of(cls, row: EventType, *, payload: bool = True) -> dict[str, Any]:
        schema = row.schema if payload else without_values(row.schema)
        return {**TypeRow.of(row), "drift": row.drift, "kept_schema": schema, "settled": row.is_settled}


class TypePatch(Strict):
    version: int
    kept_schema: dict[str, Any] = Field({}, alias="schema")
    description: str = ""
    mode: Literal["warn", "refuse"] = "warn"
