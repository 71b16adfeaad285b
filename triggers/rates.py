"""Runs that start later than their events came: the turns of a trigger's `rate_limit`, kept in the rows.

A turn is planned when the event comes (triggers/flow.py) and becomes the moment of the start. Whoever plans or starts
holds the trigger's row, so that no period ever sees more starts than the limit says."""

from collections import deque
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from project.lib import clock
from triggers.limits import RateLimit
from triggers.models import Run, Trigger
from triggers.models.run import RunQuerySet, Status

PIECE = 500  # rows of one statement


def may_start(run: Run, rate: RateLimit, now: datetime) -> bool:
    """Whether `run` may start now; else everything that waits in its order gets a new turn.

    More may be due than the limit allows: the desk was paused, or slots were taken. A run that has no turn yet, since
    a person started it or its trigger had no such rate, gets the next one behind all others."""
    if run.not_before is None:
        return may_start_last(run, rate, now)
    turns = started(run.trigger_id, run.rate_key).order_by("-not_before").values_list("not_before", flat=True)
    ahead = turns[rate.limit - 1 : rate.limit].first()
    if ahead is None or ahead + timedelta(seconds=rate.period) <= now:
        return True
    plan(run.trigger_id, run.rate_key, rate, now)
    return False


def may_start_last(run: Run, rate: RateLimit, now: datetime) -> bool:
    """Whether a turn is free for `run` behind all who have one; else that is planned, of this run alone: a bulk job
    brings thousands of them."""
    never = Q(started_at=None) & (Q(finished_at__isnull=False) | Q(cancel_requested_at__isnull=False))
    taken = Run.objects.filter(trigger=run.trigger_id, rate_key=run.rate_key, not_before__isnull=False).exclude(never)
    turns = taken.order_by("-not_before").values_list("not_before", flat=True)
    turn = rate.turn(now, turns[rate.limit - 1 : rate.limit].first())
    if turn <= now:
        return True
    expected(run.trigger_id, pk=run.pk, not_before=None).update(not_before=turn, due_at=turn)
    return False


def plan(trigger_id: int | None, key: str | None, rate: RateLimit, now: datetime) -> None:
    """Give every run that waits in this order the next free turn, the oldest first."""
    newest = started(trigger_id, key).order_by("-not_before").values_list("not_before", flat=True)[: rate.limit]
    turns: deque[datetime] = deque(reversed([turn for turn in newest if turn]), maxlen=rate.limit)
    moved = []
    for run in expected(trigger_id, rate_key=key).order_by("pk").only("not_before", "due_at", "gather_key"):
        turn = rate.turn(now, turns[0] if len(turns) == rate.limit else None)
        turns.append(turn)
        due = turn if run.gather_key is None else max(turn, run.due_at)
        if (run.not_before, run.due_at) != (turn, due):
            run.not_before, run.due_at = turn, due
            moved.append(run)
    Run.objects.bulk_update(moved, ["not_before", "due_at"], batch_size=PIECE)


def move_up(order: tuple[int, str]) -> bool:
    """Let those that wait in this order, `(trigger, key)`, have the turns of runs that will never start."""
    trigger_id, key = order
    with transaction.atomic():
        trigger = Trigger.objects.select_for_update(of=("self",), no_key=True).get(pk=trigger_id)
        if rate := trigger.flow.rate_limit:
            plan(trigger_id, key, rate, clock.now())
    return True


def plan_anew(trigger: Trigger, before: RateLimit | None) -> None:
    """After a change of the limits: what waits follows the new rate, or starts now when there is none any more.

    With another key than `before` each finds its order when it is taken up. The caller holds the trigger's row."""
    now, rate = clock.now(), trigger.flow.rate_limit
    if rate is None or (rate.key and before and rate.key != before.key):
        freed = expected(trigger.pk, rate_key__isnull=False)
        freed.filter(gather_key=None).update(due_at=now, not_before=None, rate_key=None)
        freed.update(not_before=None, rate_key=None)
        return
    if not rate.key:
        expected(trigger.pk).exclude(rate_key="").update(rate_key="", not_before=now)
    for key in set(expected(trigger.pk, rate_key__isnull=False).values_list("rate_key", flat=True)):
        plan(trigger.pk, key, rate, now)


def started(trigger_id: int | None, key: str | None) -> RunQuerySet:
    return Run.objects.filter(trigger=trigger_id, rate_key=key, not_before__isnull=False, started_at__isnull=False)


def expected(trigger_id: int | None, **of: object) -> RunQuerySet:
    """Runs that have never started and still may."""
    fresh = Run.objects.filter(trigger=trigger_id, status=Status.QUEUED, started_at=None, cancel_requested_at=None)
    return fresh.filter(**of)
