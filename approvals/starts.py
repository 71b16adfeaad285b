"""What must hold in the moment an effect starts; asked under the gate, after the row is locked."""

from datetime import datetime, timedelta
from enum import StrEnum

from approvals import policy
from approvals.models import Action
from approvals.settle import reopen, settle
from approvals.tiers import Tier
from project.lib import canonical
from triggers.models import Switch

ASK_AGAIN_FOR = timedelta(days=1)  # people's time after the desk itself had to ask again


class Obstacle(StrEnum):
    """Why an action may not start now; the value is what people read."""

    OVER = "the time in which it may be carried out is over"
    PAUSED = "it is paused by a switch"
    CHANGED = "it is no longer what was approved"
    STRICTER = "the policy has become stricter"


def obstacle(action: Action, now: datetime) -> Obstacle | None:
    """What is in the way, or None."""
    if action.execute_by is None or action.execute_by <= now:
        return Obstacle.OVER
    if held_back(action):
        return Obstacle.PAUSED
    if not is_what_was_shown(action):
        return Obstacle.CHANGED
    return Obstacle.STRICTER if is_stricter(action) else None


def held_back(action: Action) -> bool:
    """Does a switch stop everything, this kind or this handler?"""
    handler = {"handler": action.run.handler} if action.run else {}
    return Switch.objects.holding(kind=action.kind, **handler).exists()


def is_what_was_shown(action: Action) -> bool:
    """Do the stored text, its digest, and the digest people decided on (or that was proposed) agree?

    The connection's version is part of it: other credentials, or another address, are another effect."""
    if not action.is_intact:
        return False
    if not Tier(action.tier).waits:
        return action.revision == 1 and action.digest == action.proposal_digest
    decided = action.decisions.filter(verdict="approve", revision=action.revision)
    return set(decided.values_list("digest", flat=True)) == {action.digest} and connection_is_same(action)


def connection_is_same(action: Action) -> bool:
    return action.connection is None or action.connection.version == action.connection_version


def is_stricter(action: Action) -> bool:
    """Would the policy in force ask more people, or a riskier tier, than have nodded?"""
    ruling = policy.verdict(action.kind, at_least=action.tier)
    return ruling.tier.rank > Tier(action.tier).rank or ruling.needed > action.given


def ask_again(action: Action, now: datetime, why: Obstacle) -> None:
    """What was approved is not what would run, or no longer enough: people look at what is there now."""
    try:
        envelope = action.envelope
    except ValueError:  # somebody wrote something into the row that is no JSON: there is nothing to ask about
        settle(action, "cancel", now, reason_code="unreadable")
        return
    envelope["connection_version"] = action.connection.version if action.connection else 0
    text = canonical.text(envelope)
    ruling = policy.verdict(action.kind, at_least=max_tier(action))
    reopen(
        action,
        by=None,
        why="ask again",
        expires_at=now + ASK_AGAIN_FOR,
        canonical=text,
        digest=canonical.digest_of_text(text),
        connection_version=envelope["connection_version"],
        tier=ruling.tier,
        needed=max(action.needed, ruling.needed),
        reason_code="changed_after_approval" if why is Obstacle.CHANGED else "policy_stricter",
    )


def max_tier(action: Action) -> str:
    """A low action that somebody changed is no longer one that runs by itself."""
    return action.tier if Tier(action.tier).waits else Tier.MEDIUM
