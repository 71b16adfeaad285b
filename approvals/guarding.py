"""Which changes of a rule may make it looser for what is high, so that they need a second admin.

Told from the rules alone, whatever happened of late: what might concern high counts as if it did."""

from collections.abc import Iterable, Iterator

from approvals import policy
from approvals.rules import ACTION, DENY, REQUIRE, RUN, TIME, Rule, tier_of
from approvals.tiers import Tier
from approvals.windows import waits_longer
from triggers.filters import Clause, FilterPlan

EQUAL = "relation_eq"  # as a plan names `==`
SENT = "arguments"  # the one member of an action that may lack what a condition reads
MEMBERS = {"action": ACTION - {SENT}, "run": RUN, "time": TIME, "event": policy.BLANK}
ALWAYS_THERE = frozenset((root, name) for root, names in MEMBERS.items() for name in names)


def loosens(before: Rule | None, after: Rule | None, others: Iterable[Rule]) -> list[str]:
    """In sentences what `after` may ask less, of what is high, than the rules said so far; None: there is none."""
    others = tuple(others)
    does = guards_high(before, others) if before and (after is None or asks_less(before, after)) else ""
    if before and not does and may_fail(before.plan) and (after is None or after.when != before.when):
        does = "makes high what it cannot be asked about"
    said = (
        [f"The rule {before.slug} {does}, and would be {'changed' if after else 'taken away'}."]
        if before and does
        else []
    )
    return [*said, *silences(before, after, others), *takes_more_noes(before, after, others)] if after else said


def guards_high(rule: Rule, others: Iterable[Rule]) -> str:
    """What it does for what is high, by itself or since another rule makes it so, in words; empty when nothing."""
    others = tuple(others)
    requires = rule.effect == REQUIRE
    if rule.effect == DENY:
        return "denies"
    if requires and rule.tier == Tier.HIGH:
        return "names people for what is high" if rule.otherwise else "asks for high"
    if rule.otherwise or not may_be_high(rule.plan, others):
        return ""
    if requires and (rule.reviewers or rule.quorum > 1):
        return "names people for what may be high"
    if rule.windows or (requires and rule.expires):
        return "sets times for what may be high"
    if requires and any(noes(other) > noes(rule) for other in others):
        return "says how few noes end what may be high"
    return ""


def asks_less(before: Rule, after: Rule) -> bool:
    """Could it ask for less than it did, of whatever it meant? What denies, or makes things high, stays as it is."""
    same = ["when", "effect", "reviewers", "otherwise", *(["windows"] if before.windows else [])]
    same += ["zone"] if before.windows or any(path[0] == "time" for path in before.paths) else []
    if before.effect == DENY or before.tier == Tier.HIGH:
        same += ["tier", "quorum", "rejections", "four_eyes", "expires", "windows", "zone", "hold"]
    if any(getattr(after, name) != getattr(before, name) for name in same):
        return True
    return (
        after.quorum < before.quorum
        or after.rejections > before.rejections
        or waits_longer(before.expires, after.expires)
    )


def silences(before: Rule | None, after: Rule, others: Iterable[Rule]) -> Iterator[str]:
    """Rules that name people only where no other does, and would be silent beside this one, which asks for less."""
    if not names_people(after) or (before and names_people(before) and means_the_same(before, after)):
        return
    others = tuple(others)
    for other in others if may_be_high(after.plan, others) else ():
        is_last = last_of(other) == Tier.HIGH and may_meet(after.plan, other.plan)
        if is_last and not asks_as_much(after, other):
            yield f"The rule {after.slug} would name people for what may be high in place of {other.slug}."


def takes_more_noes(before: Rule | None, after: Rule, others: Iterable[Rule]) -> Iterator[str]:
    """Would one no, or fewer than the rule wants now, be enough no more?"""
    others, known = tuple(others), before and means_the_same(before, after) and noes(before) >= noes(after)
    if noes(after) > 1 and not known and may_be_high(after.plan, others):
        yield f"The rule {after.slug} would have {after.rejections} people say no before what may be high ends."


def names_people(rule: Rule) -> bool:
    """Does it, for whatever it means?"""
    return rule.effect == REQUIRE and bool(rule.reviewers) and not rule.otherwise


def means_the_same(one: Rule, other: Rule) -> bool:
    """Do both speak of the same actions, whatever they ask?"""
    return (one.when, one.zone, one.effect, last_of(one)) == (other.when, other.zone, other.effect, last_of(other))


def last_of(rule: Rule) -> str:
    """The tier for which it names people where no other rule does; empty of any other rule."""
    return tier_of(rule) if rule.otherwise else ""


def asks_as_much(rule: Rule, of: Rule) -> bool:
    """Of the same people, as many of them, in no more time and at no other times?"""
    people = set(rule.reviewers) == set(of.reviewers) and (rule.quorum or 1) >= (of.quorum or 1)
    times = not of.windows or (rule.windows, rule.zone) == (of.windows, of.zone)
    return people and times and noes(rule) <= noes(of) and not waits_longer(of.expires, rule.expires)


def noes(rule: Rule) -> int:
    """How many end what it asks for."""
    return rule.rejections or 1


def may_be_high(plan: FilterPlan, others: Iterable[Rule]) -> bool:
    """May what it means be high by itself, or since another rule asks for it, or cannot be asked about it?"""
    raising = (rule for rule in others if asks_for_high(rule) or may_fail(rule.plan))
    return may_mean_high(plan) or any(may_meet(plan, rule.plan) for rule in raising)


def asks_for_high(rule: Rule) -> bool:
    return rule.tier == Tier.HIGH and not rule.otherwise


def may_fail(plan: FilterPlan) -> bool:
    """May it read something that is not there, or not what it expects? What comes with an action or its event may be
    anything; what the desk says itself is always there."""
    return any(tuple(path) not in ALWAYS_THERE for path in plan["paths"])


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
