"""What a run leaves behind when it ends: open requests are withdrawn, and what is owed for its effects is marked."""

from django.db.models import OuterRef, QuerySet

from approvals import undoing
from approvals.decide import withdraw
from approvals.models import Act
from project.lib.prepared import Select
from triggers.models import Run

ACTED = Select(lambda run: Act.objects.filter(run=run).values_list("pk")[:1], run=int)


def left() -> QuerySet[Act]:
    """What makes `clear` necessary: the acts of the run that a query is about."""
    return Act.objects.filter(run=OuterRef("pk"))


def clear(run: Run) -> None:
    """Inside the transaction that ends `run`. Most runs never act, and cost one look: whatever a run asked for or
    has to undo stands beside an act of its own, and acts are written under the run's lock."""
    if ACTED(run=run.pk):
        withdraw(run)
        undoing.begin(run)
