"""What the API takes and shows of sources, their refusals, triggers and the switch."""

import base64
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

from ninja import Schema
from pydantic import Field

from project.lib.pages import Filters, Instant, Words
from project.lib.schema import Moment
from triggers import overflow
from triggers.models import Refusal, Source, Trigger, Watch
from triggers.models.rhythm import SHORTEST
from triggers.schemas import Name, Slug, Strict
from triggers.unusable import standing_warning
from triggers.vitals import vitals_of


class SecretIn(Strict):
    value: str = Field(min_length=1, max_length=4096)
    ends_at: Instant | None = None


class RateLimit(Strict):
    limit: int = Field(ge=1, le=1_000_000)
    period: int = Field(ge=1, le=86400)


class SourceFields(Strict):
    """What may be said of a source, new or changed."""

    name: Name = ""
    enabled: bool = True
    config: dict[str, Any] = {}
    secrets: list[SecretIn] = []
    types: list[str] = Field([], max_length=100)
    idempotency_key: str = ""
    rate_limit: RateLimit | None = RateLimit(limit=600, period=60)
    on_overload: Literal["refuse", "accept"] | None = None  # null: as its provider needs it
    dedupe_window: int | None = Field(None, ge=60, le=366 * 86400)  # null: what the provider's retries ask for
    max_body: int | None = Field(None, ge=1, le=64 * 1024 * 1024)
    expect_every: Literal[0] | Annotated[int, Field(ge=SHORTEST, le=366 * 86400)] | None = None
    actor: str = Field("", max_length=200)


class SourceIn(SourceFields):
    slug: Slug
    kind: str = Field(max_length=32)
    provider: str = Field("", max_length=64)


class SourcePatch(SourceFields):
    version: int


class RequestIn(Strict):
    """One real request, as it came: `body` as text, or `body_base64`; `url` is our address as the sender has it."""

    headers: dict[str, str] = Field(max_length=200)
    body: str = Field("", max_length=1_000_000)
    body_base64: str = Field("", max_length=1_400_000)
    query: str = Field("", max_length=8000)
    url: str = Field("", max_length=2000)
    secret: str = Field(min_length=1, max_length=4096)


class FitOut(Schema):
    """A provider and the config of a source that would have taken it."""

    provider: str
    config: dict[str, Any]


class FitsOut(Schema):
    fits: list[FitOut]


EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)  # of what is previewed


class PreviewIn(Strict):
    """A schedule as it would be saved; its next `count` slots after `after`, else after now."""

    config: dict[str, Any]
    count: int = Field(5, ge=1, le=100)
    after: Annotated[Instant, Field(ge=EARLIEST, le=LATEST)] | None = None


class SlotOut(Schema):
    """A slot: when, the same on the schedule's clock, and what a clock change does to it."""

    at: Moment
    local: str
    note: str = ""


class SkippedOut(Schema):
    """A time of the schedule's clock at which it does not ring, since a clock change takes it away."""

    local: str
    note: str


class PreviewOut(Schema):
    """A schedule in words, what is odd about it, and when it rings."""

    words: str
    warnings: list[str]
    fires: list[SlotOut]
    left_out: list[SkippedOut]


class SourceFilters(Filters):
    NAME: ClassVar[str] = "sources"
    COLUMNS: ClassVar[dict[str, str]] = {"kind": "kind", "provider": "provider"}

    kind: Words = []
    provider: Words = []


class WatchOut(Schema):
    """How a source that is listened to is doing."""

    status: str
    mode: str
    files: int
    since: Moment | None
    looked_at: Moment | None
    recovered: int
    detail: str
    facts: dict[str, Any] | None

    @classmethod
    def of(cls, source: Source) -> dict[str, Any] | None:
        row = Watch.objects.filter(source=source).first() if source.kind in Source.LISTENED else None
        return {name: getattr(row, name) for name in cls.model_fields} if row else None


class VitalsOut(Schema):
    """How it rings: `rhythm` in words, `every` seconds within which it usually rings, and what was turned away."""

    last_at: Moment | None
    every: float | None
    rhythm: str
    next_expected: Moment | None
    silent_at: Moment | None
    clock_skew: float | None
    refused: dict[str, int]
    repeats: int

    @classmethod
    def of(cls, source: Source) -> dict[str, Any]:
        found = vitals_of(source)
        rhythm = found.rhythm
        return {
            "last_at": rhythm.last_at if rhythm else None,
            "every": rhythm.expects(source.expect_every) if rhythm else source.expect_every,
            "rhythm": rhythm.words if rhythm else "",
            "next_expected": found.next_expected,
            "silent_at": found.silent_at,
            "clock_skew": found.skew,
            "refused": found.refused,
            "repeats": found.repeats,
        }


class SourceOut(Schema):
    slug: str
    name: str
    kind: str
    provider: str
    enabled: bool
    config: dict[str, Any]
    secrets: list[dict[str, Any]]
    types: list[str]
    idempotency_key: str
    rate_limit: dict[str, Any] | None
    on_overload: str
    dedupe_window: int
    max_body: int | None
    expect_every: int | None
    actor: str
    warning: str
    version: int
    created_at: Moment
    connected_at: Moment | None
    next_fire_at: Moment | None
    fires: int
    misses: int
    skips: int | None = None  # of its triggers; null in lists
    health: WatchOut | None = None
    vitals: "VitalsOut | None" = None  # null in lists, which ask no question for each row

    @classmethod
    def of(cls, source: Source, *, vitals: bool = False) -> dict[str, Any]:
        made = {"secrets", "health", "vitals", "skips", "warning"}
        facts = {name: getattr(source, name) for name in set(cls.model_fields) - made}
        facts |= {"secrets": source.secret_hints, "warning": standing_warning(source)}
        facts["skips"] = skips_of(source) if vitals else None
        return {**facts, "health": WatchOut.of(source), "vitals": VitalsOut.of(source) if vitals else None}


def skips_of(source: Source) -> int:
    """How many runs its triggers did not start because one was still at work."""
    return overflow.skipped(Trigger.objects.kept().filter(source=source.slug).values_list("slug", flat=True))


class RangeIn(Strict):
    since: Instant
    until: Instant


class FilledOut(Schema):
    """How many slots are rung now."""

    slots: int


class TriedOut(Schema):
    """What was found over there."""

    detail: str


class RefusalFilters(Filters):
    NAME: ClassVar[str] = "refusals"
    AT: ClassVar[str] = "at"
    COLUMNS: ClassVar[dict[str, str]] = {"reason": "reason"}

    reason: Words = []
    since: Instant | None = None
    until: Instant | None = None


class RefusalOut(Schema):
    """A delivery that became no event; its body and headers only for those who may see payloads."""

    id: int
    at: Moment
    reason: str
    answered: int
    detail: str
    size: int
    digest: str
    event: int | None
    admitted_at: Moment | None
    headers: dict[str, Any] | None = None
    body: str | None = None

    @classmethod
    def of(cls, row: Refusal, *, payload: bool) -> dict[str, Any]:
        facts = {name: getattr(row, name) for name in set(cls.model_fields) - {"id", "headers", "body"}}
        if payload:
            body = base64.b64encode(bytes(row.body)).decode() if row.body is not None else None
            facts |= {"headers": row.headers, "body": body}
        return {**facts, "id": row.pk}


class AdmittedOut(Schema):
    """What a refused delivery became after all."""

    events: list[dict[str, Any]]


# --- triggers ---


class TriggerFields(Strict):
    name: Name = ""
    enabled: bool = True
    type_pattern: str = Field("**", max_length=255)
    filter: str = ""
    config: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    mode: Literal["live", "paused"] = "live"
    priority: int = Field(5, ge=0, le=9)


class TriggerIn(TriggerFields):
    slug: Slug
    source: str = Field(max_length=64)
    handler: str = Field(max_length=200)


class TriggerPatch(TriggerFields):
    version: int
    source: str = Field("", max_length=64)
    handler: str = Field("", max_length=200)


class TriggerFilters(Filters):
    NAME: ClassVar[str] = "triggers"
    COLUMNS: ClassVar[dict[str, str]] = {"source": "source", "handler": "handler", "mode": "mode"}

    source: Words = []
    handler: Words = []
    mode: list[Literal["live", "paused"]] = []


class HealthOut(Schema):
    """How a trigger's queue is doing; `max_size` and `utilization` are null without a limit, counts stop at 10,000."""

    queue_size: int
    max_size: int | None
    utilization: float | None
    dropped: int
    processed: int


class TriggerOut(Schema):
    slug: str
    name: str
    enabled: bool
    source: str
    type_pattern: str
    filter: str
    handler: str
    config: dict[str, Any]
    limits: dict[str, Any]
    mode: str
    priority: int
    version: int
    created_at: Moment
    changed_at: Moment
    health: HealthOut | None = None  # null in lists, which ask no question for each row

    @classmethod
    def of(cls, trigger: Trigger, *, health: bool = False) -> dict[str, Any]:
        facts = {name: getattr(trigger, name) for name in set(cls.model_fields) - {"health"}}
        return {**facts, "health": overflow.health_of(trigger) if health else None}


# --- switch ---


class SwitchIn(Strict):
    scope: Literal["all", "handler", "kind", "source"]
    name: str = Field("", max_length=200)
    paused: bool
    reason: str = Field("", max_length=2000)


class SwitchOut(Schema):
    scope: str
    name: str
    paused: bool
    reason: str
    at: Moment
