"""What must hold in the moment an effect starts; asked under the gate, after the row is locked."""

from datetime import datetime, timedelta
from enum import StrEnum

from approvals import current, policy
from approvals.current import Met
from approvals.kinds import KINDS
from approvals.models import Action, Freeze
from approvals.models.action import switches_over
from approvals.rules import Ruling
from approvals.settle import forbid, reopen, settle
from approvals.tiers import Tier
from approvals.windows import next_opening
from project.lib import canonical

EXECUTE_WITHIN = timedelta(hours=1)  # of the last yes, or of the opening of its change window
LOOK_AGAIN = timedelta(days=1)  # at a change window that does not open within two weeks
ASK_AGAIN_FOR = timedelta(days=1)  # people's time after the desk itself had to ask again

REVOKED = "token_revoked"  # the reason of what ends since its token opens nothing any more


class Obstacle(StrEnum):
    """Why an action may not start now; the value is what people read."""

    OVER = "the time in which it may be carried out is over"
    REVOKED = "the token that asked for it is out of use"
    GONE = "its connection was removed"
    PAUSED = "it is paused by a switch"
    BUSY = "its far side asked for a pause"
    CHANGED = "it is no longer what was approved"
    SHUT = "its change window is not open"
    FROZEN = "a freeze is on"
    UNSEEN = "its target cannot be looked at"
    MOVED = "its target is no longer what people saw"
    STRICTER = "the policy has become stricter"


REASONS = {  # by which people are asked again
    Obstacle.CHANGED: "changed_after_approval",
    Obstacle.MOVED: "target_moved",
    Obstacle.STRICTER: "policy_stricter",
}


def obstacle(action: Action, now: datetime, ruling: Ruling, found: Met | None) -> Obstacle | None:
    """What is in the way, or None. `found` is what its target is now; None: nobody could look."""
    if action.execute_by is None or action.execute_by <= now:
        return Obstacle.OVER
    if action.token is not None and not action.token.is_live:
        return Obstacle.REVOKED
    if held_back(action):
        return Obstacle.PAUSED
    if not is_what_was_shown(action):
        return Obstacle.GONE if is_cut_off(action) else Obstacle.CHANGED
    if is_busy(action, now):
        return Obstacle.BUSY
    if is_stricter(action, ruling):
        return Obstacle.GONE if is_cut_off(action) else Obstacle.STRICTER
    if next_opening(ruling.windows, now) != now:
        return Obstacle.SHUT
    if thaws_at(action, now) > now:
        return Obstacle.FROZEN
    if not action.preconditions or may_repeat_anyhow(action):
        return None
    if found is None:
        return Obstacle.UNSEEN
    return Obstacle.MOVED if current.has_moved(action, found) else None


def needs_a_look(action: Action, now: datetime, ruling: Ruling) -> bool:
    """Could only its target stand in the way, or are people asked again, who are shown it as it is? For whatever else
    is in the way nobody looks at a far side."""
    return obstacle(action, now, ruling, None) in (Obstacle.UNSEEN, Obstacle.CHANGED, Obstacle.STRICTER)


def is_cut_off(action: Action) -> bool:
    """Was its connection put out of use for good? Then nobody is asked again: it could only fail."""
    return action.connection is not None and action.connection.archived_at is not None


def is_busy(action: Action, now: datetime) -> bool:
    """Did the far side ask for a pause that is not over? What goes there waits, whichever action was told."""
    until = action.connection.busy_until if action.connection else None
    return until is not None and until > now and not action.is_practice


def held_back(action: Action) -> bool:
    """Does a switch stop everything, or this kind, this handler, or the source that woke it?"""
    return switches_over(action.kind, action.run).exists()


def is_what_was_shown(action: Action) -> bool:
    """Do the stored text, its digest, and the digest people decided on (or that was proposed) agree?

    The connection's version is part of it: other credentials, or another address, are another effect; so is the version
    of the code that carries it out. What is low and is not held back was shown to nobody: it goes by the connection as
    it is."""
    if not (
        action.is_intact and is_named_by_its_text(action) and code_is_same(action) and is_headed_by_its_text(action)
    ):
        return False
    if not Tier(action.tier).waits:
        is_first = action.revision == 1 and action.digest == action.proposal_digest
        return is_first and (not action.take_back_for or connection_is_same(action))
    decided = action.decisions.filter(verdict="approve", revision=action.revision)
    return set(decided.values_list("digest", flat=True)) == {action.digest} and connection_is_same(action)


def is_named_by_its_text(action: Action) -> bool:
    """Do the columns by which the desk finds code and credentials say what the text says that people read?"""
    return {**action.envelope, **columns_of(action)} == action.envelope


def columns_of(action: Action) -> dict[str, str | None]:
    return {"kind": action.kind, "connection": action.connection.slug if action.connection else None}


def is_headed_by_its_text(action: Action) -> bool:
    """Is the headline, which lists, mails and rules go by, the one that the text has in the code of its kind?"""
    kind = KINDS.get(action.kind)
    return kind is None or kind.headline_of(action.arguments) == action.title


def code_is_same(action: Action) -> bool:
    kind = KINDS.get(action.kind)
    return kind is None or kind.version == action.envelope.get("kind_version")  # without code nothing is sent anyhow


def connection_is_same(action: Action) -> bool:
    return action.connection is None or action.connection.version == action.connection_version


def may_repeat_anyhow(action: Action) -> bool:
    """A try in doubt may have moved the target itself; some kinds may be repeated whatever happened."""
    kind, config = KINDS.get(action.kind), action.connection.config if action.connection else {}
    is_natural = kind is not None and kind.safety_of(action.arguments, config) == "natural"
    return is_natural and action.attempts.filter(outcome="unknown").exists()


def is_stricter(action: Action, ruling: Ruling) -> bool:
    """Would the policy in force ask more people, others, or a riskier tier, than have nodded; or forbid it?"""
    if ruling.denied_by or ruling.tier.rank > Tier(action.tier).rank:
        return True
    return ruling.tier.waits and policy.counted(action, ruling).given < ruling.needed


def thaws_at(action: Action, at: datetime) -> datetime:
    """The first moment from `at` on in which no freeze of the calendar holds it back."""
    return Freeze.objects.all().thaws_at(action.kind, action.tier, at)


def opens_at(ruling: Ruling, now: datetime) -> datetime:
    """When its change window opens; looked at again tomorrow when it does not within two weeks."""
    return next_opening(ruling.windows, now) or now + LOOK_AGAIN


def ask_again(action: Action, now: datetime, why: Obstacle, ruling: Ruling, found: Met | None) -> None:
    """What was approved is not what would run, or no longer enough: people look at what is there now."""
    try:
        envelope = action.envelope
    except ValueError:  # somebody wrote something into the row that is no JSON: there is nothing to ask about
        settle(action, "cancel", now, reason_code="unreadable")
        return
    kind = KINDS.get(action.kind)
    envelope |= columns_of(action)
    envelope["kind_version"] = kind.version if kind else action.kind_version
    envelope["connection_version"] = action.connection.version if action.connection else 0
    state = {}
    if found is not None:
        envelope["preconditions"], state = found.preconditions, {"state_json": found.state_json}
    text = canonical.text(envelope)
    action.title = kind.headline_of(envelope.get("arguments", {})) if kind else action.title
    asked = policy.at_least_asked(ruling)  # a low action that somebody changed no longer runs by itself
    reopen(
        action,
        by=None,
        why="ask again",
        expires_at=now + ASK_AGAIN_FOR,
        canonical=text,
        title=action.title,
        digest=canonical.digest_of_text(text),
        connection_version=envelope["connection_version"],
        requester_chain=[*action.requester_chain, *policy.chain_added(action, asked)],
        reason_code=REASONS[why],
        **state,
        **policy.asked_as(kind, asked),
    )
    if ruling.denied_by:
        forbid(action, ruling.denied_by, now)
