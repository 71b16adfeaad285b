"""Whom a rule of the policy would lock out, and what it means that cannot be: told before it is saved, in sentences."""

from collections.abc import Sequence
from typing import Any

from approvals.guarding import guards_high, last_of, may_be_high, may_fail, names_people
from approvals.kinds import why_unknown
from approvals.rules import CONDITION, REQUIRE, Rule
from approvals.teams import admins
from approvals.tiers import Tier
from project.people import roles
from project.people.models import User
from triggers.filters import compared_with


def lockouts(rule: Rule | None, before: Sequence[Rule], others: Sequence[Rule]) -> list[str]:
    """Sentences about a rule beside `others`, None when it is taken away, where `before` stood so far; it can be saved
    all the same."""
    said = unnamed(before, [*others, *([rule] if rule else [])])
    if rule and rule.effect == REQUIRE:
        wanted = rule.reviewers or (roles.REVIEWER,)
        able = User.objects.filter(is_active=True, groups__name__in=wanted).distinct().count()
        needed, people = max(1, rule.quorum), " or ".join(wanted)
        if able < needed:
            said.append(f"It needs {needed} of {people} and there {is_many(able)}: nobody could approve what it means.")
        elif able == needed and (rule.four_eyes or rule.tier == Tier.HIGH):
            said.append(f"There {is_many(able)} in {people}: what one of them asked for, nobody could approve.")
    if rule and (guards_high(rule, others) or may_fail(rule.plan)) and len(admins()) == 1:
        said.append("There is one admin. To change this rule later a second one must confirm: make one first.")
    return said


def unnamed(before: Sequence[Rule], after: Sequence[Rule]) -> list[str]:
    """What is high waits for people whom a rule names; where none does, nobody may approve it."""
    if not any(names_for_high(rule, after) for rule in after):
        had = any(names_for_high(rule, before) for rule in before)
        return ["No rule would name who decides what is high: nobody could approve it."] if had else []
    if any(map(names_for_all, before)) and not any(map(names_for_all, after)):
        return ["Only what other rules mean would have people named: nobody could approve what else is high."]
    return []


def names_for_high(rule: Rule, all_of_them: Sequence[Rule]) -> bool:
    """Does it name who decides what is high, of some kind at least?"""
    return last_of(rule) == Tier.HIGH or (
        names_people(rule) and (rule.tier == Tier.HIGH or may_be_high(rule.plan, all_of_them))
    )


def names_for_all(rule: Rule) -> bool:
    """Does it name who decides whatever is high?"""
    return (last_of(rule) == Tier.HIGH or names_people(rule)) and not rule.plan["paths"] and rule.when != "false"


def unknown_kinds(fields: dict[str, Any]) -> list[str]:
    """Sentences about kinds that a rule names and nothing can be of."""
    named = compared_with(fields["when"], ("action", "kind"), CONDITION) if fields else []
    return list(dict.fromkeys(filter(None, (why_unknown(kind) for kind in named if isinstance(kind, str)))))


def is_many(count: int) -> str:
    return f"is only {count}" if count == 1 else f"are only {count}"
