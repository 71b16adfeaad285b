"""How much a handler asks of people, by what its newest runs did."""

from approvals.models import Action
from approvals.tiers import WAITING
from triggers.models import Run
from triggers.models.run import ENDED

RUNS = 200  # the newest that ended


def asks_of(handler: str) -> float | None:
    """Approvals a run of this handler asked for on average; None when none has ended yet."""
    runs = list(
        Run.objects.filter(handler=handler, status__in=ENDED).order_by("-pk").values_list("pk", flat=True)[:RUNS]
    )
    if not runs:
        return None
    return Action.objects.filter(run__in=runs, tier__in=WAITING).count() / len(runs)
