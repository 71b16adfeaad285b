"""Which rules guard what is high, so that it takes a second admin to have them ask for less."""

from collections.abc import Mapping
from typing import Any

from approvals import policy
from approvals.rules import DENY, REQUIRE
from approvals.tiers import Tier
from triggers.filters import Clause, FilterPlan

EQUAL = "relation_eq"  # as a plan names `==`


def guards_high(rule: Mapping[str, Any]) -> str:
    """What it does for what is high, in words; empty when nothing."""
    if rule["effect"] == DENY:
        return "denies"
    if rule["effect"] != REQUIRE:
        return ""
    if rule["tier"] == Tier.HIGH:
        return "asks for high"
    names_people = rule["reviewers"] or rule["quorum"] > 1
    return "names people for what may be high" if names_people and may_mean_high(rule["plan"]) else ""


def asks_less(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Could it ask for less than it did, of whatever it meant? What denies, or makes things high, stays as it is."""
    same = ["when", "effect", "reviewers"]
    if before["effect"] == DENY or before["tier"] == Tier.HIGH:
        same += ["tier", "quorum", "rejections", "four_eyes", "expires", "windows", "zone", "hold"]
    if not after or any(after[name] != before[name] for name in same):
        return True
    return bool(after["quorum"] < before["quorum"] or after["rejections"] > before["rejections"])


def may_mean_high(plan: FilterPlan) -> bool:
    """Unless it says itself that it means one kind, or tier, that is less."""
    return not any(is_less(clause) for clause in plan["clauses"])


def is_less(clause: Clause) -> bool:
    relation, value = clause.get("simple", ("", ""))
    if relation != EQUAL:
        return False
    if clause["paths"] == [["action", "kind"]]:
        return policy.usual(str(value)) != Tier.HIGH
    return clause["paths"] == [["action", "tier"]] and value != Tier.HIGH
