"""What the machine asks about the effects of its runs, without knowing an action."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Q, QuerySet

from approvals.kinds import KINDS
from approvals.models import Act, Action, Notice
from approvals.models.action import Status
from approvals.models.compensation import UNDER_WAY, Owed
from approvals.tiers import Tier
from project.people.roles import REVIEWER
from triggers import redrive
from triggers.models import Run

UNSETTLED = (Status.AWAITING, Status.APPROVED, Status.DELIVERING, Status.UNKNOWN)
UNDOING = {"under_way": UNDER_WAY, "undone": (Owed.UNDONE,), "kept": (Owed.KEPT,)}


def needed_runs() -> QuerySet[Run]:
    """Runs with an action that is not settled: somebody may still need what it came from."""
    return Run.objects.filter(Q(acts__action__status__in=UNSETTLED) | Q(actions__status__in=UNSETTLED))


def knows_kind(name: str) -> bool:
    """Whether there is such a kind, or an action of one that was."""
    return KINDS.get(name) is not None or Action.objects.filter(kind=name).exists()


def act_names(runs: QuerySet[Run]) -> Iterable[str]:
    return Act.objects.filter(run__in=runs).values_list("name", flat=True)


def sent_by(run: Run) -> list[dict[str, Any]]:
    """`{name, action, title, unclear}` of every act of this run, and of the runs it repeats, whose effect happened, or
    may have; and of what was to undo one, and may have."""
    happened = Q(acts__action__status=Status.DELIVERED) | Q(acts__action__keeps_key=True)
    acts = redrive.kin_of(run).filter(happened, acts__action__gave_key_up=False).order_by("acts__action")
    fields = ("acts__name", "acts__action", "acts__action__title", "acts__action__keeps_key")
    undoing = run.actions.filter(keeps_key=True, gave_key_up=False).exclude(compensates=None).order_by("pk")
    found = [*acts.values_list(*fields).distinct(), *undoing.values_list("step", "pk", "title", "keeps_key")]
    return [dict(zip(("name", "action", "title", "unclear"), row, strict=True)) for row in found]


def asked_of(run: Run) -> tuple[str, int] | None:
    """Whom the first request that waits is put to (`payments-oncall`), and how many people a message about it reached;
    None when nobody may decide it."""
    action = run.actions.awaiting().order_by("pk").first()
    names = {name for group in action.groups for name in group["reviewers"]} if action else set()
    if action is None or not (names or action.tier == Tier.MEDIUM):
        return None
    reached = Notice.objects.reached().filter(asking__action=action, asking__revision=action.revision)
    people = reached.aggregate(people=Count("person", distinct=True))["people"]
    return ", ".join(sorted(names)) or REVIEWER, people


def undoing_of(run: Run) -> dict[str, Any] | None:
    """What of its effects is undone, or about to be; None when nothing is."""
    rows = list(run.compensations.for_pages())
    told = {word: sum(row.status in statuses for row in rows) for word, statuses in UNDOING.items()}
    return {"rows": rows, **told} if rows else None
