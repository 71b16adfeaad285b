"""What the rules of a policy say of one action, the strictest wins. Pure: no database, no clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from approvals.tallying import Panel, merged
from approvals.tiers import Tier, stricter
from approvals.windows import DAYS, Window
from triggers.filters import FilterPlan, Language, Path
from triggers.matching import CEL_ERRORS, gone_from, program
from triggers.viewing import View, branches

ACTION = frozenset({"kind", "arguments", "connection", "key", "title", "tier", "proposed_by_agent"})
RUN, TIME = frozenset({"handler", "trigger", "attempt"}), frozenset({"hour", "minute", "weekday"})
CONDITION = Language(
    "condition",
    ("action", "event", "run", "time"),
    "action.arguments.amount > 500",
    {"action": ACTION, "run": RUN, "time": TIME},  # an event has what its sender gave it
)
DENY, REQUIRE, ALLOW = EFFECTS = ("deny", "require", "allow")
DEFAULT = "default by tier"

TROUBLES = (
    (TypeError, "the types do not fit"),
    (ZeroDivisionError, "division by zero"),
    (OverflowError, "a number is too large"),
)

Values = Mapping[str, Any]
Facts = Callable[[tuple[Path, ...]], dict[str, Any]]  # what an expression reads, without `time`


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as it is stored in a version of the policy."""

    slug: str
    version: int
    when: str
    plan: FilterPlan
    effect: str
    tier: str = ""
    reviewers: tuple[str, ...] = ()
    quorum: int = 0
    rejections: int = 0
    four_eyes: bool = False
    expires: int = 0  # seconds people have at most; 0: as long as whoever asked wants
    windows: tuple[Window, ...] = ()
    zone: str = "UTC"
    escalate_after: int = 0  # seconds until the next of `reviewers` is told too; 0: all at once
    order: int = 0
    hold: int = 0  # seconds in which what is low waits, and can be undone
    otherwise: bool = False  # it only names people, for what comes out as its tier and nobody else is named for

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(tuple(path) for path in self.plan["paths"])

    def says(self, facts: Facts, at: datetime) -> Reason | None:
        """Why it speaks about this action: it means it, or it could not be asked. None: it is about others."""
        values = {**facts(self.paths), "time": moment(at, self.zone)}
        try:
            answer = program(self.when).execute(View(values, branches(self.paths)).context)
        except CEL_ERRORS as error:
            return self.reason(self.trouble(values, error))
        if answer is False:
            return None
        return self.reason("" if answer is True else "it is neither true nor false")

    def reason(self, error: str) -> Reason:
        asks_for = tier_of(self) if self.effect == REQUIRE and not self.otherwise else ""
        return Reason(self.slug, self.effect, self.when, error, asks_for)

    def trouble(self, values: Values, error: Exception) -> str:
        """Why it could not be asked, naming a path and never a value."""
        gone = (gone_from(clause, values, error) for clause in self.plan["clauses"])
        return next(filter(None, gone), "") or next(
            (words for kind, words in TROUBLES if isinstance(error, kind)), "a value does not fit"
        )


@dataclass(frozen=True, slots=True)
class Reason:
    """Which rule spoke about an action; `error` says why it could not be asked. No value of the action is in it."""

    rule: str
    effect: str
    when: str
    error: str = ""
    tier: str = ""  # that it asks for

    def told(self) -> dict[str, str]:
        said = {"rule": self.rule, "effect": self.effect, "when": self.when, "error": self.error}
        return {**said, "tier": str(self.tier)}


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the policy in force says about one action, and of which version of the action it says so."""

    tier: Tier
    needed: int  # people who must say yes
    groups: tuple[Panel, ...]  # of which each needs its own
    reviewers: tuple[str, ...]  # roles and teams whose members may decide
    four_eyes: bool  # do the trigger's owner and its last editor count as requesters, and has nobody an exception?
    name: str = DEFAULT
    version: int = 0
    denied_by: str = ""
    allowed_by: str = ""
    reasons: tuple[Reason, ...] = ()
    expires: int = 0
    hold: int = 0
    rejections: int = 1  # people whose no ends it
    windows: tuple[tuple[str, tuple[Window, ...]], ...] = ()  # (zone, windows) of each rule that has some
    escalate_after: int = 0
    about: tuple[int, str, str, int] | None = None  # revision, digest, tier and connection of the action it is for

    @property
    def waits(self) -> bool:
        return self.tier.waits and not self.denied_by

    @property
    def words(self) -> str:
        """`waits for 2 people, high risk`."""
        if self.denied_by:
            return "denied"
        if not self.tier.waits:
            return "done at once"
        of = " and ".join(f"{group.quorum} of {' or '.join(group.names)}" for group in self.groups)
        many = of or (f"{self.needed} people" if self.needed > 1 else "a person")
        return f"waits for {many}{', high risk' if self.tier is Tier.HIGH else ''}"


def moment(at: datetime, zone: str) -> dict[str, Any]:
    """`time` as a condition reads it."""
    local = at.astimezone(ZoneInfo(zone))
    return {"hour": local.hour, "minute": local.minute, "weekday": DAYS[local.weekday()]}


def judge(
    rules: Sequence[Rule],
    facts: Facts,
    *,
    at: datetime,
    usual: Tier,
    may_lower: bool,
    at_least: str,
    anyone: str,
    version: int = 0,
) -> Ruling:
    """Ask every rule; deny beats require beats allow, the highest tier and the shortest time win, every group counts.

    `usual` is the kind's own tier; `anyone` the role that decides on medium where no rule names reviewers: on high
    nobody does then. A rule that cannot be asked makes it high. Nothing goes below `at_least`."""
    heard = [(rule, said) for rule in rules if (said := rule.says(facts, at))]
    plain = [rule for rule, said in heard if not said.error and not rule.otherwise]
    broken = [rule for rule, said in heard if said.error]
    denying, asking = ([rule for rule in plain if rule.effect == effect] for effect in (DENY, REQUIRE))
    allowing = [rule for rule in plain if rule.effect == ALLOW]
    lowered = bool(allowing) and may_lower and usual.waits and not (denying or asking or broken)
    tier = stricter(Tier.LOW if lowered else usual, at_least, *map(tier_of, asking), *(Tier.HIGH for _ in broken))
    naming = [] if any(rule.reviewers for rule in asking) else [rule for rule, said in heard if names(rule, said, tier)]
    asking, plain = [*asking, *naming], [*plain, *naming]
    heard = [(rule, said) for rule, said in heard if not rule.otherwise or said.error or rule in naming]
    let = allowing[:1] if lowered and not tier.waits else []
    held = [rule for rule in allowing if rule.hold and tier is Tier.LOW]
    groups = merged(Panel(rule.reviewers, rule.quorum or 1) for rule in asking if rule.reviewers) if tier.waits else ()
    least = max([1, *(rule.quorum for rule in asking if not rule.reviewers)])
    first = next(iter([*denying, *broken, *sorted(asking, key=lambda rule: -tier_of(rule).rank), *let]), None)
    named = dict.fromkeys(name for group in groups for name in group.names)
    return Ruling(
        tier=tier,
        needed=max(least, sum(group.quorum for group in groups)) if tier.waits else 0,
        groups=groups,
        reviewers=tuple(named) or ((anyone,) if tier is Tier.MEDIUM else ()),
        four_eyes=tier is Tier.HIGH or any(rule.four_eyes for rule in asking),
        name=first.slug if first else DEFAULT,
        version=version,
        denied_by=denying[0].slug if denying else "",
        allowed_by=let[0].slug if let else "",
        reasons=tuple(said for rule, said in heard if rule.effect != ALLOW or said.error or rule in (*let, *held)),
        expires=min([rule.expires for rule in asking if rule.expires], default=0),
        rejections=min([rule.rejections or 1 for rule in asking if rule.rejections or not rule.otherwise], default=1),
        hold=max([rule.hold for rule in held], default=0),
        windows=tuple((rule.zone, rule.windows) for rule in plain if rule.windows),
        escalate_after=min([rule.escalate_after for rule in asking if rule.escalate_after], default=0),
    )


def names(rule: Rule, said: Reason, tier: Tier) -> bool:
    """Is it a rule that names people where no other does, for what came out as this tier?"""
    return rule.otherwise and not said.error and tier_of(rule) is tier


def tier_of(rule: Rule) -> Tier:
    """What a rule asks for; a rule that requires without naming a tier wants a person."""
    return Tier(rule.tier or Tier.MEDIUM)


@lru_cache(maxsize=32)
def read_rules(text: str) -> tuple[Rule, ...]:
    """The rules of one stored version, in their order."""
    return tuple(rule_of(each) for each in json.loads(text))


def rule_of(stored: Mapping[str, Any]) -> Rule:
    lists = {"reviewers": tuple(stored["reviewers"]), "windows": tuple(map(Window.of, stored["windows"]))}
    return Rule(**{**stored, **lists})
