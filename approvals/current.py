"""What an action would meet: the state of its target, read before people are asked and again before anything starts.

Its version and the hash of what people are shown of it are *preconditions*, a part of the frozen text: people say yes
to doing this to that. A practice connection has no target outside the desk, and a kind may have nothing to bind.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from approvals import hiding
from approvals.errors import ApprovalProblem, DeliveryError, Refused
from approvals.frozen import storable
from approvals.kinds import KINDS, NO_WORDS, Kind, Now, Unbound, WhyUnbound
from approvals.models import Action, Connection
from approvals.models.action import switches_over
from approvals.rules import Ruling
from approvals.tiers import Tier
from project.lib import canonical
from project.lib.crypto import Unreadable
from triggers.models import Run

LARGEST = 512 * 1024  # characters of a state that is kept to be shown; of a larger one only the version is bound


@dataclass(frozen=True, slots=True)
class Met:
    """What was found: the preconditions as they are frozen, and the text whose hash they hold."""

    preconditions: dict[str, Any] = field(default_factory=dict)
    state_json: str = ""


NOTHING = Met()
UNBOUND = "unbound"  # the one precondition of what could have been bound, and was not: why
HELD: WhyUnbound = "held"


def looked_at(
    kind: Kind,
    connection: Connection | None,
    typed: Any,
    *,
    run: Run | None,
    ruling: Ruling,
    may: Callable[[], object],
) -> Met:
    """What it would meet, read now, outside any transaction: the one way to a target.

    To look is to call a far side with the credentials of the connection, so nobody causes it who could not have it done
    in the end. `may` raises what its door refuses with: the rights of who asks, a row that moved on, no room. After it
    neither a rule that denies it nor a switch lets anybody look; what a switch left unread says so in what is bound.
    Raises DeliveryError when nobody can look."""
    if kind.current is None or connection is None or connection.practice:
        return NOTHING
    may()
    if ruling.denied_by:
        return NOTHING
    if connection.archived_at is not None:
        raise Refused("its connection was removed")
    if switches_over(kind.name, run).exists():
        return Met({UNBOUND: HELD})
    now = kind.current(connection.far(kind.timeout), typed)
    if isinstance(now, Unbound):
        return Met({UNBOUND: now.why} | ({} if now.status is None else {"status": now.status}))
    return bound_to(kind, now) if now else NOTHING


def bound_to(kind: Kind, now: Now) -> Met:
    state = storable(hiding.covered("state", now.state, [], []) if kind.hides else now.state)
    text = json.dumps(state, ensure_ascii=False)
    text = text if len(text) <= LARGEST else ""
    bound = {"target": storable(now.target), "version": storable(now.version)}
    return Met({**bound, "state": canonical.digest_of_text(text)} if text else bound, text)


def looked_at_again(action: Action, ruling: Ruling, may: Callable[[], object]) -> Met | None:
    """What `action` would meet now; None when it cannot be read at the moment, or nobody may look."""
    kind = KINDS.get(action.kind)
    if kind is None or kind.current is None:
        return NOTHING
    try:
        typed = kind.read(action.sent_arguments)
        found = looked_at(kind, action.connection, typed, run=action.run, ruling=ruling, may=may)
    except (DeliveryError, Unreadable, ApprovalProblem, *NO_WORDS):
        return None
    return None if ruling.denied_by or found.preconditions.get(UNBOUND) == HELD else found


def as_bound(action: Action) -> Met:
    """What it was bound to when people were asked. Raises ValueError, LookupError when its text is no action's."""
    return Met(action.preconditions, action.state_json)


def has_moved(action: Action, found: Met) -> bool:
    """Is the target no longer what people saw? What has none cannot have moved; what nobody could look at has, once it
    can be, unless nobody was asked."""
    bound = action.preconditions
    if UNBOUND in bound and not Tier(action.tier).waits:
        return False
    return bool(bound) and bound != found.preconditions
