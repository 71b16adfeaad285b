"""Rules of the policy are made, changed and taken away here, each time as the next version of the whole policy."""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import Group
from django.db import transaction

from approvals.backtest import Backtest, compare
from approvals.errors import NeedsSecondAdmin, NotValid, PolicyMoved
from approvals.guarding import loosens
from approvals.lockouts import lockouts, unknown_kinds
from approvals.models import PolicyChange, PolicyRule, PolicyVersion
from approvals.policy import again_when_moved
from approvals.rules import ALLOW, CONDITION, DENY, EFFECTS, REQUIRE, read_rules, rule_of
from approvals.tiers import Tier
from approvals.windows import checked_windows
from approvals.wish import LONGEST
from project.lib import canonical, clock, gate
from project.lib.live import changed
from project.people import roles
from triggers.configure import insert_named, named, refuse_stale, refuse_taken
from triggers.filters import compile_filter
from triggers.models import Audit

if TYPE_CHECKING:
    from project.people.models import User

MOST_PEOPLE = 20
MOST_RULES = 200
LONGEST_HOLD = 3600  # seconds
USUAL: dict[str, Any] = {
    "order": 100,
    "tier": "",
    "reviewers": [],
    "quorum": 0,
    "rejections": 0,
    "four_eyes": False,
    "expires": 0,
    "windows": [],
    "zone": "UTC",
    "escalate_after": 0,
    "hold": 0,
    "otherwise": False,
}


@dataclass(frozen=True, slots=True)
class Amendment:
    """A change as it would be: the policy with it, and what that does to the actions of the last weeks."""

    verb: str
    slug: str
    fields: dict[str, Any]
    rule_version: int
    policy: int  # the version it was compared with
    backtest: Backtest
    loosens: tuple[str, ...]  # sentences; with any of them it needs a second admin
    warns: tuple[str, ...] = ()  # sentences; it can be saved all the same

    @property
    def seen(self) -> str:
        """Names what was shown: another draft, or the same for another policy, is looked at again."""
        said = {"verb": self.verb, "slug": self.slug, "fields": audited(self), "policy": self.policy}
        return canonical.digest_of_text(canonical.text({**said, "rule": self.rule_version}))


def amended(verb: str, slug: str, row: PolicyRule | None, **given: Any) -> Amendment:
    """Check a change and try it on what happened; nothing is written. Raises NotValid, BadFilter."""
    number, text = PolicyVersion.in_force()
    before = read_rules(text)
    kept = {name: getattr(row, name) for name in USUAL} | {"when": row.when, "effect": row.effect} if row else USUAL
    fields = {} if verb == "archive" else checked({**kept, **given})
    others = tuple(rule for rule in before if rule.slug != slug)
    if verb == "create" and len(others) >= MOST_RULES:
        raise NotValid(f"A policy has at most {MOST_RULES} rules.", field="slug")
    version = row.version + 1 if row else 1
    own = None if verb == "archive" else rule_of({"slug": slug, "version": version, **fields})
    after = tuple(sorted([*others, *([own] if own else [])], key=lambda rule: (rule.order, rule.slug)))
    found = compare(before, after)
    said = (*loosens(rule_of(row.stored) if row else None, own, others), *loosened(found))
    warns = (*unknown_kinds(fields), *lockouts(own, before, others))
    return Amendment(verb, slug, fields, row.version if row else 0, number, found, said, warns)


def loosened(found: Backtest) -> list[str]:
    """What of the last weeks would have been less than high, or high for others, in sentences."""
    said = []
    for high, becomes in (
        (found.less_than_high, "be less"),
        (found.high_for_others, "need fewer or other people, or wait for other times"),
    ):
        if high:
            numbers = ", ".join(f"A-{pk}" for pk in high[:5])
            said.append(f"{len(high)} of the last 30 days that were high would {becomes}: {numbers}.")
    return said


@again_when_moved
def save(
    verb: str, slug: str, row: PolicyRule | None, *, by: User, version: int = 0, **given: Any
) -> PolicyRule | PolicyChange:
    """Create, change or archive a rule; when that loosens what is high, keep the change for a second admin instead.

    Raises NotValid, BadFilter, SlugTaken, Stale."""
    if row is not None:
        refuse_stale(row.version, version)
    draft = amended(verb, slug, row, **given)
    return store(draft, by=by) if draft.loosens else write(draft, by=by)


def write(draft: Amendment, *, by: User, change: PolicyChange | None = None) -> PolicyRule:
    """The change and the next version of the policy, in one transaction under the gate. Raises PolicyMoved."""
    with transaction.atomic():
        gate.exclusive()
        if PolicyVersion.newest() != draft.policy:
            raise PolicyMoved
        row = applied(draft, by=by)
        version = PolicyVersion.write(by=by)
        Audit.write(draft.verb, row, by=by, policy=version.number, **audited(draft))
        if change is not None:
            change.move("confirm", ended_by=by, ended_at=clock.now())
        changed("policies", id=row.slug, version=version.number)
    return row


def audited(draft: Amendment) -> dict[str, Any]:
    return {name: value for name, value in draft.fields.items() if name != "plan"}


def applied(draft: Amendment, *, by: User) -> PolicyRule:
    now = clock.now()
    who = {"changed_by": by, "changed_at": now}
    if draft.verb == "create":
        row = PolicyRule(slug=draft.slug, **draft.fields, **who)
        insert_named(row)
        return row
    held = PolicyRule.objects.select_for_update(no_key=True).get(slug=draft.slug)
    refuse_stale(held.version, draft.rule_version)
    fields = {"archived_at": now} if draft.verb == "archive" else draft.fields
    PolicyRule.objects.filter(pk=held.pk).update(**fields, **who, version=held.version + 1)
    held.refresh_from_db()
    return held


def store(draft: Amendment, *, by: User) -> PolicyChange:
    """The change, waiting for a second admin; a newer one of the same rule takes its place. Raises as `write`."""
    if draft.verb == "create":
        refuse_taken(PolicyRule, draft.slug)
    with transaction.atomic():
        now = clock.now()
        gate.exclusive()
        for older in PolicyChange.objects.filter(slug=draft.slug, status="waiting"):
            older.move("outdate", ended_by=by, ended_at=now)
        fields = {"verb": draft.verb, "slug": draft.slug, "fields": draft.fields, "rule_version": draft.rule_version}
        row = PolicyChange.objects.create(**fields, reasons=list(draft.loosens), by=by, at=now)
        Audit.write(f"ask to {draft.verb}", row, by=by, reasons=row.reasons, **audited(draft))
        changed("policies", id=draft.slug)
    return row


@again_when_moved
def confirm(change: PolicyChange, *, by: User) -> PolicyRule:
    """A second admin agrees. Raises NeedsSecondAdmin for the one who asked, Stale when the rule changed meanwhile."""
    if change.by_id == by.pk:
        raise NeedsSecondAdmin("You asked for it; another admin must confirm it.")
    row = PolicyRule.objects.kept().filter(slug=change.slug).first()
    if change.rule_version:
        refuse_stale(row.version if row else 0, change.rule_version)
    return write(again(change, row), by=by, change=change)


def again(change: PolicyChange, row: PolicyRule | None) -> Amendment:
    """The change as it would be now. Raises NotValid, BadFilter."""
    given = {name: value for name, value in change.fields.items() if name != "plan"}
    return amended(change.verb, change.slug, row, **given)


def withdraw(change: PolicyChange, *, by: User) -> None:
    """Any admin may drop it. Raises IllegalMove when it has ended."""
    with transaction.atomic():
        change.move("withdraw", ended_by=by, ended_at=clock.now())
        Audit.write("withdraw", change, by=by)
        changed("policies", id=change.slug)


# What a rule must be


def checked(fields: dict[str, Any]) -> dict[str, Any]:
    """As the row has them, with the plan of `when`. Raises NotValid naming the field, BadFilter."""
    plan = named("when", lambda text: compile_filter(text, CONDITION), fields["when"])
    if not plan["clauses"]:
        raise NotValid('Say which actions it means, as in `action.kind == "stripe.refund"`.', field="when")
    if fields["effect"] not in EFFECTS:
        raise NotValid(f"The effect is one of {', '.join(EFFECTS)}.", field="effect")
    check_effect(fields)
    check_numbers(fields)
    check_names(fields["reviewers"])
    try:
        zoneinfo.ZoneInfo(fields["zone"])
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise NotValid(f"There is no time zone `{fields['zone']}`.", field="zone") from None
    reviewers = list(dict.fromkeys(fields["reviewers"]))
    return {
        **fields,
        "when": plan["text"],
        "plan": plan,
        "reviewers": reviewers,
        "windows": checked_windows(fields["windows"]),
    }


def check_effect(fields: dict[str, Any]) -> None:
    """Only what fits the effect is said; what would be ignored is refused."""
    tiers = {DENY: [""], REQUIRE: ["", Tier.MEDIUM, Tier.HIGH], ALLOW: ["", Tier.LOW]}[fields["effect"]]
    if fields["tier"] not in tiers:
        words = {DENY: "What is denied has no tier.", ALLOW: "A rule allows low; nothing lets high through."}
        raise NotValid(words.get(fields["effect"], "A rule requires medium or high."), field="tier")
    for name in ("reviewers", "quorum", "rejections", "four_eyes", "expires", "escalate_after"):
        if fields[name] and fields["effect"] != REQUIRE:
            raise NotValid(f"Only a rule that requires people says `{name}`.", field=name)
    if fields["otherwise"] and not (fields["effect"] == REQUIRE and fields["reviewers"]):
        raise NotValid("A rule for what no other rule names people for names some itself.", field="reviewers")
    if fields["hold"] and fields["effect"] != ALLOW:
        raise NotValid("Only a rule that lets things through holds them for a while.", field="hold")
    if fields["windows"] and fields["effect"] == DENY:
        raise NotValid("What is denied needs no window.", field="windows")


def check_numbers(fields: dict[str, Any]) -> None:
    if not 0 <= fields["quorum"] <= MOST_PEOPLE:
        raise NotValid(f"At most {MOST_PEOPLE} people.", field="quorum")
    if not 0 <= fields["rejections"] <= MOST_PEOPLE:
        raise NotValid(f"At most {MOST_PEOPLE} people.", field="rejections")
    if fields["expires"] and not 60 <= fields["expires"] <= LONGEST.total_seconds():
        raise NotValid("People have between 60 seconds and 7 days.", field="expires")
    if not 0 <= fields["hold"] <= LONGEST_HOLD:
        raise NotValid(f"It is held for at most {LONGEST_HOLD} seconds.", field="hold")
    if fields["escalate_after"] and not 60 <= fields["escalate_after"] <= LONGEST.total_seconds():
        raise NotValid("The next group is asked after 60 seconds to 7 days.", field="escalate_after")
    if fields["escalate_after"] and len(set(fields["reviewers"])) < 2:
        raise NotValid("Name at least two roles or teams: the first, and who is asked next.", field="escalate_after")
    if not 0 <= fields["order"] <= 10_000:
        raise NotValid("The order is a number up to 10000.", field="order")


def check_names(names: list[str]) -> None:
    """Roles, or teams (groups made by an admin)."""
    known = {*Group.objects.filter(name__in=names).values_list("name", flat=True), *roles.ROLES}
    missing = [name for name in names if name not in known]
    if missing:
        raise NotValid(f"There is no role or team `{missing[0]}`.", field="reviewers")
