"""Whose turn it is: the most urgent trigger first, the others of its rank one after the other.

A trigger with a million due runs has one head like a trigger with one. What waits long moves up, so that the last
rank is reached too."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from project.lib.prepared import Both, Select
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


def firsts(due: RunQuerySet) -> QuerySet[Trigger, Any]:
    """`(trigger, run)` of each trigger that has room for one; no run where none is due."""
    first = due.filter(trigger=OuterRef("pk")).order_by(*ORDER).values("pk")[:1]
    return Trigger.objects.with_room().annotate(head=Subquery(first)).values_list("pk", "head")


def first_alone(due: RunQuerySet) -> QuerySet[Run, Any]:
    """The same of those that have no trigger."""
    return due.filter(trigger=None).order_by(*ORDER).values_list("trigger", "pk")[:1]


def whole(found: Iterable[tuple[int | None, int]]) -> list[Head]:
    ids = [run for _, run in found]
    names = [f"run{number}" for number in range(len(ids))]
    rows = by_number(tuple(names))(**dict(zip(names, ids, strict=True))) if ids else []
    return [Head(*row) for row in rows]


@lru_cache(maxsize=256)
def by_number(names: tuple[str, ...]) -> Select:
    """So many runs by their numbers."""
    rows = Run.objects.values_list("pk", "trigger", "priority", "due_at")
    return Select(lambda **ids: rows.filter(pk__in=[*ids.values()]), **dict.fromkeys(names, int))


class Line:
    """Due runs, by the question `due(...)`: the first for every trigger, by one short look along the index for each."""

    def __init__(self, due: Callable[..., RunQuerySet], **kinds: type) -> None:
        self.due, self.kinds = due, kinds
        of_triggers = Select(lambda **given: firsts(due(**given)), **kinds)
        self.firsts = Both(of_triggers, Select(lambda **given: first_alone(due(**given)), **kinds))
        self.queues: dict[tuple[bool, int], Select] = {}

    def heads(self, **given: Any) -> list[tuple[int | None, int]]:
        """`(trigger, run)` where one is due."""
        return [(trigger, run) for trigger, run in self.firsts(**given) if run is not None]

    def queue(self, trigger: int | None, most: int, **given: Any) -> list[int]:
        """The first runs of one trigger, or of those that have none."""
        form = (trigger is None, most)
        if form not in self.queues:
            self.queues[form] = self.first_of(*form)
        own = {} if trigger is None else {"trigger": trigger}
        return [run for (run,) in self.queues[form](**own, **given)]

    def first_of(self, alone: bool, most: int) -> Select:
        def runs(trigger: int | None = None, **given: Any) -> QuerySet[Run, Any]:
            return self.due(**given).filter(trigger=trigger).order_by(*ORDER).values_list("pk")[:most]

        return Select(runs, **self.kinds) if alone else Select(runs, trigger=int, **self.kinds)


def open_to_all(now: datetime) -> RunQuerySet:
    """What a worker that has nothing to do may take: those without a handler wait until one is back."""
    return Run.objects.due(now).exclude(reason="handler_missing")


OPEN = Line(open_to_all, now=datetime)


def next_turn(now: datetime) -> tuple[int | None, int] | None:
    """The trigger and the run whose turn it is; of one that is alone nothing needs to be read."""
    found = OPEN.heads(now=now)
    if len(found) < 2:
        return found[0] if found else None
    head = min(whole(found), key=lambda head: place(head, now), default=None)
    return (head.trigger, head.run) if head else None


def in_order(found: Sequence[Head], now: datetime) -> list[Head]:
    """By aged priority; of equals, whoever was served longest ago."""
    return sorted(found, key=lambda head: place(head, now))


def place(head: Head, now: datetime) -> tuple[int, int, datetime, int]:
    return rank(head, now), Served.last.get(head.trigger, 0), head.due_at, head.run


def rank(head: Head, now: datetime) -> int:
    return max(0, head.priority - max(0, (now - head.due_at) // AGING))


def fair_share(line: Line, now: datetime, most: int, **given: Any) -> list[int]:
    """At most `most` of `line`, as many of each trigger as of the others while they last."""
    order = in_order(whole(line.heads(now=now, **given)), now)[:most]
    each = max(1, most // max(1, len(order)))
    queues = [line.queue(head.trigger, each, now=now, **given) for head in order]
    return [queue[place] for place in range(each) for queue in queues if place < len(queue)][:most]
