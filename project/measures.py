"""How much goes by itself and how long people take, for the whole desk and by kind and handler: asked of the rows of
one span of time, for the home page and for `/metrics` alike."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from approvals.models import Action, Decision
from approvals.models.action import Status
from approvals.settle import DENIED
from approvals.tiers import WAITING
from project.lib import clock
from triggers.models import Audit

DAY = timedelta(days=1)
MOST = 5000  # newest rows of each sort that are looked at
ROWS = 100  # kinds and handlers that are told apart; the rest is one row
OTHERS = "other"
USUAL = (70, 85)  # per cent without a person: what articles on agents at work report
NAME = ("kind", "run__handler")

Name = tuple[str, str]  # kind, handler; no handler: from outside


@dataclass(slots=True)
class Measures:
    """What was asked for, and what people did with what they were asked."""

    asked: int = 0
    by_itself: int = 0  # of `asked`, without a person
    expired: int = 0
    edited: int = 0
    taken_back: int = 0
    waits: list[float] = field(default_factory=list)  # seconds from the question to the decision

    def add(self, other: Measures) -> None:
        for name in ("asked", "by_itself", "expired", "edited", "taken_back"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.waits += other.waits

    @property
    def share(self) -> float | None:
        """Of everything that was asked for, what asked nobody; 0 to 1."""
        return self.by_itself / self.asked if self.asked else None

    @property
    def is_cut(self) -> bool:
        """Of the whole desk: there may be more than was looked at."""
        return max(self.asked, len(self.waits), self.expired) >= MOST

    @property
    def median(self) -> float | None:
        return statistics.median(self.waits) if self.waits else None

    @property
    def p95(self) -> float | None:
        return percentile(self.waits, 0.95) if self.waits else None


def measured(since: datetime) -> dict[Name, Measures]:
    """Every kind and handler since then, the busiest first; what a rule denied asked nobody and did nothing.

    Edits and take-backs are those of what was asked since."""
    found: dict[Name, Measures] = defaultdict(Measures)
    asked = Action.objects.filter(created_at__gte=since).exclude(reason_code=DENIED).order_by("-created_at")
    for *name, tier in asked.values_list(*NAME, "tier")[:MOST]:
        each = found[named(*name)]
        each.asked += 1
        each.by_itself += tier not in WAITING
    decided = Action.objects.filter(decided_at__gte=since, tier__in=WAITING).order_by("-decided_at")
    for *name, begun, end in decided.values_list(*NAME, "created_at", "decided_at")[:MOST]:
        found[named(*name)].waits.append(max(0.0, (end - begun).total_seconds()))
    ended = Action.objects.filter(settled_at__gte=since).order_by("-settled_at")
    for name in ended.filter(status=Status.EXPIRED, reason_code="expires_at").values_list(*NAME)[:MOST]:
        found[named(*name)].expired += 1
    for name in edited(since):
        found[name].edited += 1
    for name in taken_back(since):
        found[name].taken_back += 1
    return dict(sorted(found.items(), key=lambda row: (-row[1].asked, row[0])))


def named(kind: str, handler: str | None) -> Name:
    return kind, handler or ""


def edited(since: datetime) -> Iterator[Name]:
    """Once for each edit of what was asked since then: people are few, so what they said is looked at, not all that
    was asked."""
    edits = Decision.objects.filter(verdict="edit", at__gte=since, action__created_at__gte=since)
    of_what = edits.exclude(action__reason_code=DENIED).order_by("-at")
    for name in of_what.values_list(*(f"action__{part}" for part in NAME))[:MOST]:
        yield named(*name)


def taken_back(since: datetime) -> Iterator[Name]:
    """Once for each time that something asked since then was taken back."""
    back = Audit.objects.taken_back().filter(at__gte=since).order_by("-id")
    refs = [int(ref) for ref in back.values_list("ref", flat=True)[:MOST]]
    asked = Action.objects.filter(pk__in=set(refs), created_at__gte=since).exclude(reason_code=DENIED)
    names = {pk: named(*name) for pk, *name in asked.values_list("pk", *NAME)}
    yield from (names[ref] for ref in refs if ref in names)


def together(rows: dict[Name, Measures]) -> Measures:
    total = Measures()
    for each in rows.values():
        total.add(each)
    return total


def bounded(rows: dict[Name, Measures]) -> dict[Name, Measures]:
    """At most ROWS of them; the rest as one."""
    kept = dict(list(rows.items())[:ROWS])
    rest = together(dict(list(rows.items())[ROWS:]))
    return kept | ({(OTHERS, OTHERS): rest} if len(rows) > ROWS else {})


def of_last_day() -> dict[Name, Measures]:
    return bounded(measured(clock.now() - DAY))


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
