"""What was written down to undo an effect, read again when it is owed, and whether the effect is still what it meant.

A dict is written down before anybody has decided: where a reviewer changed the arguments since, it is about what never
happened. A function is asked of the result, and knows."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from approvals.changes import Change, changes
from approvals.models import Action, Compensation
from approvals.models.action import UNREADABLE
from approvals.wish import Wish
from triggers.errors import Permanent

EDITED = "what was done had been edited"  # stands where otherwise a rule is named: why a person looks at its undoing
MOST_SHOWN = 50  # changed arguments; all of them are on the page of what was edited


def wish_of(owed: Compensation) -> Wish:
    """Read again what was written down, with what it does not know of as evidence. Raises Permanent, Unreadable."""
    given, effect = owed.wish, owed.effect
    if given is None:
        raise Permanent("the run ended before its handler said how to undo it")
    reason = given["reason"] or f"Undoes A-{effect.pk}: R-{owed.run_id} ended as {owed.run.status}."
    against = list(told(effect, edits_unknown_to(owed)))
    wish = Wish.of(given["kind"], given["connection"], given["key"], reason, against, None, given["arguments"])
    return replace(wish, key=key_of(wish, effect))


def key_of(wish: Wish, effect: Action) -> str:
    """One key for one effect: asked for again after it was undone, the effect is another row, and so is its undoing."""
    return f"{wish.key or effect.key}/undo/A-{effect.pk}"


def edits_unknown_to(owed: Compensation) -> list[Change]:
    """What was done otherwise than it was asked for, where its undoing was written down before. Raises Permanent."""
    given, effect = owed.wish, owed.effect
    if given is None or given.get("knows_result"):
        return []
    first = effect.decisions.filter(verdict="edit").order_by("revision").first()
    try:
        return list(changes(json.loads(first.before)["arguments"], effect.arguments)) if first else []
    except UNREADABLE as error:
        raise Permanent(f"nobody can read how A-{effect.pk} was edited") from error


def told(effect: Action, edits: list[Change]) -> Iterator[dict[str, Any]]:
    """Evidence against an undoing that knows nothing of `edits`; messages carry the first line: no value is in it."""
    if not edits:
        return
    places = ", ".join(change.label for change in edits[:MOST_SHOWN])
    text = f"A-{effect.pk} was edited before it was done ({places}); this would undo what was asked for first."
    yield {"text": text, "for": False}
    for change in edits[:MOST_SHOWN]:
        yield {"text": in_words(change), "for": None}
    if len(edits) > MOST_SHOWN:
        yield {"text": f"{len(edits) - MOST_SHOWN} more arguments differ: A-{effect.pk} shows them.", "for": None}


def in_words(change: Change) -> str:
    """`item: asked for “tea”, done with “milk”`."""
    was, now = (["\n".join(line[1:] for tone, line in change.lines if tone == of)] for of in ("del", "add"))
    if not any((*was, *now)):
        return f"{change.label}: too long to be compared here"
    asked, done = (f"“{text}”" if text else "nothing" for text in (*was, *now))
    return f"{change.label}: asked for {asked}, done with {done}"
