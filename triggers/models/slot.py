"""Places in a trigger's concurrency: a row is a place that is taken, so that what is counted is what really runs."""

from typing import TYPE_CHECKING

from django.db import IntegrityError, models, transaction
from django.db.models import Exists, OuterRef, UniqueConstraint

from project.lib import clock
from triggers.models.event import Event
from triggers.models.trigger import Trigger

if TYPE_CHECKING:
    from triggers.models.run import Run


class SlotQuerySet(models.QuerySet["Slot"]):
    def take(self, run: "Run", limit: int) -> bool:
        """Give `run` a place of its key, in the transaction of its claim; False when all are taken.

        Two workers who see the same free place both try it: the constraint lets one through."""
        if self.filter(run=run).exists():
            return True  # it kept its place while it waited
        assert run.trigger_id is not None  # only a trigger counts its runs
        trigger_id, key = run.trigger_id, run.slot_key or ""
        taken = set(self.filter(trigger=trigger_id, key=key).values_list("place", flat=True))
        if len(taken) >= limit:
            return False
        place = next(number for number in range(1, limit + 1) if number not in taken)
        try:
            with transaction.atomic():
                self.create(trigger_id=trigger_id, key=key, place=place, run=run, since=clock.now())
        except IntegrityError:
            return False
        return True

    def lost(self) -> "SlotQuerySet":
        """Taken by a run that neither works nor keeps its place while it waits."""
        keep = Slot.objects.filter(trigger__limits__concurrency__waiting_counts=True, run__finished_at=None)
        working = Slot.objects.filter(pk=OuterRef("pk"), run__status="running")  # each by its key: SQLite walks no runs
        return self.filter(~Exists(working)).exclude(pk__in=keep)  # by keys: limits may lack what is asked of


class Slot(models.Model):
    """One taken place: at most `limit` rows of a trigger and key, numbered from one."""

    trigger = models.ForeignKey(Trigger, models.CASCADE, related_name="slots", db_index=False)
    key = models.CharField(max_length=200, blank=True, default="")
    place = models.PositiveIntegerField()
    run = models.OneToOneField("triggers.Run", models.CASCADE, related_name="slot")
    since = models.DateTimeField()

    objects = SlotQuerySet.as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["trigger", "key", "place"], name="a_place_is_taken_once")]

    def __str__(self) -> str:
        return f"{self.trigger_id} {self.key} {self.place}"


class Gathered(models.Model):
    """An event that a debounced run works on; the newest one is the run's own."""

    run = models.ForeignKey("triggers.Run", models.CASCADE, related_name="gathered", db_index=False)
    event = models.ForeignKey(Event, models.PROTECT, related_name="gathered")

    class Meta:
        constraints = [UniqueConstraint(fields=["run", "event"], name="an_event_is_gathered_once")]

    def __str__(self) -> str:
        return f"R-{self.run_id} E-{self.event_id}"
