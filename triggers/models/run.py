"""One execution of one handler for one event, and the moves it may make."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, Count, Exists, F, IntegerField, OuterRef, Q, Subquery, UniqueConstraint
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, Coalesce
from django.db.models.lookups import LessThan
from django.utils.functional import cached_property

from project.lib import literal  # noqa: F401 -- the lookup `one_of`
from project.lib.prepared import Select, Update
from project.lib.states import Moves, Stateful
from triggers.limits import Limits
from triggers.models.breaker import Breaker
from triggers.models.config import Switch, SwitchQuerySet
from triggers.models.event import Event
from triggers.models.slot import Slot
from triggers.models.trigger import Trigger

LEASE = timedelta(seconds=settings.LEASE)  # a worker silent for longer is presumed dead
UNLIMITED = 2**31 - 1  # slots of a trigger that does not count its runs any more
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
KEEPING = ("wait", "block", "wake", "unblock")  # moves over which a run may keep its place


def switches_over_outer_run() -> SwitchQuerySet:
    """The switches that hold back the run of an outer query: asked before it starts, and again at each step."""
    return Switch.objects.holding(handler=OuterRef("handler"), source=OuterRef("event__source_slug"))


class RunQuerySet(models.QuerySet["Run"]):
    def live(self) -> "RunQuerySet":
        """Not ended yet."""
        return self.exclude(status__in=ENDED)

    def due(self, now: datetime) -> "RunQuerySet":
        """A worker may claim these now: asked of the rows, so a lost message loses nothing."""
        broken = Breaker.objects.open().filter(handler=OuterRef("handler")).exclude(probe=OuterRef("pk"))
        return self.ready(now).filter(~Exists(broken))

    def ready(self, now: datetime) -> "RunQuerySet":
        """Due but for their handler's breaker."""
        open_trigger = Q(trigger=None) | Q(trigger__mode="live")
        claimable = self.filter(status__one_of=CLAIMABLE, due_at__lte=now, cancel_requested_at=None)
        return claimable.filter(open_trigger, ~Exists(switches_over_outer_run())).with_a_slot()

    def with_a_slot(self) -> "RunQuerySet":
        """Those whose trigger counts no runs, that have their place already, or for whom one is free."""
        own = Exists(Slot.objects.filter(run=OuterRef("pk")))
        same = Slot.objects.filter(trigger=OuterRef("trigger"), key=OuterRef("slot_key")).order_by()
        taken = Coalesce(Subquery(same.values("key").annotate(n=Count("pk")).values("n")), 0)
        stored = KeyTextTransform("limit", KeyTransform("concurrency", "trigger__limits"))
        limit = Coalesce(Cast(stored, IntegerField()), UNLIMITED)
        return self.filter(Q(slot_key=None) | Q(own) | Q(LessThan(taken, limit)))

    def working_on(self, event: Event) -> "RunQuerySet":
        """Started by this event, or having gathered it."""
        return self.filter(Q(event=event) | Q(pk__in=list(event.gathered.values_list("run", flat=True))))

    def lost(self, now: datetime) -> "RunQuerySet":
        """Running, yet nobody renewed the lease."""
        return self.filter(status=Status.RUNNING, leased_until__lt=now)

    def newest_of(self, handlers: Sequence[str], most: int) -> "RunQuerySet":
        """The newest runs of each handler, at most `most` of one, by one walk along `runs_of_a_handler` for each."""
        table = Run._meta.db_table
        walk = f"SELECT * FROM (SELECT id FROM {table} WHERE handler = %s ORDER BY id DESC LIMIT {int(most)}) AS newest"
        walks = self.raw(" UNION ALL ".join([walk] * len(handlers)), [*handlers]) if handlers else ()
        return self.filter(pk__in=[run.pk for run in walks]).order_by("-pk")


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

    trigger = models.ForeignKey(Trigger, models.PROTECT, null=True, related_name="runs", db_index=False)
    event = models.ForeignKey(Event, models.PROTECT, related_name="runs")
    handler = models.CharField(max_length=200)
    handler_version = models.CharField(max_length=64, blank=True, default="")
    status = models.CharField(max_length=12, choices=Status, default=Status.QUEUED)
    reason = models.CharField(max_length=64, blank=True, default="")
    priority = models.PositiveSmallIntegerField(default=5)
    fence = models.PositiveIntegerField(default=0)
    attempt = models.PositiveIntegerField(default=1)  # goes up only when the try before failed
    crashes = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(null=True)  # of its worker, as its heartbeat saw it last
    accepted_seq = models.PositiveIntegerField(default=0, db_default=0)  # steps up to it need not fit the code
    queued_at = models.DateTimeField()
    due_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    leased_until = models.DateTimeField(null=True)
    lease_owner = models.CharField(max_length=100, blank=True, default="")
    wake_at = models.DateTimeField(null=True)
    waiting_for = models.CharField(max_length=255, blank=True, default="")
    cancel_requested_at = models.DateTimeField(null=True)
    cancel_reason = models.CharField(max_length=64, blank=True, default="", db_default="")  # of that request
    continued_at = models.DateTimeField(null=True)  # when a person last chose *continue* with changed code
    slot_key = models.CharField(max_length=200, null=True)  # noqa: DJ001 -- None: its trigger counts no runs
    rate_key = models.CharField(max_length=200, null=True)  # noqa: DJ001 -- None: its trigger has no rate
    not_before = models.DateTimeField(null=True)  # its turn in that rate; when it started, the moment it did
    gather_key = models.CharField(max_length=200, null=True)  # noqa: DJ001 -- None: it gathers no events
    rung_at = models.DateTimeField(null=True)
    result_json = models.TextField(null=True)  # noqa: DJ001 -- None: no result yet
    error = models.JSONField(null=True)  # {type, message, traceback}
    data_json = models.TextField(null=True)  # noqa: DJ001 -- data edited for a redrive; None: the event's own
    rerun_of = models.ForeignKey("self", models.PROTECT, null=True, related_name="reruns", db_index=False)
    origin = models.BigIntegerField(null=True)  # first run of a chain of re-runs; None: this one
    send_again = models.JSONField(default=list)  # steps whose effect may be repeated
    requester = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", db_index=False)
    # Who cancelled it, or first asked its worker to.
    ended_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", db_index=False)
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
            models.Index(
                fields=["trigger", "priority", "due_at", "id"],
                condition=Q(status__in=CLAIMABLE),
                name="runs_due_by_trigger",
            ),
            models.Index(
                fields=["trigger", "rate_key", "not_before"], condition=Q(not_before__isnull=False), name="runs_by_turn"
            ),
            models.Index(
                fields=["cancel_requested_at"],
                condition=Q(cancel_requested_at__isnull=False, finished_at=None),
                name="runs_to_cancel",
            ),
            # Both begin with the status, always the same: else SQLite takes `runs_by_status` and reads them all.
            models.Index(fields=["status", "leased_until"], condition=Q(status="running"), name="runs_leased"),
            models.Index(fields=["status", "wake_at"], condition=Q(status="waiting"), name="runs_to_wake"),
            models.Index(fields=["rerun_of"], condition=Q(rerun_of__isnull=False), name="runs_again"),
            models.Index(fields=["finished_at"], condition=Q(finished_at__isnull=False), name="runs_by_end"),
            models.Index(fields=["trigger", "queued_at"], name="runs_of_a_trigger"),
            models.Index(fields=["trigger", "-id"], name="runs_by_trigger"),
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
        until = now + LEASE
        as_read = {"pk": self.pk, "fence": self.fence, "event": self.event_id}
        if not TAKE(**as_read, now=now, until=until, owner=owner):
            return False
        held = {"leased_until": until, "lease_owner": owner, "started_at": self.started_at or now}
        self.read_again({"status": Status.RUNNING, "reason": "", "memory_mib": None, "fence": self.fence + 1, **held})
        return True

    def move(self, verb: str, **fields: Any) -> Self:
        """Also frees the place it had, in the same transaction; a wait keeps it where the trigger says so."""
        super().move(verb, **fields)
        if self.slot_key is not None and not (verb in KEEPING and self.keeps_slot):
            Slot.objects.filter(run=self).delete()
        return self

    def read_again(self, written: dict[str, Any]) -> None:
        """Who moves a run holds it, by its lock or its lease: what it has read stays true, and so do its relations."""
        for name, value in written.items():
            setattr(self, name, value)

    @property
    def keeps_slot(self) -> bool:
        """As its trigger says now: a run may have been at work for long."""
        assert self.trigger_id is not None  # only a trigger counts its runs
        busy = Trigger.objects.get(pk=self.trigger_id).flow.concurrency
        return bool(busy and busy.waiting_counts)

    @cached_property
    def flow(self) -> Limits:
        """What its trigger asks of it; the usual values for a run that has none."""
        return self.trigger.flow if self.trigger else Limits()


def taken(
    pk: int, fence: int, event: int, now: datetime, until: datetime, owner: str
) -> tuple[RunQuerySet, dict[str, Any]]:
    """The row of a claim: as it was read, also if it gathers events meanwhile, and still to be had."""
    due = Run.objects.due(now).filter(pk=pk)
    still = Run.objects.filter(pk__in=due.values("pk"), status__in=CLAIMABLE, due_at__lte=now, fence=fence, event=event)
    return still, {
        "status": Status.RUNNING,
        "reason": "",
        "memory_mib": None,
        "fence": F("fence") + 1,
        "leased_until": until,
        "lease_owner": owner,
        "started_at": Coalesce("started_at", models.Value(now)),
    }


TAKE = Update(taken, pk=int, fence=int, event=int, now=datetime, until=datetime, owner=str)
LOADED = Select(lambda pk: Run.objects.select_related("event", "trigger").filter(pk=pk), pk=int)
