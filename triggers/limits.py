"""What a trigger's `limits` may say: read whole, refused by name where Nightdesk cannot do it yet. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from project.lib.faults import first_fault
from triggers.errors import NotValid, NotYet

LATER = ("rate_limit", "debounce", "queue")  # of the contract, not of this release


class Retries(BaseModel):
    """How often a failed run is tried again, and how long it pauses in between (seconds)."""

    model_config = ConfigDict(extra="forbid")

    max: int = Field(default=3, ge=0, le=100)
    base: float = Field(default=1, ge=0, le=86400)
    factor: float = Field(default=2, ge=1, le=10)
    max_delay: float = Field(default=3600, ge=0, le=7 * 86400)
    jitter: Literal["full", "none"] = "full"


class Concurrency(BaseModel):
    """How many runs of one trigger there may be at a time, and what happens to an event above that."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=1, ge=1)
    key: str = ""
    when_busy: Literal["queue", "queue_one", "skip", "cancel_running"] = "queue"
    waiting_counts: bool = False


class Limits(BaseModel):
    """`timeout` is in seconds for one attempt."""

    model_config = ConfigDict(extra="forbid")

    timeout: float = Field(default=300, ge=1, le=7 * 86400)
    retries: Retries = Retries()
    concurrency: Concurrency | None = None


def read_limits(given: Mapping[str, Any]) -> dict[str, Any]:
    """The limits with their defaults filled in. Raises NotValid naming the field, NotYet for what comes later."""
    for name in LATER:
        if given.get(name) is not None:
            raise NotYet(f"`{name}` does not work yet", field=name)
    try:
        limits = Limits.model_validate({key: value for key, value in given.items() if key not in LATER})
    except ValidationError as error:
        field, said = first_fault(error)
        raise NotValid(f"limits.{field}: {said}", field=f"limits.{field}") from error
    busy = limits.concurrency
    if busy and (busy.limit != 1 or busy.when_busy != "skip" or busy.key):
        said = "`concurrency` can be {limit: 1, when_busy: skip} for now; other values do not work yet"
        raise NotYet(said, field="concurrency")
    return limits.model_dump(exclude_none=True)
