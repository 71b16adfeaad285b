"""An outcome nobody knows: find out, send again where the same key makes that harmless, or leave it to a person."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from approvals import kinds
from approvals.errors import DeliveryError, NotValid, OutcomeUnknown
from approvals.models import Action, Attempt, PracticeItem
from approvals.models.action import Status
from approvals.outcomes import LOOKS, describe, far_of, give_up, rest, spent, succeed
from approvals.settle import lock
from project.lib import clock
from project.lib.crypto import Unreadable

LOOK_FOR = timedelta(hours=24)  # then only a person can say

Send = Callable[[Action], None]


def look(action: Action, send: Send) -> None:
    """Find out what became of the tries so far; `send` makes another try."""
    now = clock.now()
    if action.not_before is None or action.not_before > now:
        return
    kind = kinds.KINDS.get(action.kind)
    first = action.attempts.order_by("number").first()
    if kind is None or first is None:
        leave_to_a_person(action)
    elif kind.probe is None and not action.is_practice:
        if kind.safety == "keyed" and not spent(action) and now < first.started_at + kind.window:
            send(action)
        else:
            leave_to_a_person(action)
    else:
        probe(action, kind, first, now, send)


def probe(action: Action, kind: kinds.Kind, first: Attempt, now: datetime, send: Send) -> None:
    """Ask the far side for all keys that were sent."""
    keys = list(dict.fromkeys(action.attempts.order_by("number").values_list("key_sent", flat=True)))
    try:
        found = find(action, kind, keys)
    except (DeliveryError, NotValid, Unreadable) as error:
        look_later(action, first, now, describe(error))
        return
    if found is not None:
        record_found(action, found)
    elif spent(action):
        not_there(action)
    else:
        send(action)


def find(action: Action, kind: kinds.Kind, keys: list[str]) -> dict[str, Any] | None:
    if action.is_practice:
        return PracticeItem.objects.all().probe(action, keys)
    if kind.probe is None:
        raise OutcomeUnknown
    return kind.probe(far_of(action, kind), kind.read(action.sent_arguments), keys)


def record_found(action: Action, result: dict[str, Any]) -> None:
    with transaction.atomic():
        held = lock(action.pk)
        succeed(held, clock.now(), result)


def not_there(action: Action) -> None:
    """It did not happen, and no try is left."""
    with transaction.atomic():
        held = lock(action.pk)
        if held.status == Status.UNKNOWN and held.tries == action.tries:
            give_up(held, clock.now(), held.error or {}, keeps_key=True)


def look_later(action: Action, first: Attempt, now: datetime, error: dict[str, str]) -> None:
    later = now + rest(LOOKS, action.looks + 1, None)
    still = Action.objects.filter(pk=action.pk, status=Status.UNKNOWN, tries=action.tries)
    still.update(looks=action.looks + 1, error=error, not_before=None if later > first.started_at + LOOK_FOR else later)


def leave_to_a_person(action: Action) -> None:
    Action.objects.filter(pk=action.pk, status=Status.UNKNOWN, tries=action.tries).update(not_before=None)
