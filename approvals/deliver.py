"""DOOR 4: the world is touched, once.

`delivering` and the key are committed before the call, so a crash leaves a trace; the outcome is committed after it.
What is unclear is `unknown`: looked into, sent again under the same key, or shown to a person. Never guessed.
"""

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max

from approvals import current, kinds, policy, restoring
from approvals.current import Met
from approvals.doubt import done_before, key_is_used_up, look
from approvals.errors import NotSent, NotValid, OutcomeUnknown, Refused, TooLate, UnknownKind
from approvals.models import Action, Attempt, PracticeItem
from approvals.models.action import ActionQuerySet, Status
from approvals.outcomes import LOOKS, Outcome, answered, broken, describe, far_of, presume_lost, record, spread
from approvals.rules import Ruling
from approvals.settle import bury, lock, log, settle, show
from approvals.starts import EXECUTE_WITHIN, REVOKED, Obstacle, ask_again, needs_a_look, obstacle, opens_at, thaws_at
from project.lib import clock, gate, logs, spans
from project.lib.apart import each
from project.lib.crypto import Unreadable
from project.lib.failpoints import failpoint
from project.lib.retrying import retried

logger = logging.getLogger("nightdesk.delivery")
SLACK = timedelta(seconds=15)  # beyond the kind's timeout, until a delivery without a word counts as lost
UNSEEN_FOR = timedelta(seconds=30)  # until a target that could not be looked at is looked at again
ROUND = 50  # rows of each kind a round of tick at most


def deliver(action_id: int) -> bool:
    """Do what the row allows now: a first or further try, or a look at what became of the last one.

    False when it allows nothing. Never raises for what a far side does."""
    action = Action.objects.get(pk=action_id)
    if is_due(action, 0, clock.now()) and restoring.may_have_been_sent(action):
        return restoring.doubt(action_id)
    with logs.about(action=action.pk, run=action.run_id):
        if action.status == Status.UNKNOWN and not action.not_sent_said:
            look(action, send)
        elif action.status in (Status.APPROVED, Status.UNKNOWN):
            send(action)
        else:
            return False
    return True


def send(action: Action) -> None:
    """One try, if it may start."""
    attempt = start(action.pk, action.tries)
    if attempt is not None:
        origin = action.run.event if action.run else None
        with spans.span(f"deliver {action.kind}", of=origin, action=action.pk, attempt=attempt.number) as span:
            outcome = call(attempt)
            failpoint("after_call")
            record(attempt, outcome)
            span.set_attribute("nightdesk.outcome", outcome.verdict)
            if outcome.error is not None:
                spans.failed(span, outcome.error["type"])
                logger.warning("%s: %s, %s", attempt, outcome.verdict, outcome.error["type"])


@policy.again_when_moved
@retried
def start(action_id: int, tries: int) -> Attempt | None:
    """Commit `delivering` and the key that will be sent. None when something is in the way, or somebody was faster.

    `tries` is what the caller last read: a second sender that looked at an older state does not send."""
    asked = Action.objects.for_pages().get(pk=action_id)
    if not is_due(asked, tries, clock.now()):
        return None
    ruling = policy.ruling_of(asked)
    found = looked_at_before(asked, ruling)
    with transaction.atomic(durable=True):  # committed before the call, whoever calls
        gate.shared()
        action = lock(action_id)
        now = clock.now()
        policy.check_current(ruling, action)
        again = action.status == Status.UNKNOWN
        if not is_due(action, tries, now):
            return None
        why = obstacle(action, now, ruling, found)
        if why is not None:
            stand_aside(action, now, why, ruling, found)
            return None
        if again and key_is_used_up(action):
            take_next_key(action)
        attempt = Attempt.objects.create(
            action=action, number=tries + 1, revision=action.revision, key_sent=action.sent_key, started_at=now
        )
        lease = now + timeout_of(action) + SLACK
        fields = {"tries": tries + 1, "leased_until": lease, "not_before": None, "not_sent_said": False, "looks": 0}
        action.move("send_again" if again else "start", **fields)
        log("send again" if again else "start", action, number=attempt.number, key=attempt.key_sent)
        show(action)
    failpoint("after_delivering_commit")
    return attempt


def looked_at_before(action: Action, ruling: Ruling) -> Met | None:
    """What it would meet; None when nobody can look, or nobody has to since something else is in the way."""
    kind = kinds.KINDS.get(action.kind)
    if kind is None or kind.current is None:
        return current.NOTHING

    def may() -> None:
        if not needs_a_look(action, clock.now(), ruling):
            raise TooLate(status=action.status)

    return current.looked_at_again(action, ruling, may)


def is_due(action: Action, tries: int, now: datetime) -> bool:
    """Is it still as the caller read it, and its time come?"""
    may = action.tries == tries and action.status in (Status.APPROVED, Status.UNKNOWN)
    return may and action.not_before is not None and action.not_before <= now


def take_next_key(action: Action) -> None:
    """It did not happen, and the far side would only repeat the failure it stored for the key of the last try."""
    same = Action.objects.filter(kind=action.kind, connection=action.connection, key=action.key)
    Action.objects.filter(pk=action.pk).update(generation=same.aggregate(last=Max("generation"))["last"] + 1)
    action.refresh_from_db(fields=["generation"])


def stand_aside(action: Action, now: datetime, why: Obstacle, ruling: Ruling, found: Met | None) -> None:
    """What may not start: asked again, left for later, or left to a person."""
    if why in (Obstacle.SHUT, Obstacle.FROZEN):
        thawed = thaws_at(action, now)
        opens = opens_at(ruling, thawed)
        latest = max(action.execute_by or opens, opens + EXECUTE_WITHIN)
        frozen_until = thawed if thawed > now else None
        Action.objects.filter(pk=action.pk).update(not_before=opens, execute_by=latest, frozen_until=frozen_until)
        show(action)
    elif why is Obstacle.BUSY and action.connection and action.connection.busy_until:
        Action.objects.filter(pk=action.pk).update(not_before=now + spread(action.connection.busy_until - now))
        show(action)
    elif why is Obstacle.UNSEEN:
        error = {"type": "Unseen", "message": f"{why}; it is looked at again"}
        Action.objects.filter(pk=action.pk).update(not_before=now + spread(UNSEEN_FOR), error=error)
        show(action)
    elif action.status == Status.UNKNOWN:
        later = now + timedelta(seconds=LOOKS[-1]) if why is Obstacle.PAUSED else None
        Action.objects.filter(pk=action.pk).update(not_before=later, not_sent_said=False)
        show(action)
    elif why is Obstacle.GONE:
        settle(action, "cancel", now, reason_code="connection_removed")
        bury(action, now, error={"type": "ConnectionRemoved", "message": f"approved, but {why}"})
    elif why is Obstacle.REVOKED:
        settle(action, "cancel", now, reason_code=REVOKED)
    elif why in (Obstacle.CHANGED, Obstacle.STRICTER, Obstacle.MOVED):
        ask_again(action, now, why, ruling, found)


def timeout_of(action: Action) -> timedelta:
    kind = kinds.KINDS.get(action.kind)
    return kind.timeout if kind else kinds.CALL_TIMEOUT


def call(attempt: Attempt) -> Outcome:
    """Call the far side; the one place where anything a connector raises is caught."""
    action, is_called = attempt.action, False
    try:
        kind = kinds.named(action.kind)
        typed = kind.read(action.sent_arguments)
        if kind.is_question:
            return Outcome("delivered", answered(action))
        if (found := done_before(action, kind)) is not None:
            return Outcome("delivered", found)
        if action.is_practice:
            return Outcome("delivered", PracticeItem.objects.all().deliver(action, kind, typed, attempt.key_sent))
        check_in_time(attempt, kind)
        failpoint("before_call")
        far, is_called = far_of(action, kind), True
        return Outcome("delivered", kind.deliver(far, typed, attempt.key_sent))
    except NotSent as error:
        return Outcome("put_back", error=describe(error), retry_after=error.retry_after)
    except Refused as error:
        return Outcome("failed", error=describe(error))
    except OutcomeUnknown as error:
        story, pause = describe(error), error.retry_after
        return Outcome("unknown", error=story, retry_after=pause, key_used_up=error.key_used_up)
    except Exception as error:
        if not is_called and isinstance(error, UnknownKind | NotValid | Unreadable):
            return Outcome("failed", error=describe(error))
        return Outcome("unknown", error=broken(error))  # a connector that says so in no word of its own


def check_in_time(attempt: Attempt, kind: kinds.Kind) -> None:
    """A process that was held up since it began (a paused machine, a laptop's lid) may be presumed lost any moment,
    and another one sends; nothing can call a request back. Raises NotSent."""
    lasts = Action.objects.filter(leased_until__gte=clock.now() + kind.timeout)
    if not lasts.filter(pk=attempt.action_id, status=Status.DELIVERING, tries=attempt.number).exists():
        raise NotSent("the process was held up for too long before it could send")


# What a round does: whatever a lost message, or a dead process, would have done. Safe when two run at once.


def expire_overdue() -> int:
    return each(expire, first_of(Action.objects.overdue(clock.now())))


def presume_silent_ones_lost() -> int:
    return each(presume_lost, first_of(Action.objects.lost(clock.now())))


def deliver_due() -> int:
    now = clock.now()
    return each(deliver, [*first_of(Action.objects.due(now)), *first_of(Action.objects.to_look_at(now))])


def first_of(rows: ActionQuerySet) -> list[int]:
    return list(rows.order_by("pk").values_list("pk", flat=True)[:ROUND])


def expire(action_id: int) -> bool:
    """Silence never approves; and what was approved but could not be carried out in time is a dead letter."""
    with transaction.atomic():
        action = lock(action_id)
        now = clock.now()
        if not Action.objects.overdue(now).filter(pk=action_id).exists():
            return False
        was_approved = action.status == Status.APPROVED
        settle(action, "expire", now, reason_code="execute_by" if was_approved else "expires_at")
        if was_approved:
            bury(action, now, error={"type": "Expired", "message": "approved, but not carried out in time"})
    return True
