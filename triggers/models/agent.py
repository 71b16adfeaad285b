"""An agent: one row that a machine moves by the events that name it, and what each of them did."""

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, Prefetch, Q, UniqueConstraint

from project.lib import clock
from triggers.models.audit import Audit
from triggers.models.event import Event
from triggers.models.run import Run

if TYPE_CHECKING:
    from project.people.models import User


class AgentQuerySet(models.QuerySet["Agent"]):
    def kept(self) -> "AgentQuerySet":
        return self.filter(archived_at=None)


class Agent(models.Model):
    """`status` is the state it is in; `version` goes up with every event it took up."""

    slug = models.SlugField(max_length=64, unique=True)
    machine = models.CharField(max_length=64)
    status = models.CharField(max_length=64)
    version = models.PositiveIntegerField(default=0)
    moves = models.PositiveIntegerField(default=0)  # of its events, those that moved it
    moved_at = models.DateTimeField(null=True)
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", db_index=False)
    made_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True)

    objects = AgentQuerySet.as_manager()

    def __str__(self) -> str:
        return self.slug

    def archive(self, *, by: "User | None") -> None:
        """No event moves it from now on; what waited for it is let go, in the caller's transaction."""
        Agent.objects.filter(pk=self.pk).update(archived_at=clock.now())
        self.history.to_come().delete()
        Audit.write("archive", self, by=by)


class AgentEventQuerySet(models.QuerySet["AgentEvent"]):
    def to_come(self) -> "AgentEventQuerySet":
        """Stored with their events, and not taken up yet."""
        return self.filter(outcome="")

    def taken_up(self) -> "AgentEventQuerySet":
        return self.exclude(outcome="")

    def told(self) -> "AgentEventQuerySet":
        """With what a list says of each: its event, and the runs it started."""
        payload = ("event__raw", "event__data_json", "event__headers", "event__credentials")
        runs = Run.objects.filter(trigger=None, rerun_of=None).only("event", "handler", "status").order_by("pk")
        return self.select_related("event").defer(*payload).prefetch_related(Prefetch("event__runs", runs, "of_moves"))


class AgentEvent(models.Model):
    """An event that named an agent, written in the event's own transaction; then what it did to the agent."""

    OUTCOMES = ("moved", "no_move", "guarded", "could_not_evaluate", "unknown_state", "too_late", "suppressed")

    agent = models.ForeignKey(Agent, models.CASCADE, related_name="history", db_index=False)
    event = models.OneToOneField(Event, models.PROTECT, related_name="moved")
    number = models.PositiveIntegerField(null=True)  # its place in the agent's history, from 1
    outcome = models.CharField(max_length=24, blank=True, default="", db_default="")  # empty: to come
    start = models.CharField(max_length=64, blank=True, default="", db_default="")  # the state it found
    end = models.CharField(max_length=64, blank=True, default="", db_default="")  # the state it left
    detail = models.CharField(max_length=500, blank=True, default="", db_default="")
    machine_version = models.CharField(max_length=64, blank=True, default="", db_default="")
    at = models.DateTimeField(null=True)

    objects = AgentEventQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["agent", "number"], name="an_agent_takes_up_one_event_at_a_time"),
            CheckConstraint(
                condition=Q(outcome="", number=None) | ~Q(outcome="") & Q(number__isnull=False),
                name="what_was_taken_up_has_its_place",
            ),
        ]
        indexes = [
            models.Index(fields=["agent", "event"], condition=Q(outcome=""), name="events_an_agent_awaits"),
            models.Index(fields=["agent", "-id"], name="history_of_an_agent"),
        ]

    def __str__(self) -> str:
        return f"E-{self.event_id} {self.outcome or 'to come'}"

    @property
    def runs(self) -> list[Run]:
        """The runs its move started, of a row that `told()` read."""
        of_moves: list[Run] = getattr(self.event, "of_moves", [])
        return of_moves if self.outcome == "moved" else []


class AgentSnapshot(models.Model):
    """The state an agent was in after so many events: where a replay may begin."""

    agent = models.ForeignKey(Agent, models.CASCADE, related_name="snapshots", db_index=False)
    number = models.PositiveIntegerField()  # of the last event that is in it
    status = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        constraints = [UniqueConstraint(fields=["agent", "number"], name="an_agent_has_a_snapshot_once")]

    def __str__(self) -> str:
        return f"{self.agent_id} after {self.number}: {self.status}"
