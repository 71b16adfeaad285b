"""The rule a desk begins with: who decides what is high, where no other rule names people for it.

Without a rule that names reviewers nobody may decide what is high. It is a rule like any other from then on."""

from typing import Any

from approvals.models import PolicyRule, PolicyVersion
from approvals.rules import CONDITION, REQUIRE
from approvals.tiers import Tier
from project.lib import clock
from project.people import roles
from project.people.models import User
from triggers.filters import compile_filter
from triggers.models import Audit

NAMED = "high-any-reviewer"
RULE: dict[str, Any] = {
    "when": "true",
    "effect": REQUIRE,
    "tier": Tier.HIGH.value,
    "reviewers": [roles.REVIEWER],
    "otherwise": True,
    "order": 1000,
}


def make(*, by: User | None) -> PolicyRule:
    """Inside the transaction of a first start, before anybody could ask for anything."""
    plan = compile_filter(RULE["when"], CONDITION)
    row = PolicyRule.objects.create(slug=NAMED, **RULE, plan=plan, changed_by=by, changed_at=clock.now())
    Audit.write("create", row, by=by, first_start=True, policy=PolicyVersion.write(by=by).number, **RULE)
    return row
