"""What a run remembers: the result of each step, and what it waits for."""

import json
from datetime import datetime
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q, UniqueConstraint

from project.lib.states import Moves
from triggers.envelope import LONGEST_NAME
from triggers.models.blob import Blob
from triggers.models.event import Event
from triggers.models.run import Run


class Step(models.Model):
    """The remembered result of one named step: computed once, replayed after."""

    KINDS = ("call", "now", "random", "uuid", "sleep", "wait", "emit", "log", "act", "patch")

    run = models.ForeignKey(Run, models.CASCADE, related_name="steps")
    name = models.CharField(max_length=200)  # `name#2` for the second of that name
    inside = models.CharField(max_length=200, blank=True, default="", db_default="")  # the step whose function asked
    kind = models.CharField(max_length=8, default="call")
    seq = models.PositiveIntegerField()
    status = models.CharField(max_length=8, default="done")  # started, done, failed
    input_hash = models.CharField(max_length=64, blank=True, default="")
    input_text = models.TextField(blank=True, default="", db_default="")  # the arguments, what is long of them cut
    result_json = models.TextField(null=True)  # noqa: DJ001 -- None: nothing to remember yet, or it is in `blob`
    blob = models.ForeignKey(Blob, models.PROTECT, null=True, related_name="steps")
    size = models.PositiveIntegerField(default=0, db_default=0)  # bytes of the result's JSON
    error = models.JSONField(null=True)
    attempt = models.PositiveIntegerField(default=1)
    tries = models.JSONField(null=True)  # each of them as `triggers.tries` tells it, when there were several
    fence = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [UniqueConstraint(fields=["run", "name"], name="a_step_is_remembered_once")]

    def __str__(self) -> str:
        return self.name

    @property
    def result_text(self) -> str:
        """The JSON text of the result, wherever it is kept."""
        return self.blob.text if self.blob is not None else self.result_json or ""

    @property
    def result(self) -> Any:
        return json.loads(self.result_text) if self.result_text else None


class WaitQuerySet(models.QuerySet["Wait"]):
    def end(self, verb: str, now: datetime, **fields: Any) -> int:
        """Settle those that still wait; returns how many. Who comes second ends nothing."""
        rows, values = self.ending(verb, now)
        return rows.update(**values, **fields)

    def ending(self, verb: str, now: datetime) -> "tuple[WaitQuerySet, dict[str, Any]]":
        """Those of them that still wait, and what their end writes."""
        starts, end = Wait.MOVES[verb]
        return self.filter(status__in=starts), {"status": end, "ended_at": now}


class Wait(models.Model):
    """What a suspended run waits for: an event, a time, or both. Ends by one event."""

    MOVES: ClassVar[Moves] = Moves(
        resolve=(("pending",), "resolved"),
        expire=(("pending",), "expired"),
        cancel=(("pending",), "cancelled"),
    )

    run = models.ForeignKey(Run, models.CASCADE, related_name="waits")
    step = models.CharField(max_length=200)
    type = models.CharField(max_length=255, blank=True, default="")  # empty: only the time
    source = models.CharField(max_length=64, blank=True, default="")
    subject = models.CharField(max_length=LONGEST_NAME, null=True)  # noqa: DJ001 -- None: any subject
    since = models.DateTimeField()  # no earlier event counts
    registered_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    status = models.CharField(max_length=10, default="pending")  # pending, resolved, expired, cancelled
    event = models.ForeignKey(Event, models.PROTECT, null=True, related_name="ended_waits")
    ended_at = models.DateTimeField(null=True)

    objects = WaitQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["run", "step"], name="a_step_waits_once"),
            UniqueConstraint(fields=["run", "event"], condition=Q(event__isnull=False), name="an_event_ends_one_wait"),
        ]
        indexes = [models.Index(fields=["type", "subject"], condition=Q(status="pending"), name="waits_pending")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.step}"
