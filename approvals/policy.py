"""What the policy in force says of an action, and whether a person may decide it.

A verdict is computed before BEGIN, since rules are expressions, and carries the version of the policy; a door that
holds the gate and the row then only compares (`check_current`), and computes again when one of them has changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from django.db.models import QuerySet

from approvals import requesters
from approvals.errors import PolicyMoved
from approvals.kinds import KINDS, Kind
from approvals.models import Action, Decision, PolicyVersion
from approvals.models.action import EVERYBODY, UNREADABLE
from approvals.rules import DEFAULT, Reason, Rule, Ruling, judge, read_rules
from approvals.tallying import Count, Panel, merged, tally
from approvals.tiers import Tier, stricter
from project.lib import clock
from project.people import roles
from project.people.models import User
from triggers.filters import Path
from triggers.viewing import Readable, attributes, branches

if TYPE_CHECKING:
    from triggers.models import Event, Run

BLANK = {"type": "", "source": "", "ce_source": "", "subject": ""}  # of an action that no event led to
BY_AGENT = "proposed_by_agent"
USUAL_TAKE_BACK = timedelta(seconds=10)  # of what people said yes to
TRIES = 20  # that a door computes the verdict again, while somebody changes the policy under it

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Asked:
    """An action as rules read it, also before it is a row."""

    kind: str
    arguments: dict[str, Any]
    connection: str
    key: str
    title: str
    run: Run | None
    person: int | None  # who proposed it without a run
    config: dict[str, Any] | None = None  # of the connection as it is now

    @classmethod
    def of(cls, action: Action, *, arguments: dict[str, Any] | None = None, title: str = "") -> Asked:
        """A row, or what an edit would make of it. Raises ValueError when its stored text is no JSON."""
        return cls(
            kind=action.kind,
            arguments=action.arguments if arguments is None else arguments,
            connection=action.connection.slug if action.connection else "",
            key=action.key,
            title=title or action.title,
            run=action.run,
            person=action.requested_by_id,
            config=action.connection.config if action.connection else None,
        )

    def facts(self, paths: tuple[Path, ...]) -> dict[str, Any]:
        """What an expression that reads `paths` is given, without `time`."""
        ways = {"action": self.own, "event": self.of_event, "run": self.of_run}
        return {name: ways[name](wanted) for name, wanted in branches(paths).items() if name in ways}

    def own(self, wanted: dict[str, Any]) -> dict[str, Any]:
        plain = {
            "kind": self.kind,
            "arguments": self.arguments,
            "connection": self.connection,
            "key": self.key,
            "title": self.title,
            "tier": str(usual(self.kind, self.arguments, self.config)),
        }
        return plain | {"proposed_by_agent": self.is_by_agent} if not wanted or BY_AGENT in wanted else plain

    @property
    def is_by_agent(self) -> bool:
        """No person rang, ran it again or proposed it."""
        if not self.run:
            return self.person is None
        return not set(requesters.chain(self.run, four_eyes=False)) - {EVERYBODY}  # who bars all names nobody

    def of_run(self, wanted: dict[str, Any]) -> dict[str, Any]:
        run = self.run
        if run is None:
            return {"handler": "", "trigger": "", "attempt": 0}
        trigger = run.trigger.slug if run.trigger else ""
        return {"handler": run.handler, "trigger": trigger, "attempt": run.attempt}

    def of_event(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """An attribute that the sender left out is empty, as everybody expects of a rule; data is there or not."""
        event: Event | None = self.run.event if self.run else None
        return BLANK | (attributes(cast(Readable, event), wanted) if event else {})


def usual(kind: str, arguments: dict[str, Any] | None = None, config: dict[str, Any] | None = None) -> Tier:
    """The tier of a kind where no rule says more; an unknown kind is high."""
    known = KINDS.get(kind)
    return known.tier_of(arguments, config) if known else Tier.HIGH


def may_lower(asked: Asked) -> bool:
    """May a rule let it through? Never what is high, and a question is nothing until somebody answers it."""
    known = KINDS.get(asked.kind)
    lowest = known is not None and known.tier_of(asked.arguments, asked.config)
    return known is not None and lowest is not Tier.HIGH and not known.is_question


@dataclass(frozen=True, slots=True)
class InForce:
    """The policy at one moment, read once for a list of many rows."""

    number: int
    text: str
    at: datetime

    @classmethod
    def read(cls, at: datetime | None = None) -> InForce:
        """`at`: the database's time, where it was asked a moment ago."""
        return cls(*PolicyVersion.in_force(), at or clock.now())


def ruling(asked: Asked, *, at_least: str = Tier.READ, known: InForce | None = None) -> Ruling:
    """What the policy in force says now. Call it outside a transaction."""
    known = known or InForce.read()
    return ruled(read_rules(known.text), asked, at_least=at_least, at=known.at, version=known.number)


def ruled(
    rules: tuple[Rule, ...], asked: Asked, *, at_least: str = Tier.READ, at: datetime, version: int = 0
) -> Ruling:
    return judge(
        rules,
        asked.facts,
        at=at,
        usual=usual(asked.kind, asked.arguments, asked.config),
        may_lower=may_lower(asked),
        at_least=at_least,
        anyone=roles.REVIEWER,
        version=version,
    )


def ruling_of(action: Action, *, at_least: str = Tier.READ, known: InForce | None = None) -> Ruling:
    """The same for a row as it is now, never below its own tier, and with everybody it was found to need before.

    A loosened policy changes nothing for what waits already."""
    floor = stricter(action.tier, at_least)
    try:
        found = ruling(Asked.of(action), at_least=floor, known=known)
    except UNREADABLE:
        found = replace(unreadable(), version=PolicyVersion.newest())
    return replace(joined(found, action), about=about(action))


def cannot_be_read(action: Action) -> bool:
    """Is its stored text none of an action? Then it can only be refused, and only come to its end."""
    try:
        Asked.of(action)
    except UNREADABLE:
        return True
    return False


def unreadable() -> Ruling:
    """Somebody wrote something into the row that is no action: no rule can read it."""
    return Ruling(Tier.HIGH, 1, (), (), True)


def asked_of(action: Action) -> Ruling:
    """Whom the row itself names, where no rule may be asked any more (inside a transaction)."""
    anyone = (roles.REVIEWER,) if action.tier == Tier.MEDIUM else ()
    found = Ruling(Tier(action.tier), action.needed, (), anyone, action.is_strict)
    return joined(found, action)


def joined(found: Ruling, action: Action) -> Ruling:
    """`found` together with what the row says already: people, groups and four eyes are only ever added."""
    if not found.tier.waits:
        return found
    groups = merged([*map(Panel.of, action.groups), *found.groups])
    named = dict.fromkeys(name for group in groups for name in group.names)
    spoken = {said.rule for said in found.reasons}
    before = [Reason(**said) for said in action.ruled_by if said["rule"] not in spoken]
    return replace(
        found,
        groups=groups,
        reviewers=tuple(named) or found.reviewers,
        needed=max(action.needed, found.needed, sum(group.quorum for group in groups)),
        rejections=min(found.rejections, action.rejections_needed),
        four_eyes=found.four_eyes or action.four_eyes,
        name=action.policy if found.name == DEFAULT else found.name,
        reasons=(*found.reasons, *before),
    )


def about(action: Action) -> tuple[int, str, str, int]:
    """By the version of its connection too: that may say how risky the call is."""
    return action.revision, action.digest, action.tier, action.connection.version if action.connection else 0


def check_current(found: Ruling, action: Action | None = None) -> None:
    """Inside the transaction, the gate and the row held: raises PolicyMoved for a verdict about what was before."""
    if found.version != PolicyVersion.newest() or (action is not None and found.about != about(action)):
        raise PolicyMoved


def again_when_moved(door: Callable[P, R]) -> Callable[P, R]:
    """Roll back and compute again when the policy, or the row, changed between verdict and transaction."""

    @functools.wraps(door)
    def tried(*args: P.args, **kwargs: P.kwargs) -> R:
        for _ in range(TRIES):
            try:
                return door(*args, **kwargs)
            except PolicyMoved:
                continue
        return door(*args, **kwargs)

    return tried


# People


def names_of(user: User) -> frozenset[str]:
    """Roles and teams that an active person holds now; a superuser holds none by that."""
    return frozenset(user.groups.values_list("name", flat=True)) if user.is_active else frozenset()


def may_review(user: User, found: Ruling, names: frozenset[str] | None = None) -> bool:
    """Does `user` hold, now, a role or a team that the policy names? Nobody holds one without members.

    `names`: what he holds, where it was read a moment ago for a whole list."""
    return bool((names_of(user) if names is None else names) & set(found.reviewers))


def is_named(user: User, action: Action) -> bool:
    """Does the action wait for a role or a team that `user` holds now?"""
    return bool(names_of(user) & {name for group in action.groups for name in group["reviewers"]})


def able(action: Action, found: Ruling) -> QuerySet[User]:
    """Who may say yes, now: active people whom the policy names and who are not behind the request; where there is no
    such person, and no four eyes are wanted, those who are behind it all the same. An answer grants nothing: anybody
    who is named may give it."""
    people = User.objects.filter(is_active=True, groups__name__in=found.reviewers).distinct()
    if is_question(action):
        return people
    asked = behind(action, found)
    if EVERYBODY in asked:
        return people.none()
    others = people.exclude(pk__in=asked)
    return others if found.four_eyes or others.exists() else people


def behind(action: Action, found: Ruling) -> frozenset[int]:
    """Who asked for it; on high, or with four eyes, also who edited it."""
    editors = action.decisions.filter(verdict="edit").values_list("by_id", flat=True) if action.is_strict else []
    return frozenset([*action.requester_chain, *chain_added(action, found), *editors])


def barred(action: Action, found: Ruling) -> frozenset[int]:
    """Whose yes does not count: with four eyes nobody's who is behind the request; else people decide at the click. An
    answer counts whoever gives it."""
    return behind(action, found) if found.four_eyes and not is_question(action) else frozenset()


def chain_added(action: Action, found: Ruling) -> list[int]:
    """Who joins the requester chain because the policy came to want four eyes after it was asked for."""
    if not found.four_eyes or action.is_strict or action.run is None:
        return []
    people = requesters.chain(action.run, four_eyes=True)
    return [person for person in people if person not in action.requester_chain]


def counted(action: Action, found: Ruling) -> Count:
    """How many of the people who said yes to this revision count, by what they held when they said it."""
    said: QuerySet[Decision] = action.decisions.filter(verdict="approve", revision=action.revision)
    said = said.none() if EVERYBODY in behind(action, found) and not is_question(action) else said
    out = barred(action, found) | rejected_by(action)
    people = {row.by_id: held_by(row) for row in said.select_related("by").order_by("pk") if row.by_id not in out}
    able = [names for names in people.values() if names & set(found.reviewers)]
    return tally(found.groups, found.needed, able)


def is_question(action: Action) -> bool:
    kind = KINDS.get(action.kind)
    return kind is not None and kind.is_question


def rejected_by(action: Action) -> frozenset[int]:
    """Who said no to this revision; a yes of theirs, said before, counts no more."""
    noes = action.decisions.filter(verdict="reject", revision=action.revision)
    return frozenset(noes.values_list("by_id", flat=True))


def held_by(said: Decision) -> frozenset[str]:
    return frozenset(said.held) if said.held is not None else names_of(said.by)


def at_least_asked(found: Ruling) -> Ruling:
    """The same where a person looks at it, whatever its tier."""
    if found.tier.waits:
        return found
    return replace(found, tier=Tier.MEDIUM, needed=1, reviewers=(roles.REVIEWER,), allowed_by="")


def written(found: Ruling) -> dict[str, Any]:
    """The fields of an action that say what the policy wants for it."""
    return {
        "tier": found.tier,
        "policy": found.name,
        "policy_version": found.version,
        "needed": found.needed,
        "rejections_needed": found.rejections,
        "groups": [group.told() for group in found.groups],
        "four_eyes": found.four_eyes,
        "allowed_by": found.allowed_by,
        "ruled_by": [said.told() for said in found.reasons],
    }


def asked_as(kind: Kind | None, found: Ruling) -> dict[str, Any]:
    """The same of what people are asked about from now on: a new row, a new revision, a higher tier."""
    return {**written(found), "take_back_for": int(take_back_for(kind, found).total_seconds())}


def take_back_for(kind: Kind | None, found: Ruling) -> timedelta:
    """How long it is held back after the yes, or, on low, before it happens by itself."""
    own = kind.take_back if kind else None
    if own is None:
        own = USUAL_TAKE_BACK if found.tier.waits else timedelta(0)
    return max(own, timedelta(seconds=found.hold))
