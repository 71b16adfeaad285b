"""What a trigger's `limits` may say, and what follows from them for one event. Pure: the rows are counted elsewhere."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from project.lib.faults import first_fault
from triggers.errors import BadFilter, NotValid
from triggers.filters import compile_filter

WEEK = 7 * 86400
PATIENCE = 10  # times its period a debounced run waits at most, unless the trigger says otherwise

WhenBusy = Literal["queue", "queue_one", "skip", "cancel_running"]
WhenFull = Literal["drop_newest", "drop_oldest", "block"]


@lru_cache(maxsize=1024)
def stored_key(key: str) -> str:
    """The expression as it is stored; cut and checked once, for limits are read at every claim."""
    return compile_filter(key)["text"] if key.strip() else ""


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Keyed(Part):
    """What is counted apart for each value of `key`, a CEL expression over the event; empty: for the whole trigger."""

    key: str = Field(default="", max_length=500)

    @field_validator("key")
    @classmethod
    def _compiles(cls, text: str) -> str:
        try:
            return stored_key(text)
        except BadFilter as refused:
            raise ValueError(refused.detail) from refused


class Retries(Part):
    """How often a failed run is tried again, and how long it pauses in between (seconds)."""

    max: int = Field(default=3, ge=0, le=100)
    base: float = Field(default=1, ge=0, le=86400)
    factor: float = Field(default=2, ge=1, le=10)
    max_delay: float = Field(default=3600, ge=0, le=WEEK)
    jitter: Literal["full", "none"] = "full"


class Concurrency(Keyed):
    """How many runs may work at a time, and what happens to an event above that."""

    limit: int = Field(default=1, ge=1, le=10_000)
    when_busy: WhenBusy = "queue"
    waiting_counts: bool = False

    def decide(self, live: int) -> Literal["start", "skip", "replace"]:
        """`live`: runs of this key that work, or will as soon as they may."""
        if live < self.limit or self.when_busy == "queue":
            return "start"
        if self.when_busy == "cancel_running":
            return "replace"
        return "start" if self.when_busy == "queue_one" and live == self.limit else "skip"


class RateLimit(Keyed):
    """At most `limit` runs start in any `period` (seconds); the others start later."""

    limit: int = Field(ge=1, le=10_000)
    period: float = Field(default=60, ge=1, le=WEEK)

    def turn(self, now: datetime, before: datetime | None) -> datetime:
        """When the next run may start; `before`: the turn of the run that is `limit` places ahead, if there is one."""
        return max(now, before + timedelta(seconds=self.period)) if before else now


class Debounce(Keyed):
    """One run for all events that follow each other within `period` (seconds), after `max_wait` in any case."""

    period: float = Field(ge=1, le=WEEK)
    max_wait: float = Field(default=0, ge=0, le=WEEK)

    @model_validator(mode="after")
    def _waits_long_enough(self) -> Self:
        self.max_wait = self.max_wait or min(WEEK, PATIENCE * self.period)
        if self.max_wait < self.period:
            raise ValueError("max_wait is at least the period")
        return self

    def due(self, now: datetime, first: datetime) -> datetime:
        """When the run starts that gathers since `first`, if nothing more comes."""
        return min(now + timedelta(seconds=self.period), first + timedelta(seconds=self.max_wait))


class Queue(Part):
    """How many runs may wait to be taken up, and what happens to an event above that."""

    limit: int = Field(default=1000, ge=1, le=1_000_000)
    when_full: WhenFull = "drop_newest"


class Limits(Part):
    """`timeout` is in seconds for one attempt."""

    timeout: float = Field(default=300, ge=1, le=WEEK)
    retries: Retries = Retries()
    concurrency: Concurrency | None = None
    rate_limit: RateLimit | None = None
    debounce: Debounce | None = None
    queue: Queue | None = None

    @property
    def hold_back(self) -> bool:
        """Whether an event needs more than its own row to know what it starts."""
        return bool(self.concurrency or self.rate_limit or self.debounce or self.queue)

    @property
    def keys(self) -> dict[str, str]:
        """The CEL expressions by the name of the limit they belong to."""
        keyed = {"concurrency": self.concurrency, "rate_limit": self.rate_limit, "debounce": self.debounce}
        return {name: part.key for name, part in keyed.items() if part and part.key}


def read_limits(given: Mapping[str, Any]) -> dict[str, Any]:
    """The limits with their defaults filled in. Raises NotValid naming the field."""
    try:
        return Limits.model_validate(dict(given)).model_dump(exclude_none=True)
    except ValidationError as error:
        field, said = first_fault(error)
        raise NotValid(f"limits.{field}: {said}", field=f"limits.{field}") from error
