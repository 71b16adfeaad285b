"""Rules of a policy for tests: made as an admin would have saved them, without the backtest."""

from typing import Any

from django.contrib.auth.models import Group

from approvals import amending, first_rule
from approvals.models import PolicyRule, PolicyVersion
from project.lib import clock
from project.people.models import User


def rule(slug: str, when: str, effect: str = "require", **fields: Any) -> PolicyRule:
    """In force from now on."""
    given = amending.checked({**amending.USUAL, "when": when, "effect": effect, **fields})
    row = PolicyRule.objects.create(slug=slug, changed_at=clock.now(), **given)
    PolicyVersion.write(by=None)
    return row


def first() -> None:
    """The rule that a desk begins with is in force: a reviewer decides what is high, where no other rule says who."""
    if not PolicyRule.objects.kept().filter(slug=first_rule.NAMED).exists():
        rule(first_rule.NAMED, **first_rule.RULE)


def gone(slug: str) -> None:
    """That rule is in force no more."""
    PolicyRule.objects.filter(slug=slug).update(archived_at=clock.now())
    PolicyVersion.write(by=None)


def team(name: str, *people: User) -> Group:
    """A team with these members."""
    group, _ = Group.objects.get_or_create(name=name)
    group.user_set.add(*people)
    return group
