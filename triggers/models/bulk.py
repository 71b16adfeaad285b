"""One deed for many rows: the rows are written down at the press, then taken one by one, each at most once."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, Count, F, Q, UniqueConstraint
from django.db.models.functions import Coalesce

from project.lib.states import Moves, Stateful
from triggers.models.run import ENDED, Run
from triggers.models.trigger import Trigger

AT_WORK = ("running", "paused", "stopped")  # not ended: what it has not taken yet is still to come


class BulkQuerySet(models.QuerySet["Bulk"]):
    def running(self) -> "BulkQuerySet":
        """The desk takes their rows now."""
        return self.filter(status="running")

    def at_work(self) -> "BulkQuerySet":
        return self.filter(status__in=AT_WORK)


class Bulk(Stateful):
    """`B-7`: a person asked for one verb on every row a filter found. Which rows is fixed at the press."""

    VERBS: ClassVar[tuple[str, ...]] = ("redrive", "dismiss", "cancel", "run_again")
    MOVES: ClassVar[Moves] = Moves(
        pause=(("running",), "paused"),
        stop=(("running",), "stopped"),  # the stop rule, or a canary that died
        resume=(("paused", "stopped"), "running"),
        finish=(("running",), "done"),
        cancel=(AT_WORK, "cancelled"),
    )

    verb = models.CharField(max_length=12)
    status = models.CharField(max_length=10, default="running")
    filter = models.JSONField(default=dict)  # as it was asked for
    triggers = models.JSONField(default=list)  # slugs: whose handlers run_again starts
    mark = models.CharField(max_length=64)  # of verb, filter and triggers: two presses of one button have the same
    reason = models.TextField(blank=True, default="")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    canary = models.PositiveSmallIntegerField(default=1)  # rows that go first
    rate = models.PositiveSmallIntegerField(default=10)  # rows a second at most
    stop_after = models.PositiveSmallIntegerField(default=5)  # failures in a row
    total = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    paced_at = models.DateTimeField()  # up to here its rate was used
    canary_at = models.DateTimeField(null=True)  # the last canary was taken
    judged_at = models.DateTimeField(null=True)  # the canary was found well, or a person went on all the same
    resumed_at = models.DateTimeField()  # failures before it do not count
    ended_at = models.DateTimeField(null=True)
    said = models.TextField(blank=True, default="")  # why it stopped, in words
    counts = models.JSONField(null=True)  # of its rows, once the rows themselves are gone by retention

    objects = BulkQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["mark"], condition=Q(status__in=AT_WORK), name="one_bulk_job_for_one_wish"),
            CheckConstraint(
                condition=Q(status__in=AT_WORK) | Q(ended_at__isnull=False), name="an_ended_bulk_job_says_when"
            ),
        ]
        indexes = [models.Index(fields=["status", "id"], name="bulk_by_status")]

    def __str__(self) -> str:
        return f"B-{self.pk} {self.verb}"

    @property
    def starts_runs(self) -> bool:
        """Only what starts runs has a canary and can fail afterwards."""
        return self.verb in ("redrive", "run_again")

    @property
    def waits_for_canary(self) -> bool:
        return self.canary_at is not None and self.judged_at is None

    @property
    def has_ended(self) -> bool:
        return self.status not in AT_WORK

    @property
    def tally(self) -> dict[str, int]:
        """How many rows stand where (waiting, started, done, failed, skipped), and where the started ones' runs do.

        Runs that wait count as started alone: `waiting` are rows that were not taken yet."""
        if self.counts is not None:
            return {name: int(n) for name, n in self.counts.items()}
        counts: dict[str, int] = {}
        rows = self.items.values_list("status", "run__status").annotate(n=Count("pk")).order_by()
        for status, ended, n in rows:
            counts[status] = counts.get(status, 0) + n
            if status == "started" and ended != "waiting":
                counts[ended] = counts.get(ended, 0) + n
        return counts


class BulkItemQuerySet(models.QuerySet["BulkItem"]):
    def waiting(self) -> "BulkItemQuerySet":
        return self.filter(status="waiting")

    def to_come(self) -> "BulkItemQuerySet":
        """Waiting, and their job has not ended."""
        return self.waiting().filter(job__status__in=AT_WORK)

    def to_begin(self) -> "BulkItemQuerySet":
        """Their run was started, and has not had its first try."""
        return self.filter(status="started", run__started_at=None).exclude(run__status__in=ENDED)

    def left_of(self, jobs: Sequence[Bulk]) -> dict[int, int]:
        """How many rows each of these jobs has not taken."""
        rows = self.waiting().filter(job__in=jobs).values_list("job").annotate(n=Count("pk")).order_by()
        return dict(rows)

    def under_way_of(self, jobs: Sequence[Bulk]) -> dict[int, tuple[int, int]]:
        """How many runs that each of these jobs started are queued, and how many in all have not ended."""
        rows = self.filter(job__in=jobs, status="started").exclude(run__status__in=ENDED).order_by()
        counted = rows.values_list("job").annotate(queued=Count("pk", filter=Q(run__status="queued")), n=Count("pk"))
        return {job: (queued, n) for job, queued, n in counted}

    def newest_told(self, since: datetime, most: int) -> list[bool]:
        """Whether each of the newest `most` that are known to have gone well or wrong after `since` went wrong.

        Known is what a run ended with that was started, and what could not be started."""
        known = Q(status="failed") | Q(status="started", run__status__in=ENDED)
        rows = self.filter(known).annotate(ended_at=Coalesce("run__finished_at", F("at"))).filter(ended_at__gt=since)
        told = rows.order_by("-ended_at", "-pk").values_list("status", "run__status")[:most]
        return [status == "failed" or ended == "dead" for status, ended in told]


class BulkItem(models.Model):
    """One row of a job. `started` and `done` stand in the same transaction as the deed itself."""

    STATUSES = ("waiting", "started", "done", "failed", "skipped")

    job = models.ForeignKey(Bulk, models.CASCADE, related_name="items", db_index=False)
    ref = models.BigIntegerField()  # the number of a letter, a run or an event, by the verb
    trigger = models.ForeignKey(Trigger, models.PROTECT, null=True, related_name="+", db_index=False)  # run_again
    status = models.CharField(max_length=8, default="waiting")
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="+")  # that it started
    detail = models.CharField(max_length=300, blank=True, default="")
    at = models.DateTimeField(null=True)  # when it was taken

    objects = BulkItemQuerySet.as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["job", "ref", "trigger"], name="a_row_stands_once_in_a_bulk_job")]
        indexes = [
            models.Index(fields=["job", "status", "id"], name="items_of_a_bulk_job"),
            models.Index(fields=["ref"], condition=Q(status="waiting"), name="items_to_come"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} {self.ref}"

    def say(self, status: str, **facts: Any) -> bool:
        """Write down what became of it, once; False when that was said already."""
        return bool(BulkItem.objects.filter(pk=self.pk, status="waiting").update(status=status, **facts))
