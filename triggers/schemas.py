"""What the API takes and shows of the machine's rows."""

import base64
import json
from functools import reduce
from operator import or_
from typing import Annotated, Any, ClassVar, Literal

from django.db.models import Case, F, Q, When
from django.db.models.functions import Coalesce, Greatest, Length
from ninja import Schema
from pydantic import ConfigDict, Field

from project.lib.pages import Filters, Instant, Number, Rows, Word, Words
from project.lib.schema import Moment
from triggers.models import Event, Refusal, Run, Trigger

Slug = Annotated[str, Field(pattern=r"^[-a-zA-Z0-9_]{1,64}$")]
Name = Annotated[str, Field(min_length=1, max_length=200)]
EventStatus = Literal["accepted", "routed", "ignored", "suppressed", "stopped", "invalid"]
RunStatus = Literal["queued", "running", "waiting", "retrying", "blocked", "succeeded", "dead", "cancelled"]
LetterStatus = Literal["open", "redriven", "dismissed"]

MOST_STEPS = 500  # of one run, the newest
LARGEST_RESULT = 64 * 1024  # characters of JSON of one step


class Strict(Schema):
    """A body in which an unknown member is a mistake, not a wish that is silently dropped."""

    model_config = ConfigDict(extra="forbid")


# --- events ---


class EventFilters(Filters):
    NAME: ClassVar[str] = "events"
    AT: ClassVar[str] = "received_at"
    COLUMNS: ClassVar[dict[str, str]] = {
        "id": "pk",
        "source": "source_slug",
        "subject": "subject",
        "status": "status",
    }

    id: list[Number] = []
    source: Words = []
    type: Words = []
    subject: Words = []
    status: list[EventStatus] = []
    since: Instant | None = None
    until: Instant | None = None
    q: Word = Field("", max_length=200)

    def narrow(self, rows: Rows) -> Rows:
        """`q` is not asked here: what it finds depends on who asks (triggers/search.py)."""
        if self.status and "routed" not in self.status:
            rows = rows.exclude(status="routed")  # said as its index says it: SQLite finds it by no other words
        return super().narrow(rows.filter(reduce(or_, map(type_like, self.type), Q())))


def type_like(pattern: str) -> Q:
    """Exactly this type; with a star at its end, all that begin so."""
    return Q(type__startswith=pattern.rstrip("*")) if pattern.endswith("*") else Q(type=pattern)


class EventRow(Schema):
    """An event without its payload. `id` and `ce_source` are the sender's, `seq` and `source` are the desk's."""

    seq: int
    id: str
    specversion: str = "1.0"
    source: str
    ce_source: str
    type: str
    subject: str
    time: Moment | None
    datacontenttype: str
    dataschema: str
    severity: str
    traceparent: str
    correlationid: str
    hops: int
    received_at: Moment
    status: str
    duplicates: int

    @classmethod
    def facts(cls, event: Event) -> dict[str, Any]:
        same = set(cls.model_fields) - {"seq", "id", "source", "specversion"}
        facts = {name: getattr(event, name) for name in same if hasattr(event, name)}
        return {**facts, "seq": event.pk, "id": event.ce_id, "source": event.source_slug}


class EventOut(EventRow):
    """`data`, `raw` (base64), `headers` and the details of outcomes are null without the right to see payloads.

    From `pruned_at` on the payload is gone for everybody."""

    data: Any = None
    raw: str | None = None
    headers: dict[str, Any] | None = None
    sanitized: int
    idempotencykey: str
    outcomes: list[dict[str, Any]]
    runs: list[int]
    repeats: list[dict[str, Any]]
    emitted_by: int | None
    pruned_at: Moment | None = None

    @classmethod
    def of(cls, event: Event, *, payload: bool) -> dict[str, Any]:
        facts = EventRow.facts(event)
        if payload:
            raw = base64.b64encode(bytes(event.raw)).decode() if event.raw is not None else None
            data = None if event.is_emptied else event.data
            facts |= {"data": data, "raw": raw, "headers": event.headers}
        repeats = Refusal.objects.repeats().filter(event=event.pk).order_by("-pk")[:100]
        return facts | {
            "sanitized": event.sanitized,
            "idempotencykey": event.idempotencykey,
            "outcomes": [shown_outcome(outcome, payload) for outcome in event.outcomes],
            "runs": list(Run.objects.working_on(event).order_by("pk").values_list("pk", flat=True)),
            "repeats": [{"id": row.pk, "at": row.at, "reason": row.reason} for row in repeats],
            "emitted_by": event.emitted_by,
            "pruned_at": event.pruned_at,
        }


def shown_outcome(outcome: dict[str, Any], payload: bool) -> dict[str, Any]:
    """The detail quotes values of the payload, so it is hidden with it."""
    return outcome if payload else {name: value for name, value in outcome.items() if name != "detail"}


class RunAgainIn(Strict):
    trigger: Slug


# --- runs ---


class RunFilters(Filters):
    NAME: ClassVar[str] = "runs"
    AT: ClassVar[str] = "queued_at"
    COLUMNS: ClassVar[dict[str, str]] = {
        "id": "pk",
        "handler": "handler",
        "status": "status",
        "event": "event_id",
    }

    id: list[Number] = []
    handler: Words = []
    trigger: Words = []
    status: list[RunStatus] = []
    event: list[Number] = []
    since: Instant | None = None
    until: Instant | None = None

    def narrow(self, rows: Rows) -> Rows:
        """Triggers are asked by their numbers: by a name of another table PostgreSQL walks all runs in their order."""
        if self.trigger:
            rows = rows.filter(
                trigger__in=list(Trigger.objects.filter(slug__in=self.trigger).values_list("pk", flat=True))
            )
        return super().narrow(rows)


class RunRow(Schema):
    id: int
    status: str
    reason: str
    handler: str
    version: str
    trigger: str | None
    event: int
    attempt: int
    crashes: int
    queued_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    waiting_for: str
    wake_at: Moment | None
    rerun_of: int | None

    @classmethod
    def facts(cls, run: Run) -> dict[str, Any]:
        other = {"version", "trigger", "event", "rerun_of"}
        facts = {name: getattr(run, name) for name in set(cls.model_fields) - other if hasattr(run, name)}
        trigger = run.trigger.slug if run.trigger else None
        links = {"trigger": trigger, "event": run.event_id, "rerun_of": run.rerun_of_id}
        return {**facts, **links, "version": run.handler_version}


def shown_error(error: dict[str, Any] | None, payload: bool) -> dict[str, Any] | None:
    """Messages and tracebacks quote values of the payload, so they are hidden with it."""
    if error is None or payload:
        return error
    return {name: value for name, value in error.items() if name in ("type", "place", "step")}


class StepOut(Schema):
    """`result` is null without the right to see payloads, and when `result_size` (bytes of JSON) is over 64 Ki."""

    name: str
    kind: str
    status: str
    attempt: int
    started_at: Moment
    finished_at: Moment | None
    result: Any = None
    result_size: int = 0
    error: Any = None

    @classmethod
    def of_run(cls, run: Run, *, payload: bool) -> list[dict[str, Any]]:
        """The newest steps in order; a large result does not even leave the database."""
        small = Case(When(result_size__lte=LARGEST_RESULT, then=F("result_json")))
        told = Greatest("size", Coalesce(Length("result_json"), 0))  # what is old has no size
        sized = run.steps.defer("result_json").annotate(result_size=told, small=small)
        return [cls.of(step, payload=payload) for step in reversed(sized.order_by("-seq")[:MOST_STEPS])]

    @classmethod
    def of(cls, step: Any, *, payload: bool) -> dict[str, Any]:
        facts = {name: getattr(step, name) for name in set(cls.model_fields) - {"result", "error"}}
        result = json.loads(step.small) if payload and step.small else None
        return {**facts, "result": result, "error": shown_error(step.error, payload)}


OF_ACTION = ("id", "kind", "tier", "title", "status", "compensates")


class RunOut(RunRow):
    """Results of the run and of its steps are null without the right to see payloads.

    Of the `steps_total` steps the newest 500 are shown. `memory_mib` is what its worker held when last seen."""

    memory_mib: int | None
    result: Any = None
    error: Any = None
    steps: list[StepOut]
    steps_total: int
    actions: list[dict[str, Any]]

    @classmethod
    def of(cls, run: Run, *, payload: bool) -> dict[str, Any]:
        actions = getattr(run, "actions")  # noqa: B009 -- the other end of a link from the layer above
        return RunRow.facts(run) | {
            "result": run.result if payload else None,
            "error": shown_error(run.error, payload),
            "steps": StepOut.of_run(run, payload=payload),
            "steps_total": run.steps.count(),
            "memory_mib": run.memory_mib,
            "actions": [
                row if payload else {**row, "title": row["kind"]} for row in actions.order_by("pk").values(*OF_ACTION)
            ],
        }


class CancelOut(Schema):
    cancel_requested: bool


class RerunIn(Strict):
    from_step: str | None = None
    reason: str = Field("", max_length=2000)
    send_again: list[str] = []


class ChoiceIn(Strict):
    choice: Literal["continue", "restart", "cancel"]


# --- dead letters ---


class LetterFilters(Filters):
    NAME: ClassVar[str] = "dead-letters"
    AT: ClassVar[str] = "last_at"
    COLUMNS: ClassVar[dict[str, str]] = {
        "id": "pk",
        "kind": "kind",
        "fingerprint": "fingerprint",
        "status": "status",
    }

    id: list[Number] = []
    kind: list[Literal["run", "action", "event"]] = []
    fingerprint: Words = []
    status: list[LetterStatus] = []
    assignee: Words = []  # by name; /nobody: of a cause that was given to nobody
    since: Instant | None = None
    until: Instant | None = None

    def narrow(self, rows: Any) -> Any:
        rows = super().narrow(rows)
        return rows.assigned_to(self.assignee) if self.assignee else rows


class LetterOut(Schema):
    id: int
    kind: str
    fingerprint: str
    handler: str
    error: dict[str, Any]
    attempts: int
    first_at: Moment
    last_at: Moment
    status: str
    subject: str
    reason: str
    redriven_as: int | None
    assignee: str | None

    @classmethod
    def of(cls, letter: Any, *, payload: bool) -> dict[str, Any]:
        """Of a letter `with_assignee()`."""
        facts = {name: getattr(letter, name) for name in set(cls.model_fields) - {"subject", "redriven_as", "error"}}
        rows = {"run": letter.run_id, "action": letter.action_id, "event": letter.event_id}
        subject = f"{letter.kind}s/{rows.get(letter.kind)}"
        links = {"subject": subject, "redriven_as": letter.redriven_as_id}
        return {**facts, **links, "error": shown_error(letter.error, payload)}


class RedriveIn(Strict):
    """`data` takes the place of the event's own for the new run; left out, it stays what it was."""

    data: Any = None
    from_: Literal["failed_step", "start"] = Field("failed_step", alias="from")
    send_again: list[str] = []
    reason: str = Field("", max_length=2000)


class DismissIn(Strict):
    reason: str = Field(max_length=2000)


class AssignIn(Strict):
    """Who looks after the letter's cause from now on, by name; null: nobody."""

    to: Name | None
