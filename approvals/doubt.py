"""An outcome nobody knows: find out, send again where that is harmless, or leave it to a person."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from approvals import kinds
from approvals.errors import DeliveryError, NotValid, OutcomeUnknown
from approvals.models import Action, Attempt, PracticeItem
from approvals.models.action import Status
from approvals.outcomes import LOOKS, describe, far_of, give_up, rest, safety_of, spent, succeed
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
    elif kind.probe is not None or action.is_practice:
        probe(action, kind, first, now, send)
    elif not spent(action) and may_repeat(action, kind, now):
        send(action)
    else:
        leave_to_a_person(action)


def may_repeat(action: Action, kind: kinds.Kind, now: datetime) -> bool:
    """Is one more try harmless, although nobody knows what became of those before?"""
    if not is_in_doubt(action):
        return True  # every one of them surely sent nothing
    safety = safety_of(action, kind)
    return safety == "natural" or (safety == "keyed" and key_still_counts(action, kind, now))


def is_in_doubt(action: Action) -> bool:
    """May a try that is over have had its effect?"""
    return action.attempts.filter(outcome="unknown").exists()


def key_still_counts(action: Action, kind: kinds.Kind, now: datetime) -> bool:
    """Does the far side still remember the key the next try would send, and not only a failure under it?"""
    same = action.attempts.filter(key_sent=action.sent_key).order_by("number").first()
    window = kind.window_of(action.connection.config if action.connection else {})
    return same is not None and now < same.started_at + window and not key_is_used_up(action)


def key_is_used_up(action: Action) -> bool:
    """Did the far side answer the newest try with the failure it had stored for its key?"""
    return action.attempts.filter(number=action.tries, key_used_up=True).exists()


def probe(action: Action, kind: kinds.Kind, first: Attempt, now: datetime, send: Send) -> None:
    """Ask the far side for all keys that were sent."""
    try:
        found = find(action, kind, keys_of(action.attempts.all()) + keys_of(earlier(action)))
    except (DeliveryError, NotValid, Unreadable) as error:
        look_later(action, first, now, describe(error))
        return
    if found is not None:
        record_found(action, found)
    elif spent(action):
        not_there(action)
    else:
        send(action)


def keys_of(attempts: QuerySet[Attempt]) -> list[str]:
    return list(dict.fromkeys(attempts.order_by("pk").values_list("key_sent", flat=True)))


def earlier(action: Action) -> QuerySet[Attempt]:
    """Tries for the same key of business by actions that were given up, although they may have happened."""
    same = {"action__kind": action.kind, "action__connection": action.connection, "action__key": action.key}
    given_up = Attempt.objects.filter(**same, action__status=Status.FAILED, action__keeps_key=True)
    return given_up.exclude(action=action)


def done_before(action: Action, kind: kinds.Kind) -> dict[str, Any] | None:
    """What an earlier action of this key did after all, though it was given up: looked for before anything is sent.

    None when it did nothing, or nobody can tell. Raises NotSent, Refused when the far side cannot be asked."""
    tries = earlier(action)
    if (kind.probe is None and not action.is_practice) or is_in_doubt(action) or not tries.exists():
        return None  # an own try in doubt was looked for a moment ago, and with it all of these
    try:
        found = find(action, kind, keys_of(tries))
    except OutcomeUnknown:
        return None  # a person asked for it once more, knowing this
    if found is not None:
        for given_up in Action.objects.filter(attempts__in=tries).distinct():
            record_found(given_up, found)
    return found


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
