"""One execution of one handler for one event, and the moves it may make."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, Exists, F, OuterRef, Q, UniqueConstraint
from django.db.models.functions import Coalesce

from project.lib.states import Moves, Stateful
from triggers.models.config import Switch
from triggers.models.event import Event
from triggers.models.trigger import Trigger

LEASE = timedelta(seconds=settings.LEASE)  # a worker silent for longer is presumed dead
MAX_CRASHES = 3  # workers lost under one run before it is called a crash loop


class Status(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    RETRYING = "retrying"
    BLOCKED = "blocked"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


ENDED = (Status.SUCCEEDED, Status.DEAD, Status.CANCELLED)
CLAIMABLE = (Status.QUEUED, Status.RETRYING)


class RunQuerySet(models.QuerySet["Run"]):
    def live(self) -> "RunQuerySet":
        """Not ended yet."""
        return self.exclude(status__in=ENDED)

    def due(self, now: datetime) -> "RunQuerySet":
        """A worker may claim these now: asked of the rows, so a lost message loses nothing."""
        paused = Switch.objects.holding(handler=OuterRef("handler"), source=OuterRef("event__source_slug"))
        open_trigger = Q(trigger=None) | Q(trigger__mode="live")
        return self.filter(open_trigger, ~Exists(paused), status__in=CLAIMABLE, due_at__lte=now)

    def lost(self, now: datetime) -> "RunQuerySet":
        """Running, yet nobody renewed the lease."""
        return self.filter(status=Status.RUNNING, leased_until__lt=now)

    def newest_of(self, handlers: Sequence[str], most: int) -> "RunQuerySet":
        """The newest runs of each handler, at most `most` of one, by one walk along `runs_of_a_handler` for each."""
        table = Run._meta.db_table
        walk = f"SELECT * FROM (SELECT id FROM {table} WHERE handler = %s ORDER BY id DESC LIMIT {int(most)}) AS newest"
        walks = self.raw(" UNION ALL ".join([walk] * len(handlers)), [*handlers]) if handlers else ()
        return self.filter(pk__in=[run.pk for run in walks]).order_by("-pk")

    def active(self, trigger_id: int, *, waiting_counts: bool) -> "RunQuerySet":
        """What fills a trigger's concurrency."""
        held = [Status.QUEUED, Status.RUNNING, Status.RETRYING] + ([Status.WAITING, Status.BLOCKED] * waiting_counts)
        return self.filter(trigger_id=trigger_id, status__in=held)


class Run(Stateful):
    """A durable execution. `fence` goes up at every claim and reclaim; each write of the engine names it."""

    FENCE: ClassVar[tuple[str, ...]] = ("fence",)
    MOVES: ClassVar[Moves] = Moves(
        wait=((Status.RUNNING,), Status.WAITING),
        wake=((Status.WAITING,), Status.QUEUED),
        retry=((Status.RUNNING,), Status.RETRYING),
        give_back=((Status.RUNNING,), Status.QUEUED),
        block=((Status.RUNNING,), Status.BLOCKED),
        unblock=((Status.BLOCKED,), Status.QUEUED),
        succeed=((Status.RUNNING,), Status.SUCCEEDED),
        die=((Status.RUNNING,), Status.DEAD),
        cancel=((Status.QUEUED, Status.WAITING, Status.RETRYING, Status.BLOCKED, Status.RUNNING), Status.CANCELLED),
    )

    trigger = models.ForeignKey(Trigger, models.PROTECT, null=True, related_name="runs")
    event = models.ForeignKey(Event, models.PROTECT, related_name="runs")
    handler = models.CharField(max_length=200)
    handler_version = models.CharField(max_length=64, blank=True, default="")
    status = models.CharField(max_length=12, choices=Status, default=Status.QUEUED)
    reason = models.CharField(max_length=64, blank=True, default="")
    priority = models.PositiveSmallIntegerField(default=5)
    fence = models.PositiveIntegerField(default=0)
    attempt = models.PositiveIntegerField(default=1)  # goes up only when the try before failed
    crashes = models.PositiveIntegerField(default=0)
    queued_at = models.DateTimeField()
    due_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    leased_until = models.DateTimeField(null=True)
    lease_owner = models.CharField(max_length=100, blank=True, default="")
    wake_at = models.DateTimeField(null=True)
    waiting_for = models.CharField(max_length=255, blank=True, default="")
    cancel_requested_at = models.DateTimeField(null=True)
    rung_at = models.DateTimeField(null=True)
    result_json = models.TextField(null=True)  # noqa: DJ001 -- None: no result yet
    error = models.JSONField(null=True)  # {type, message, traceback}
    data_json = models.TextField(null=True)  # noqa: DJ001 -- data edited for a redrive; None: the event's own
    rerun_of = models.ForeignKey("self", models.PROTECT, null=True, related_name="reruns", db_index=False)
    origin = models.BigIntegerField(null=True)  # first run of a chain of re-runs; None: this one
    send_again = models.JSONField(default=list)  # steps whose effect may be repeated
    requester = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", db_index=False)
    pruned_at = models.DateTimeField(null=True)  # what it and its steps remembered went by the rule of RETENTION_DAYS

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["trigger", "event"], condition=Q(rerun_of=None), name="an_event_starts_a_trigger_once"
            ),
            CheckConstraint(
                condition=~Q(status="running") | Q(leased_until__isnull=False), name="a_running_run_has_a_lease"
            ),
            CheckConstraint(
                condition=~Q(status__in=ENDED) | Q(finished_at__isnull=False), name="an_ended_run_says_when"
            ),
        ]
        indexes = [
            models.Index(fields=["priority", "due_at", "id"], condition=Q(status__in=CLAIMABLE), name="runs_due"),
            models.Index(fields=["leased_until"], condition=Q(status="running"), name="runs_leased"),
            models.Index(fields=["wake_at"], condition=Q(status="waiting"), name="runs_to_wake"),
            models.Index(fields=["rerun_of"], condition=Q(rerun_of__isnull=False), name="runs_again"),
            models.Index(fields=["finished_at"], condition=Q(finished_at__isnull=False), name="runs_by_end"),
            models.Index(fields=["handler", "-id"], name="runs_of_a_handler"),
            models.Index(fields=["status", "-id"], name="runs_by_status"),
        ]

    def __str__(self) -> str:
        return f"R-{self.pk} {self.handler}"

    @property
    def origin_id(self) -> int:
        """The run whose steps first named the effects: keys are made from it."""
        return self.origin or self.pk

    @property
    def result(self) -> Any:
        return json.loads(self.result_json) if self.result_json else None

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    @property
    def data_text(self) -> str:
        """The JSON text it works on: the event's, or what a person made of it."""
        return self.event.data_text if self.data_json is None else self.data_json

    def claim(self, now: datetime, *, owner: str) -> bool:
        """Take the lease under a new fence; False when another worker was first or nothing is due."""
        rows = Run.objects.due(now).filter(pk=self.pk)
        taken = Run.objects.filter(pk__in=rows.values("pk"), status__in=CLAIMABLE).update(
            status=Status.RUNNING,
            fence=F("fence") + 1,
            leased_until=now + LEASE,
            lease_owner=owner,
            started_at=Coalesce("started_at", models.Value(now)),
        )
        if taken:
            self.refresh_from_db()
        return bool(taken)
