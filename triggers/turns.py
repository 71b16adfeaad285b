"""Whose turn it is: the most urgent trigger first, the others of its rank one after the other.

A trigger with a million due runs has one head like a trigger with one. What waits long moves up, so that the last
rank is reached too."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import OuterRef, Subquery

from triggers.models import Run, Trigger
from triggers.models.run import RunQuerySet

ORDER = ("priority", "due_at", "id")
AGING = timedelta(minutes=5)  # of waiting, for one step of priority


@dataclass(frozen=True, slots=True)
class Head:
    """The first due run of one trigger, or of those that have none."""

    run: int
    trigger: int | None
    priority: int
    due_at: datetime


class Served:
    """When each trigger had its last turn in this process: a worker's own memory is enough for a fair share."""

    turns = 0
    last: dict[int | None, int] = {}

    @classmethod
    def note(cls, trigger: int | None) -> None:
        cls.turns += 1
        cls.last[trigger] = cls.turns


def heads(due: RunQuerySet) -> list[Head]:
    """The first of `due` for every trigger, by one short look along the index for each."""
    first = due.filter(trigger=OuterRef("pk")).order_by(*ORDER).values("pk")[:1]
    found = Trigger.objects.with_room().annotate(head=Subquery(first)).values_list("head", flat=True)
    alone = due.filter(trigger=None).order_by(*ORDER).values_list("pk", flat=True)[:1]
    ids = [pk for pk in [*found, *alone] if pk is not None]
    rows = Run.objects.filter(pk__in=ids).values_list("pk", "trigger", "priority", "due_at")
    return [Head(*row) for row in rows]


def in_order(found: Sequence[Head], now: datetime) -> list[Head]:
    """By aged priority; of equals, whoever was served longest ago."""
    return sorted(found, key=lambda head: (rank(head, now), Served.last.get(head.trigger, 0), head.due_at, head.run))


def rank(head: Head, now: datetime) -> int:
    return max(0, head.priority - max(0, (now - head.due_at) // AGING))


def fair_share(due: RunQuerySet, now: datetime, most: int) -> list[int]:
    """At most `most` of `due`, as many of each trigger as of the others while they last."""
    order = in_order(heads(due), now)[:most]
    each = max(1, most // max(1, len(order)))
    queues = [
        list(due.filter(trigger=head.trigger).order_by(*ORDER).values_list("pk", flat=True)[:each]) for head in order
    ]
    return [queue[place] for place in range(each) for queue in queues if place < len(queue)][:most]
