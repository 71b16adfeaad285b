"""What an action would change of what is there: its target as people were shown it, and what differs afterwards."""

import json
from dataclasses import dataclass
from typing import Any

from approvals.changes import Change, changes
from approvals.current import UNBOUND
from approvals.kinds import NO_WORDS, WHY_UNBOUND, Kind
from approvals.models import Action
from approvals.models.action import UNREADABLE
from project.lib.language import spoken, words
from project.lib.visible import plain

NO_TARGET = words("nothing shows beforehand what it would change")


@dataclass(frozen=True, slots=True)
class Before:
    """`state` is the text that is bound; empty: it was too large to keep, and only its version is bound.

    `changes` is what would differ; None when nobody can tell what the action makes of it."""

    target: str
    version: str
    state: str
    changes: list[Change] | None


def before(action: Action, kind: Kind | None) -> Before | None:
    """Read from the frozen bytes alone; None when nothing is bound, or they are not what the digest says."""
    if not action.is_intact:
        return None
    try:
        bound = action.preconditions
        state = json.loads(action.state_json) if bound.get("state") else None
    except UNREADABLE:
        return None
    if "target" not in bound:
        return None
    shown = action.state_json if bound.get("state") else ""
    return Before(bound["target"], plain(bound["version"]), shown, differs(action, kind, state) if shown else None)


def unbound(action: Action, kind: Kind | None) -> str:
    """Why nothing of its target is bound, in a few words; empty where something is, or its kind has no target."""
    if kind is None or kind.current is None or action.is_practice:
        return ""
    try:
        bound = action.preconditions
    except UNREADABLE:
        return ""
    if "target" in bound:
        return ""
    status = f" ({bound['status']})" if "status" in bound else ""
    why = bound.get(UNBOUND, "")
    return spoken(WHY_UNBOUND.get(why, why or NO_TARGET)) + status


def differs(action: Action, kind: Kind | None, state: Any) -> list[Change] | None:
    if kind is None or kind.after is None:
        return None
    try:
        return list(changes(state, kind.after(kind.read(action.arguments), state)))
    except NO_WORDS:
        return None
