"""What is known after a try, and the move that follows from it."""

import json
import traceback
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db import transaction

from approvals import kinds
from approvals.errors import Refused
from approvals.frozen import readable
from approvals.models import Action, Attempt
from approvals.models.action import Status
from approvals.settle import bury, lock, settle, show, unbury
from project.lib import backoff, clock
from project.lib.failpoints import failpoint
from project.lib.retrying import retried

TRIES = 5
PAUSES = (1, 5, 30, 120)  # seconds after the first, second … try
LOOKS = (5, 30, 120, 600)  # seconds before the first, second … look whether it happened; the last repeats
LONGEST_PAUSE = timedelta(minutes=15)  # of what a far side may ask for by Retry-After


@dataclass(frozen=True)
class Outcome:
    """`verdict` of a try; `result` when it was delivered, `error` as `{type, message}` otherwise."""

    verdict: Literal["delivered", "failed", "put_back", "unknown"]
    result: Any = None
    error: dict[str, str] | None = None
    retry_after: timedelta | None = None


@retried
def record(attempt: Attempt, outcome: Outcome) -> None:
    """Write down what is known. A success of any try counts, also a late one; anything else only of the newest."""
    with transaction.atomic():
        action = lock(attempt.action_id)
        now = clock.now()
        Attempt.objects.filter(pk=attempt.pk).update(outcome=outcome.verdict, ended_at=now, error=outcome.error)
        if outcome.verdict == "delivered":
            succeed(action, now, outcome.result)
        elif attempt.number == action.tries and action.status in (Status.DELIVERING, Status.UNKNOWN):
            miss(action, now, outcome)
        failpoint("before_outcome_commit")
    failpoint("after_outcome")


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
    if was_failed:
        unbury(action, now)


def miss(action: Action, now: datetime, outcome: Outcome) -> None:
    """The newest try did not succeed: again later, unknown, or failed for good."""
    in_doubt = action.attempts.filter(outcome="unknown").exists()
    if outcome.verdict == "failed" or (outcome.verdict == "put_back" and spent(action) and not in_doubt):
        give_up(action, now, outcome.error or {}, keeps_key=in_doubt)
    elif outcome.verdict == "put_back" and not in_doubt and action.status == Status.DELIVERING:
        pause = rest(PAUSES, action.tries - 1, outcome.retry_after)
        action.move("put_back", not_before=now + pause, leased_until=None, error=outcome.error)
        show(action)
    elif action.status == Status.DELIVERING:
        lose(action, now, outcome.error, outcome.retry_after)


def spent(action: Action) -> bool:
    return action.attempts.filter(revision=action.revision).count() >= TRIES


def give_up(action: Action, now: datetime, error: dict[str, str], *, keeps_key: bool) -> None:
    settle(action, "fail", now, error=error, keeps_key=keeps_key)
    bury(action, now, error={"type": "Undeliverable", "message": "no try succeeded", **error})


def lose(action: Action, now: datetime, error: dict[str, str] | None, after: timedelta | None = None) -> None:
    """Nobody knows whether it happened; the desk looks into it later if the kind lets it."""
    kind = kinds.KINDS.get(action.kind)
    can_find_out = kind is not None and (kind.safety != "unsafe" or action.is_practice)
    later = now + rest(LOOKS, action.tries - 1, after) if can_find_out else None
    action.move("lose", not_before=later, leased_until=None, error=error)
    show(action)


def rest(steps: tuple[int, ...], done: int, asked: timedelta | None) -> timedelta:
    """Our own pause, or the longer one the far side asked for, within reason."""
    own = backoff.around(steps[min(done, len(steps) - 1)])
    return max(own, min(asked, LONGEST_PAUSE)) if asked else own


def presume_lost(action_id: int) -> None:
    """A delivery whose process said nothing within its lease."""
    with transaction.atomic():
        action = lock(action_id)
        now = clock.now()
        if action.status != Status.DELIVERING or action.leased_until is None or action.leased_until >= now:
            return
        error = {"type": "Lost", "message": "the process that delivered it did not report back"}
        trace = Attempt.objects.filter(action=action, number=action.tries, outcome="sending")
        trace.update(outcome="unknown", error=error)
        lose(action, now, error)
    failpoint("after_loss")


def far_of(action: Action, kind: kinds.Kind) -> kinds.Far:
    if not kind.system:
        return kinds.Far("", {}, {}, kind.timeout, trace_of(action))
    connection = action.connection
    if connection is None or connection.archived_at is not None:
        raise Refused("the connection was removed")
    return connection.far(kind.timeout)


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
    return {"type": type(error).__name__, "message": readable(str(error))[:2000]}


def broken(error: Exception) -> dict[str, str]:
    """A connector's own fault: its place is told, its words are not, for they may quote what was sent."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return {"type": type(error).__name__, "message": f"the connector broke in {frame.name}, line {frame.lineno}"}
