"""What gave up, grouped by cause."""

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, OuterRef, Q, Subquery, UniqueConstraint

from project.lib.states import Moves, Stateful
from triggers.models.cause import Cause
from triggers.models.event import Event
from triggers.models.run import Run

LATE_TRUTH = "it had been delivered after all"  # why a letter closed, where no person did it
NOBODY = "/nobody"  # who looks after a cause that was given to nobody: no person can be called so


def fingerprint(*parts: str) -> str:
    """One cause, one mark: the hash of handler, error class, place and step."""
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]


class DeadLetterQuerySet(models.QuerySet["DeadLetter"]):
    def open(self) -> "DeadLetterQuerySet":
        return self.filter(status="open")

    def speaking(self) -> "DeadLetterQuerySet":
        """All but those that closed by themselves: of what these were about nobody has heard to its end."""
        return self.exclude(status="dismissed", settled_by=None, reason=LATE_TRUTH)

    def assigned_to(self, names: Sequence[str]) -> "DeadLetterQuerySet":
        """The letters whose cause was given to any of these people, or to NOBODY."""
        given = Cause.objects.exclude(assignee=None)
        wanted = Q(fingerprint__in=given.filter(assignee__username__in=names).values("pk"))
        return self.filter(wanted | ~Q(fingerprint__in=given.values("pk")) if NOBODY in names else wanted)

    def with_assignee(self) -> "DeadLetterQuerySet":
        """Each with the name of whoever looks after its cause as `assignee`; None when nobody does."""
        cause = Cause.objects.filter(pk=OuterRef("fingerprint"))
        return self.annotate(assignee=Subquery(cause.values("assignee__username")[:1]))

    def causes(self, most: int) -> "models.query.RawQuerySet[Any]":
        """The newest open letter of each cause, with how many there are of it (`n`): the `most` frequent ones first.

        The causes are counted first, and only the letters that are told are looked at."""
        table = DeadLetter._meta.db_table
        counted = (
            f"SELECT fingerprint AS cause, count(*) AS n, max(id) AS newest FROM {table} WHERE status = 'open' "
            "GROUP BY fingerprint ORDER BY n DESC, fingerprint LIMIT %s"
        )
        letters = f"SELECT {table}.*, n FROM ({counted}) AS causes JOIN {table} ON id = newest ORDER BY n DESC, cause"
        return self.raw(letters, [most])


class DeadLetter(Stateful):
    """One failure people must see: of a run, of an action, or of an event."""

    MOVES: ClassVar[Moves] = Moves(
        redrive=(("open",), "redriven"),
        dismiss=(("open",), "dismissed"),
        reopen=(("redriven", "dismissed"), "open"),
        close=(("open",), "dismissed"),  # a late truth: it had happened after all
    )

    kind = models.CharField(max_length=8)  # run, action, event
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="letters")
    event = models.ForeignKey(Event, models.PROTECT, null=True, related_name="letters")
    action_id = models.BigIntegerField(null=True)  # a number: this app knows nothing of approvals
    fingerprint = models.CharField(max_length=16)
    handler = models.CharField(max_length=200, blank=True, default="")
    error_type = models.CharField(max_length=200)
    place = models.CharField(max_length=255, blank=True, default="")
    step = models.CharField(max_length=200, blank=True, default="")
    message = models.TextField(blank=True, default="")
    attempts = models.PositiveIntegerField(default=1)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    status = models.CharField(max_length=10, default="open")
    redriven_as = models.ForeignKey(Run, models.PROTECT, null=True, related_name="+")
    settled_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    settled_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True, default="")

    objects = DeadLetterQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["run"], condition=Q(kind="run"), name="a_run_makes_one_letter"),
            UniqueConstraint(fields=["action_id"], condition=Q(kind="action"), name="an_action_makes_one_letter"),
            UniqueConstraint(fields=["event"], condition=Q(kind="event"), name="an_event_makes_one_letter"),
            CheckConstraint(
                condition=Q(run__isnull=False) | Q(action_id__isnull=False) | Q(event__isnull=False),
                name="a_letter_has_a_subject",
            ),
        ]
        indexes = [
            models.Index(fields=["status", "-id"], name="letters_by_status"),
            # All that is told of a cause but its newest letter: they are counted without a look at the letters.
            models.Index(fields=["status", "fingerprint", "last_at", "first_at", "id"], name="letters_by_cause"),
            models.Index(fields=["fingerprint", "last_at"], name="letters_of_a_cause"),
            models.Index(
                fields=["settled_at"], condition=~Q(status="open") & ~Q(message=""), name="letters_that_quote"
            ),
        ]

    def __str__(self) -> str:
        return f"D-{self.pk} {self.error_type}"

    def fail_again(self, **facts: Any) -> None:
        """One more try failed, by `facts`: the letter stands open, again if people had settled it.

        The caller holds its row. Who settled it before, how and why stands in the audit log."""
        if self.status != "open":
            self.move("reopen", **facts, redriven_as=None, settled_by=None, settled_at=None, reason="")
            return
        DeadLetter.objects.filter(pk=self.pk).update(**facts)
        self.refresh_from_db()

    @property
    def can_run_again(self) -> bool:
        """A run stands behind it, or an event that can be matched again."""
        return self.kind == "event" or self.run_id is not None

    @property
    def error(self) -> dict[str, Any]:
        return {"type": self.error_type, "message": self.message, "place": self.place, "step": self.step}
