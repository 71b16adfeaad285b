"""What the API takes and shows of a trial: what a trigger would do, saved or not."""

from typing import Any, Literal

from ninja import Schema
from pydantic import Field

from project.lib.pages import Instant, Number
from project.lib.schema import Moment
from triggers.models import Trigger
from triggers.schemas import Strict
from triggers.trying import TRIED, Trial


class DraftIn(Strict):
    """What is not saved: each member stands for that of the trigger, or for all of one that is not there yet."""

    source: str | None = Field(None, max_length=64)
    type_pattern: str | None = Field(None, max_length=255)
    filter: str | None = Field(None, max_length=4096)
    handler: str | None = Field(None, max_length=200)

    def over(self, saved: Trigger | None) -> Trigger:
        """The trigger as it would be; it is not saved."""
        row = saved or Trigger(source="*", type_pattern="**")
        for name, value in self.model_dump(exclude_none=True).items():
            setattr(row, name, value)
        return row


class TrialIn(Strict):
    """`event`: the number of a stored one, or a CloudEvents object that did not happen. Without it the newest events
    of the trigger's source, received `since` then. `sample` is the name of a made-up delivery; `estimate` asks how
    often it would have run in the last 30 days. `draft` tries what is not saved."""

    draft: DraftIn | None = None
    event: Number | dict[str, Any] | None = None
    sample: str = ""
    since: Instant | None = None
    after: int | None = Field(None, ge=0)  # a number: what came since then, also while the trigger is off
    limit: int = Field(TRIED, ge=1, le=200)
    estimate: bool = False


class TrialOut(Schema):
    """`seq` is null for an event that did not happen; `detail` quotes the payload and is hidden with it."""

    seq: int | None
    type: str
    outcome: Literal["matched", "not_matched", "could_not_evaluate"]
    clause: str
    detail: str | None = None

    @classmethod
    def of(cls, trial: Trial, *, payload: bool) -> dict[str, Any]:
        event, verdict = trial.event, trial.verdict
        told = {"seq": getattr(event, "pk", None), "type": event.type}
        return told | {
            "outcome": verdict.outcome,
            "clause": verdict.clause,
            "detail": verdict.detail if payload or not verdict.clause else None,
        }


class EstimateOut(Schema):
    """Of `looked` events since then it would have run `matched`; `approvals` by what its runs asked so far."""

    looked: int
    matched: int
    unclear: int
    since: Moment | None
    approvals: int | None
    is_cut: bool


class TrialsOut(Schema):
    matched: int
    events: list[TrialOut]
    estimate: EstimateOut | None = None
