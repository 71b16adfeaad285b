"""A draft of the policy tried on what was asked for lately: what would have waited, and what no longer would."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.contrib.auth.models import AnonymousUser

from approvals import policy
from approvals.models import Action
from approvals.models.action import UNREADABLE
from approvals.rules import Rule, Ruling
from approvals.tiers import Tier
from approvals.windows import waits_longer
from project.lib import clock
from project.people.models import User

BACK = timedelta(days=30)
MOST = 2000  # newest actions that are looked at
PATIENCE = 8.0  # seconds
SHOWN = 50  # rows of each list
LARGE = 256 * 1024  # bytes; larger texts are not tried
COUNTED = ("more", "fewer", "denied", "let", "asks_more", "asks_otherwise")


@dataclass(frozen=True, slots=True)
class Change:
    """One action that would have gone otherwise."""

    action: Action
    before: Ruling
    after: Ruling


@dataclass(slots=True)
class Backtest:
    """What a draft would have done. The lists hold the newest; the numbers count all that were looked at.

    Whatever would have gone otherwise is counted under one of `COUNTED`, and only there."""

    looked_at: int = 0
    all_of_them: bool = True  # False: there were more than could be looked at
    untold: int = 0  # actions whose payload is gone, so that nobody can tell
    more: int = 0  # would have waited for people
    fewer: int = 0  # would not have waited
    denied: int = 0  # would have been denied
    let: int = 0  # would no longer have been denied
    asks_more: int = 0  # waited, and would have asked for all that it asked for and more
    asks_otherwise: int = 0  # waited, and would have asked less: fewer, others, a lower tier, at other times
    less_than_high: list[int] = field(default_factory=list)
    high_for_others: list[int] = field(default_factory=list)  # still high, for fewer or other people or at other times
    changes: list[Change] = field(default_factory=list)

    @property
    def differs(self) -> int:
        return sum(getattr(self, name) for name in COUNTED)

    def shown_to(self, reader: User | AnonymousUser) -> None:
        """A headline is made of arguments: who may not read those, be he an admin, gets the kind in its place."""
        for one in self.changes:
            one.action.shown_to(reader)

    def add(self, change: Change) -> None:
        was, would = change.before, change.after
        if wants(was) == wants(would):
            return
        counted = counted_under(was, would)
        setattr(self, counted, getattr(self, counted) + 1)
        if weight(was) >= Tier.HIGH.rank and weight(would) < Tier.HIGH.rank:
            self.less_than_high.append(change.action.pk)
        elif weight(was) == Tier.HIGH.rank and counted == "asks_otherwise":
            self.high_for_others.append(change.action.pk)
        if len(self.changes) < SHOWN:
            self.changes.append(change)


def counted_under(was: Ruling, would: Ruling) -> str:
    """Which one of `COUNTED` a change belongs to."""
    if would.denied_by:
        return "denied"
    if was.denied_by:
        return "let"
    if was.waits and would.waits:
        return "asks_more" if asks_for_all(would, was) else "asks_otherwise"
    return "more" if would.waits else "fewer"


def weight(found: Ruling) -> int:
    """How strict it is; what is denied is stricter than high."""
    return len(Tier) if found.denied_by else found.tier.rank


def wants(found: Ruling) -> tuple[object, ...]:
    """What of it people would notice."""
    return weight(found), found.groups, found.needed, found.four_eyes, found.rejections, found.expires, found.windows


def asks_for_all(would: Ruling, was: Ruling) -> bool:
    """Does it still ask for everybody for whom it asked, on no lower tier, and in no more time?"""
    quorums = {frozenset(group.names): group.quorum for group in would.groups}
    all_groups = all(quorums.get(frozenset(group.names), 0) >= group.quorum for group in was.groups)
    as_strict = would.tier.rank >= was.tier.rank and would.needed >= was.needed and would.four_eyes >= was.four_eyes
    as_soon = not waits_longer(was.expires, would.expires) and set(was.windows) <= set(would.windows)
    bound = would.rejections <= was.rejections and as_soon
    return all_groups and as_strict and bound


def compare(before: Sequence[Rule], after: Sequence[Rule]) -> Backtest:
    """Ask both policies about every action of the last 30 days, as each was proposed; bounded in number and time."""
    found, until = Backtest(), time.monotonic() + PATIENCE
    since = clock.now() - BACK
    rows = Action.objects.filter(created_at__gte=since).order_by("-pk")
    asked = rows.select_related("connection", "run", "run__event", "run__trigger").defer(
        "evidence", "result_json", "error", "run__result_json", "run__data_json", "run__error"
    )
    both = (tuple(before), tuple(after))
    for action in asked[: MOST + 1].iterator(chunk_size=100):
        if found.looked_at == MOST or time.monotonic() > until:
            found.all_of_them = False
            break
        found.looked_at += 1
        pair = [told(rules, action) for rules in both]
        if pair[0] is None or pair[1] is None:
            found.untold += 1
        else:
            found.add(Change(action, pair[0], pair[1]))
    return found


def told(rules: tuple[Rule, ...], action: Action) -> Ruling | None:
    """What these rules say of it; None when they read what is gone."""
    reads = {path[0] for rule in rules for path in rule.paths}
    pruned = action.run is not None and action.run.event.pruned_at is not None
    if (pruned and "event" in reads) or len(action.canonical) > LARGE:
        return None
    try:
        asked = policy.Asked.of(action)
    except UNREADABLE:
        return None
    return policy.ruled(rules, asked, at=action.created_at)
