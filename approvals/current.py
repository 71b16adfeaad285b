"""What an action would meet: the state of its target, read before people are asked and again before anything starts.

Its version and the hash of what people are shown of it are *preconditions*, a part of the frozen text: people say yes
to doing this to that. A practice connection has no target outside the desk, and a kind may have nothing to bind.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from approvals import hiding
from approvals.errors import DeliveryError
from approvals.frozen import storable
from approvals.kinds import KINDS, NO_WORDS, Kind
from approvals.models import Action, Connection
from project.lib import canonical
from project.lib.crypto import Unreadable

LARGEST = 512 * 1024  # characters of a state that is kept to be shown; of a larger one only the version is bound


@dataclass(frozen=True, slots=True)
class Met:
    """What was found: the preconditions as they are frozen, and the text whose hash they hold."""

    preconditions: dict[str, Any] = field(default_factory=dict)
    state_json: str = ""


NOTHING = Met()


def met(kind: Kind, connection: Connection | None, typed: Any) -> Met:
    """Look at the target now, outside any transaction. Raises DeliveryError when nobody can look."""
    if kind.current is None or connection is None or connection.practice:
        return NOTHING
    now = kind.current(connection.far(kind.timeout), typed)
    if now is None:
        return NOTHING
    state = storable(hiding.covered("state", now.state, [], []) if kind.hides else now.state)
    text = json.dumps(state, ensure_ascii=False)
    text = text if len(text) <= LARGEST else ""
    bound = {"target": storable(now.target), "version": storable(now.version)}
    return Met({**bound, "state": canonical.digest_of_text(text)} if text else bound, text)


def met_again(action: Action) -> Met | None:
    """What `action` would meet now; None when it cannot be read at the moment. Call it outside a transaction."""
    kind = KINDS.get(action.kind)
    if kind is None or kind.current is None:
        return NOTHING
    try:
        return met(kind, action.connection, kind.read(action.sent_arguments))
    except (DeliveryError, Unreadable, *NO_WORDS):
        return None


def has_moved(action: Action, found: Met) -> bool:
    """Is the target no longer what people saw? What was never bound cannot have moved."""
    return bool(action.preconditions) and action.preconditions != found.preconditions
