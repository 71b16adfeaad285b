"""What was done without a nod, counted for people: by handler and kind, what of it failed, what was undone in time."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count

from approvals.models import Action, Review
from approvals.models.action import Status
from approvals.models.review import WRONG
from approvals.tiers import Tier

OUTSIDE = "from outside"  # what no handler asked for


@dataclass(frozen=True, slots=True)
class Group:
    """The low actions of one handler and kind."""

    handler: str
    kind: str
    done: int
    failed: int
    undone: int  # withdrawn while they were held
    wrong: int  # of those that were looked at

    @property
    def words(self) -> str:
        """`triage-issue, github.comment: 12 done, 1 failed`."""
        told = {"done": self.done, "failed": self.failed, "undone": self.undone, "found wrong": self.wrong}
        said = ", ".join(f"{number} {word}" for word, number in told.items() if number)
        return f"{self.handler or OUTSIDE}, {self.kind}: {said}"


def done(since: datetime, until: datetime) -> list[Group]:
    """Of everything that ended then, the busiest first."""
    ended = Action.objects.filter(tier=Tier.LOW, settled_at__gt=since, settled_at__lte=until)
    looked = Review.objects.filter(verdict=WRONG, at__gt=since, at__lte=until)
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    by_end = ended.values_list("run__handler", "kind", "status").annotate(n=Count("pk")).order_by()
    for handler, kind, status, number in by_end:
        counts[handler or "", kind][status] += number
    wrong = looked.values_list("action__run__handler", "action__kind").annotate(n=Count("pk")).order_by()
    for handler, kind, number in wrong:
        counts[handler or "", kind]["wrong"] += number
    groups = [group_of(*name, each) for name, each in counts.items()]
    return sorted((group for group in groups if any_of(group)), key=lambda group: (-group.done, group.handler))


def group_of(handler: str, kind: str, counts: Counter[str]) -> Group:
    failed = counts[Status.FAILED] + counts[Status.EXPIRED]
    return Group(handler, kind, counts[Status.DELIVERED], failed, counts[Status.CANCELLED], counts["wrong"])


def any_of(group: Group) -> bool:
    return bool(group.done or group.failed or group.undone or group.wrong)
