"""How people decide: how often yes, how fast. Not to rank anybody, but to see where a nod has become a habit."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Avg, Count, Max, Q

from approvals.kinds import KINDS
from approvals.models import Decision
from project.people.models import User

LOOKED_BACK = timedelta(days=30)
QUICK = 3.0  # seconds; nobody reads a card faster


@dataclass(frozen=True, slots=True)
class Habit:
    """What one person decided in that time; `quick` and `seconds` are of the `timed` ones."""

    person: User
    yes: int
    no: int
    edits: int
    timed: int
    quick: int
    seconds: float | None
    last_at: datetime

    @property
    def share(self) -> int:
        """Per cent of the verdicts that were a yes."""
        return round(100 * self.yes / (self.yes + self.no)) if self.yes + self.no else 0


def habits(now: datetime) -> list[Habit]:
    """The quickest first. Answers to questions are no verdicts; what is high is not timed: it takes a note and a fresh
    sign-in, after which the page is drawn anew."""
    questions = [kind.name for kind in KINDS.values() if kind.is_question]
    rows = Decision.objects.filter(at__gt=now - LOOKED_BACK).exclude(action__kind__in=questions)
    timed = Q(looked_for__isnull=False, on_high=False)
    told = rows.values("by").annotate(
        yes=Count("pk", filter=Q(verdict="approve")),
        no=Count("pk", filter=Q(verdict="reject")),
        edits=Count("pk", filter=Q(verdict="edit")),
        timed=Count("pk", filter=timed),
        quick=Count("pk", filter=timed & Q(looked_for__lt=QUICK)),
        seconds=Avg("looked_for", filter=timed),
        last_at=Max("at"),
    )
    counted: list[dict[str, Any]] = [dict(one) for one in told]
    people = User.objects.in_bulk([one["by"] for one in counted])
    found = [Habit(person=people[one.pop("by")], **one) for one in counted]
    return sorted(found, key=lambda habit: (-habit.quick, habit.person.username))
