"""Which rules guard what is high, so that it takes a second admin to have them ask for less."""

from collections.abc import Iterable, Mapping
from typing import Any

from approvals import policy
from approvals.rules import DENY, REQUIRE, Rule
from approvals.tiers import Tier
from approvals.windows import waits_longer
from triggers.filters import Clause, FilterPlan

EQUAL = "relation_eq"  # as a plan names `==`


def guards_high(rule: Mapping[str, Any], others: Iterable[Rule]) -> str:
    """What it does for what is high, by itself or since another rule makes it so, in words; empty when nothing."""
    if rule["effect"] == DENY:
        return "denies"
    requires = rule["effect"] == REQUIRE
    if requires and rule["tier"] == Tier.HIGH:
        return "asks for high"
    names_people = requires and (rule["reviewers"] or rule["quorum"] > 1)
    sets_times = rule["windows"] or (requires and rule["expires"])
    if not (names_people or sets_times) or not may_be_high(rule["plan"], others):
        return ""
    return "names people for what may be high" if names_people else "sets times for what may be high"


def asks_less(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Could it ask for less than it did, of whatever it meant? What denies, or makes things high, stays as it is."""
    same = ["when", "effect", "reviewers", *(["windows", "zone"] if before["windows"] else [])]
    if before["effect"] == DENY or before["tier"] == Tier.HIGH:
        same += ["tier", "quorum", "rejections", "four_eyes", "expires", "windows", "zone", "hold"]
    if not after or any(after[name] != before[name] for name in same):
        return True
    fewer = after["quorum"] < before["quorum"] or after["rejections"] > before["rejections"]
    return bool(fewer or waits_longer(before["expires"], after["expires"]))


def may_be_high(plan: FilterPlan, others: Iterable[Rule]) -> bool:
    """May what it means be high by itself, or since another rule asks for it?"""
    return may_mean_high(plan) or any(rule.tier == Tier.HIGH and may_meet(plan, rule.plan) for rule in others)


def may_meet(one: FilterPlan, other: FilterPlan) -> bool:
    """May both mean the same action? Unless each of them names one kind, and not the same."""
    first, second = kinds(one), kinds(other)
    return not first or not second or bool(first & second)


def kinds(plan: FilterPlan) -> set[str]:
    """Each a kind that an action must be of; empty when it does not say."""
    return {str(clause["simple"][1]) for clause in plan["clauses"] if names_a_kind(clause)}


def names_a_kind(clause: Clause) -> bool:
    relation, _ = clause.get("simple", ("", ""))
    return relation == EQUAL and clause["paths"] == [["action", "kind"]]


def may_mean_high(plan: FilterPlan) -> bool:
    """Unless it says itself that it means one kind, or tier, that is less."""
    return not any(is_less(clause) for clause in plan["clauses"])


def is_less(clause: Clause) -> bool:
    relation, value = clause.get("simple", ("", ""))
    if names_a_kind(clause):
        return policy.usual(str(value)) != Tier.HIGH
    return relation == EQUAL and clause["paths"] == [["action", "tier"]] and value != Tier.HIGH
