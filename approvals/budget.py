"""So many low actions an hour run by themselves, of a handler and kind or of one program; the next waits for people."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from django.db.models import QuerySet

from approvals import policy
from approvals.errors import PolicyMoved
from approvals.models import Action
from approvals.rules import DEFAULT, Ruling
from approvals.tiers import Tier
from approvals.wish import Wish
from project.lib import clock, gate
from triggers.models import Run

BUDGET = 30  # low actions an hour
SPENT = "hourly budget of low actions"  # stands where otherwise a rule is named


def within(asked: policy.Asked, is_over: Callable[[], bool], *, at_least: str = Tier.READ) -> Ruling:
    """What the policy says, raised to medium when it is low and `is_over` says that the hour's budget is spent."""
    found = policy.ruling(asked, at_least=at_least)
    if found.tier is not Tier.LOW or not is_over():
        return found
    raised = policy.ruling(asked, at_least=Tier.MEDIUM)
    return replace(raised, name=SPENT) if raised.name == DEFAULT else raised


def check(run: Run, wish: Wish) -> None:
    """Count once more where nobody else counts: thirty that ask in one moment are thirty, and the next one waits.

    Raises PolicyMoved when somebody was faster: it is judged again, and higher."""
    gate.alone(f"budget {run.handler} {wish.kind.name}")
    if is_over(run, wish):
        raise PolicyMoved


def is_over(run: Run, wish: Wish) -> bool:
    return is_spent(Action.objects.filter(run__handler=run.handler), wish)


def is_spent(own: QuerySet[Action], wish: Wish) -> bool:
    """Has whoever asked for `own` had so many low ones of this kind within the hour that the next one waits?"""
    hour = clock.now() - timedelta(hours=1)
    return own.filter(kind=wish.kind.name, tier=Tier.LOW, created_at__gt=hour).count() >= BUDGET
