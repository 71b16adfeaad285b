"""Whom a rule of the policy would lock out, and what it means that cannot be: told before it is saved, in sentences."""

from collections.abc import Sequence
from typing import Any

from approvals.guarding import guards_high
from approvals.kinds import no_kind
from approvals.rules import CONDITION, REQUIRE, Rule
from approvals.teams import admins
from approvals.tiers import Tier
from project.people import roles
from project.people.models import User
from triggers.filters import compared_with


def lockouts(fields: dict[str, Any], others: Sequence[Rule]) -> list[str]:
    """Sentences about a rule of these fields beside `others`; it can be saved all the same."""
    said = []
    if fields and fields["effect"] == REQUIRE:
        wanted = fields["reviewers"] or [roles.REVIEWER]
        able = User.objects.filter(is_active=True, groups__name__in=wanted).distinct().count()
        needed, people = max(1, fields["quorum"]), " or ".join(wanted)
        if able < needed:
            said.append(f"It needs {needed} of {people} and there {is_many(able)}: nobody could approve what it means.")
        elif able == needed and (fields["four_eyes"] or fields["tier"] == Tier.HIGH):
            said.append(f"There {is_many(able)} in {people}: what one of them asked for, nobody could approve.")
    if fields and guards_high(fields, others) and len(admins()) == 1:
        said.append("There is one admin. To change this rule later a second one must confirm: make one first.")
    return said


def strangers(fields: dict[str, Any]) -> list[str]:
    """Sentences about kinds that a rule names and nothing can be of."""
    named = compared_with(fields["when"], ("action", "kind"), CONDITION) if fields else []
    return list(dict.fromkeys(filter(None, (no_kind(kind) for kind in named if isinstance(kind, str)))))


def is_many(count: int) -> str:
    return f"is only {count}" if count == 1 else f"are only {count}"
