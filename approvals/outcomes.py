"""What is known after a try, and the move that follows from it."""

import json
import random
import traceback
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db import transaction
from django.db.models import Q

from approvals import kinds
from approvals.errors import Refused
from approvals.frozen import readable
from approvals.models import Action, Attempt, Compensation, Connection, Review
from approvals.models.action import Status
from approvals.models.attempt import LONGEST_PAUSE
from approvals.settle import bury, lock, log, settle, show, unbury
from project.lib import backoff, clock
from project.lib.failpoints import failpoint
from project.lib.redaction import without_secrets
from project.lib.retrying import retried

TRIES = 5
PAUSES = (1, 5, 30, 120)  # seconds after the first, second … try
LOOKS = (5, 30, 120, 600)  # seconds before the first, second … look whether it happened; the last repeats
SPREAD = 0.1  # of a pause the far side asked for, at most 30 s, is added at random: all who wait must not come at once


@dataclass(frozen=True)
class Outcome:
    """`verdict` of a try; `result` when it was delivered, `error` as `{type, message}` otherwise."""

    verdict: Literal["delivered", "failed", "put_back", "unknown"]
    result: Any = None
    error: dict[str, str] | None = None
    retry_after: timedelta | None = None
    key_used_up: bool = False


@retried
def record(attempt: Attempt, outcome: Outcome) -> None:
    """Write down what is known. A success of any try counts, also a late one; anything else only of the newest."""
    with transaction.atomic():
        action = lock(attempt.action_id)
        now = clock.now()
        asked = outcome.retry_after
        Attempt.objects.filter(pk=attempt.pk).update(
            outcome=outcome.verdict,
            ended_at=now,
            error=outcome.error,
            retry_after=None if asked is None else int(asked.total_seconds()),
            key_used_up=outcome.key_used_up,
        )
        if asked:
            keep_away(action.connection, now + min(asked, LONGEST_PAUSE))
        if outcome.verdict == "delivered":
            succeed(action, now, outcome.result)
        elif attempt.number == action.tries and action.status in (Status.DELIVERING, Status.UNKNOWN):
            miss(action, now, outcome)
        failpoint("before_outcome_commit")
    failpoint("after_outcome")


def keep_away(connection: Connection | None, until: datetime) -> None:
    """The far side asked for a pause: whatever else goes there keeps it too."""
    rows = Connection.objects.filter(pk=connection.pk) if connection else Connection.objects.none()
    rows.filter(Q(busy_until=None) | Q(busy_until__lt=until)).update(busy_until=until)


def succeed(action: Action, now: datetime, result: Any) -> None:
    """It happened. After `failed` this is a late truth: the letter closes, nobody is woken a second time."""
    if action.status not in (Status.DELIVERING, Status.UNKNOWN, Status.FAILED):
        return
    was_failed = action.status == Status.FAILED
    key_is_free = not Action.objects.all().holding(action.kind, action.connection, action.key).exclude(pk=action.pk)
    settle(
        action,
        "deliver",
        now,
        result_json=json.dumps(result, default=str),
        error=None,
        keeps_key=False,
        gave_key_up=action.gave_key_up or not key_is_free,
    )
    Review.objects.draw(action, now)
    if was_failed:
        unbury(action, now)
        Compensation.objects.of_effect(action).owe_again()


def miss(action: Action, now: datetime, outcome: Outcome) -> None:
    """The newest try did not succeed: again later, unknown, or failed for good."""
    in_doubt = action.attempts.filter(outcome="unknown").exists()
    if outcome.verdict == "failed" or (outcome.verdict == "put_back" and spent(action) and not in_doubt):
        give_up(action, now, outcome.error or {}, keeps_key=in_doubt)
    elif outcome.verdict == "put_back" and not in_doubt and action.status == Status.DELIVERING:
        pause = rest(PAUSES, action.tries - 1, outcome.retry_after)
        action.move("put_back", not_before=now + pause, leased_until=None, error=outcome.error)
        log("put back", action)
        show(action)
    elif action.status == Status.DELIVERING:
        lose(action, now, outcome.error, outcome.retry_after)
    elif outcome.verdict == "put_back" and not in_doubt:  # taken for lost meanwhile, yet nothing was sent
        Action.objects.filter(pk=action.pk).update(not_before=now)


def spent(action: Action) -> bool:
    return action.attempts.filter(revision=action.revision).count() >= TRIES


def give_up(action: Action, now: datetime, error: dict[str, str], *, keeps_key: bool) -> None:
    settle(action, "fail", now, error=error, keeps_key=keeps_key)
    bury(action, now, error={"type": "Undeliverable", "message": "no try succeeded", **error})


def lose(action: Action, now: datetime, error: dict[str, str] | None, after: timedelta | None = None) -> None:
    """Nobody knows whether it happened; the desk looks into it later if the kind lets it."""
    kind = kinds.KINDS.get(action.kind)
    can_find_out = kind is not None and (action.is_practice or safety_of(action, kind) != "unsafe")
    later = now + rest(LOOKS, action.tries - 1, after) if can_find_out else None
    action.move("lose", not_before=later, leased_until=None, error=error)
    log("lose", action)
    show(action)


def rest(steps: tuple[int, ...], done: int, asked: timedelta | None) -> timedelta:
    """Our own pause, or the longer one the far side asked for, within reason."""
    own = backoff.around(steps[min(done, len(steps) - 1)])
    return max(own, spread(min(asked, LONGEST_PAUSE))) if asked else own


def spread(pause: timedelta) -> timedelta:
    """Never earlier than `pause`, and not all at the same moment."""
    return pause + timedelta(seconds=random.uniform(0, min(pause.total_seconds() * SPREAD, 30)))


def safety_of(action: Action, kind: kinds.Kind) -> kinds.Safety:
    """What may follow an unclear outcome of this action."""
    return kind.safety_of(action.arguments, action.connection.config if action.connection else {})


def presume_lost(action_id: int) -> bool:
    """A delivery whose process said nothing within its lease; False when it has."""
    with transaction.atomic():
        action = lock(action_id)
        now = clock.now()
        if action.status != Status.DELIVERING or action.leased_until is None or action.leased_until >= now:
            return False
        error = {"type": "Lost", "message": "the process that delivered it did not report back"}
        trace = Attempt.objects.filter(action=action, number=action.tries, outcome="sending")
        trace.update(outcome="unknown", error=error)
        lose(action, now, error)
    failpoint("after_loss")
    return True


def far_of(action: Action, kind: kinds.Kind) -> kinds.Far:
    if not kind.system:
        return kinds.Far("", {}, {}, kind.timeout, trace_of(action), action=action.pk)
    connection = action.connection
    if connection is None or connection.archived_at is not None:
        raise Refused("the connection was removed")
    in_doubt = action.attempts.filter(outcome="unknown").exists()  # then our own try may have moved it
    expected = "" if in_doubt else str(action.preconditions.get("version", ""))
    return replace(connection.far(kind.timeout), expected=expected)


def trace_of(action: Action) -> dict[str, Any]:
    """What an event inherits that the desk publishes for this action."""
    origin = action.run.event if action.run else None
    if origin is None:
        return {}
    return {"hops": origin.hops + 1, "correlationid": origin.correlationid, "traceparent": origin.traceparent}


def answered(action: Action) -> Any:
    """What people answered to the question that this action is. Raises Refused."""
    last = action.decisions.filter(verdict="approve", revision=action.revision).order_by("-pk").first()
    if last is None or last.answer_json is None:
        raise Refused("nobody has answered it")
    return json.loads(last.answer_json)


def describe(error: Exception) -> dict[str, str]:
    return {"type": type(error).__name__, "message": readable(without_secrets(str(error)))[:2000]}


def broken(error: Exception) -> dict[str, str]:
    """A connector's own fault: its place is told, its words are not, for they may quote what was sent."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return {"type": type(error).__name__, "message": f"the connector broke in {frame.name}, line {frame.lineno}"}
