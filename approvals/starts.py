"""What must hold in the moment an effect starts; asked under the gate, after the row is locked."""

from datetime import datetime, timedelta
from enum import StrEnum

from approvals import policy
from approvals.models import Action
from approvals.rules import Ruling
from approvals.settle import forbid, reopen, settle
from approvals.tiers import Tier
from approvals.windows import next_opening
from project.lib import canonical
from triggers.models import Switch

EXECUTE_WITHIN = timedelta(hours=1)  # of the last yes, or of the opening of its change window
LOOK_AGAIN = timedelta(days=1)  # at a change window that does not open within two weeks
ASK_AGAIN_FOR = timedelta(days=1)  # people's time after the desk itself had to ask again


class Obstacle(StrEnum):
    """Why an action may not start now; the value is what people read."""

    OVER = "the time in which it may be carried out is over"
    PAUSED = "it is paused by a switch"
    BUSY = "its far side asked for a pause"
    CHANGED = "it is no longer what was approved"
    SHUT = "its change window is not open"
    STRICTER = "the policy has become stricter"


def obstacle(action: Action, now: datetime, ruling: Ruling) -> Obstacle | None:
    """What is in the way, or None."""
    if action.execute_by is None or action.execute_by <= now:
        return Obstacle.OVER
    if held_back(action):
        return Obstacle.PAUSED
    if not is_what_was_shown(action):
        return Obstacle.CHANGED
    if is_busy(action, now):
        return Obstacle.BUSY
    if is_stricter(action, ruling):
        return Obstacle.STRICTER
    return None if next_opening(ruling.windows, now) == now else Obstacle.SHUT


def is_busy(action: Action, now: datetime) -> bool:
    """Did the far side ask for a pause that is not over? What goes there waits, whichever action was told."""
    until = action.connection.busy_until if action.connection else None
    return until is not None and until > now and not action.is_practice


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


def is_stricter(action: Action, ruling: Ruling) -> bool:
    """Would the policy in force ask more people, others, or a riskier tier, than have nodded; or forbid it?"""
    if ruling.denied_by or ruling.tier.rank > Tier(action.tier).rank:
        return True
    return ruling.tier.waits and policy.counted(action, ruling).given < ruling.needed


def opens_at(ruling: Ruling, now: datetime) -> datetime:
    """When its change window opens; looked at again tomorrow when it does not within two weeks."""
    return next_opening(ruling.windows, now) or now + LOOK_AGAIN


def ask_again(action: Action, now: datetime, why: Obstacle, ruling: Ruling) -> None:
    """What was approved is not what would run, or no longer enough: people look at what is there now."""
    try:
        envelope = action.envelope
    except ValueError:  # somebody wrote something into the row that is no JSON: there is nothing to ask about
        settle(action, "cancel", now, reason_code="unreadable")
        return
    envelope["connection_version"] = action.connection.version if action.connection else 0
    text = canonical.text(envelope)
    asked = policy.at_least_asked(ruling)  # a low action that somebody changed no longer runs by itself
    reopen(
        action,
        by=None,
        why="ask again",
        expires_at=now + ASK_AGAIN_FOR,
        canonical=text,
        digest=canonical.digest_of_text(text),
        connection_version=envelope["connection_version"],
        requester_chain=[*action.requester_chain, *policy.chain_added(action, asked)],
        reason_code="changed_after_approval" if why is Obstacle.CHANGED else "policy_stricter",
        **policy.written(asked),
    )
    if ruling.denied_by:
        forbid(action, ruling.denied_by, now)
