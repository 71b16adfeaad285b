"""How an effect of a run is undone, written down before it is needed."""

from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from approvals.models.act import Act
from project.lib import crypto
from project.lib.states import Moves, Stateful
from triggers.models import Run

if TYPE_CHECKING:
    from approvals.models.action import Action


class Owed(models.TextChoices):
    NOTED = "noted"  # its run is still at work
    DUE = "due"  # its run failed or was cancelled
    ASKED = "asked"  # an action that undoes it was proposed
    UNDONE = "undone"
    KEPT = "kept"  # the effect stands: `why` says what kept it
    DROPPED = "dropped"  # the run succeeded, or there was no effect


UNDER_WAY = (Owed.DUE, Owed.ASKED)


class CompensationQuerySet(models.QuerySet["Compensation"]):
    def under_way(self) -> "CompensationQuerySet":
        return self.filter(status__in=UNDER_WAY)

    def of_effect(self, action: "Action") -> "CompensationQuerySet":
        return self.filter(act__action=action)

    def owe_again(self) -> None:
        """A late truth: there is an effect after all, and its run has failed."""
        failed = ["dead", "cancelled"]
        for owed in self.filter(status__in=[Owed.KEPT, Owed.DROPPED], run__status__in=failed):
            owed.move("owe_again", why="")

    def for_pages(self) -> "CompensationQuerySet":
        """What a run's page shows of them, the next one first."""
        shown = self.exclude(status__in=[Owed.NOTED, Owed.DROPPED]).select_related("act__action").order_by("-pk")
        return shown.prefetch_related("act__action__compensated_by")


class Compensation(Stateful):
    """One entry of a run's stack; the last one is undone first."""

    MOVES: ClassVar[Moves] = Moves(
        owe=((Owed.NOTED,), Owed.DUE),
        drop=((Owed.NOTED, Owed.DUE), Owed.DROPPED),
        ask=((Owed.DUE,), Owed.ASKED),
        undo=((Owed.ASKED,), Owed.UNDONE),
        keep=((Owed.DUE, Owed.ASKED), Owed.KEPT),
        owe_again=((Owed.KEPT, Owed.DROPPED), Owed.DUE),  # a late truth, or a person runs its dead letter again
    )

    run = models.ForeignKey(Run, models.PROTECT, related_name="compensations")
    act = models.OneToOneField(Act, models.CASCADE, related_name="compensation")  # whose effect it undoes
    sealed_wish = models.TextField(blank=True, default="")  # of what to propose; empty until a callable was asked
    status = models.CharField(max_length=8, choices=Owed, default=Owed.NOTED)
    why = models.TextField(blank=True, default="")
    asked_by = models.ForeignKey(  # who ran the letter of its failure again, and so asked for it
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", db_index=False
    )

    objects = CompensationQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["run"], condition=Q(status__in=["due", "asked"]), name="compensations_under_way")
        ]

    def __str__(self) -> str:
        return f"undo {self.act}"

    @property
    def wish(self) -> dict[str, Any] | None:
        """`{kind, connection, key, reason, arguments, knows_result?}`, None if nobody knows. Raises Unreadable."""
        wish: dict[str, Any] | None = crypto.unseal(self.sealed_wish)
        return wish

    @property
    def effect(self) -> "Action":
        """What the run did."""
        return self.act.action

    @property
    def doer(self) -> "Action | None":
        """The newest action that was proposed to undo it; `for_pages()` has read it."""
        return max(self.effect.compensated_by.all(), key=lambda action: action.pk, default=None)
