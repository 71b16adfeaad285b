"""Advance one run as far as it goes: to its end, to a wait, or to its next try."""

import logging
import os
import socket
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from billiard.common import terminate_handler_fired
from django.db import DatabaseError, InterfaceError, transaction

from project.lib import backoff, clock, logs, spans
from project.lib.failpoints import failpoint
from project.lib.live import changed
from project.lib.retrying import retried
from project.lib.states import IllegalMove
from project.lib.text import made_storable
from triggers import breakers, claims, endings, quiet_end, registry, waking
from triggers.durable import Durable
from triggers.errors import (
    Blocked,
    BuriedAlready,
    CancelRequested,
    EndsRun,
    Fenced,
    GivenBack,
    Permanent,
    Retry,
    Suspended,
)
from triggers.failures import describe, place_of
from triggers.heartbeat import Heartbeat
from triggers.journal import Journal
from triggers.limits import Retries
from triggers.models import Run, Step
from triggers.models.run import CLAIMABLE, LOADED, MAX_CRASHES
from triggers.results import to_json
from triggers.stopping import is_told_to_stop

logger = logging.getLogger("nightdesk.run")
OWNER = f"{socket.gethostname()}:{os.getpid()}"[:100]


def execute(
    run_id: int, *, on_claim: Callable[[], None] = lambda: None, now: Callable[[], datetime] = clock.now
) -> bool:
    """Claim the run and work on it; False when there is nothing to claim, no code for it or this worker stops.

    `on_claim` is called between the two; `now` is as for `claims.claim`."""
    if is_told_to_stop():
        return False
    [run] = LOADED(pk=run_id)
    if run.status not in CLAIMABLE:
        return False  # somebody who heard of it first is at it, or through with it
    if run.handler not in registry.HANDLERS:
        Run.objects.filter(pk=run_id, status__in=CLAIMABLE).update(reason="handler_missing")
        return False
    if not claims.claim(run, owner=OWNER, now=now):
        return False
    failpoint("after_claim")
    journal = prepare(run, on_claim)
    with (
        logs.about(run=run.pk, event_id=run.event_id),
        spans.span(f"run {run.handler}", of=run.event, run=run.pk, attempt=run.attempt, fence=run.fence) as span,
        Heartbeat(run, timeout=run.flow.timeout, overdue=overdue, note=journal.note),
    ):
        work(Durable(run, journal))
        span.set_attribute("nightdesk.status", run.status)
        if run.status in ("retrying", "dead") and run.error:
            spans.failed(span, run.error["type"])
    return True


def prepare(run: Run, on_claim: Callable[[], None]) -> Journal:
    """What the run has done so far. Nothing of it has begun: whatever ends this worker's part here gives it back."""
    try:
        changed("runs", id=run.pk)
        on_claim()
        return Journal(run, is_new=run.fence == 1 and run.rerun_of_id is None)
    except (DatabaseError, InterfaceError, SystemExit, KeyboardInterrupt):
        give_back(run)
        raise


def work(durable: Durable) -> None:
    """Call the handler and record how it left: the one place where anything a handler raises is caught."""
    run = durable.row
    handler = registry.HANDLERS[run.handler]
    try:
        result = handler.function(durable)
        durable.journal.refuse_gap("the code now comes to its end")
        succeed(durable, result, handler.version)
    except Suspended:
        failpoint("after_suspend")
        waking.look_for_event(run.pk)
    except Fenced:
        return  # another worker holds the run: nothing of this one counts any more
    except CancelRequested:
        record(durable, lambda now: endings.cancel_as_asked(run, now), stopping=True)
    except GivenBack:
        give_back(run)
    except (SystemExit, KeyboardInterrupt) as error:
        if isinstance(error, SystemExit) and terminate_handler_fired():
            give_back(run)
            raise
        fail(durable, error)  # the handler's own: given back, it would come again for ever
    except Blocked as signal:
        difference = signal
        record(durable, lambda now: block(run, difference))
    except (EndsRun, BuriedAlready) as error:
        told, story = error, describe(error)
        record(durable, lambda now: endings.end_with(run, told, now, story))
    except Exception as error:
        fail(durable, error)


def record(durable: Durable, write: Callable[[datetime], object], *, stopping: bool = False) -> None:
    """Write an ending under the fence; a request to cancel that came meanwhile wins, a lost fence ends it silently."""
    try:
        durable.journal.write(write, ending=True, stopping=stopping)
    except CancelRequested:
        record(durable, lambda now: endings.cancel_as_asked(durable.row, now), stopping=True)
    except (Fenced, IllegalMove):
        return
    except GivenBack:  # the database stayed away: what the run came to is found out again
        give_back(durable.row)


def succeed(durable: Durable, result: Any, version: str) -> None:
    text = to_json(result, "the handler")
    if quiet_end.ended(durable.journal, text, version):
        return
    record(
        durable,
        lambda now: endings.end(durable.row, "succeed", now, result_json=text, error=None, handler_version=version),
    )


@retried
def give_back(run: Run) -> None:
    """Back into the queue under a new fence: neither an attempt nor a crash."""
    with transaction.atomic():
        held = Run.objects.select_for_update(no_key=True).filter(pk=run.pk, fence=run.fence, status="running").first()
        if held is None:
            return
        now = clock.now()
        held.move("give_back", fence=held.fence + 1, due_at=now, leased_until=None, lease_owner="", rung_at=None)
        changed("runs", id=run.pk)


def block(run: Run, signal: Blocked) -> None:
    story = {"type": "Blocked", "message": made_storable(signal.difference), "traceback": "", **signal.facts}
    run.move("block", reason=signal.reason, error=story, leased_until=None, lease_owner="")
    changed("runs", id=run.pk)


def fail(durable: Durable, error: BaseException) -> None:
    """Another try after a back-off, or the dead letters."""
    run, story, place = durable.row, describe(error), place_of(error)
    retries = run.flow.retries
    step = made_storable(durable.current_step)
    permanent = isinstance(error, Permanent)
    if permanent or run.attempt > retries.max:
        logger.error("%s gave up after attempt %d", run, run.attempt, exc_info=error)
        facts: dict[str, Any] = {"error": story, "place": place, "step": step, "permanent": permanent}
        record(durable, lambda now: endings.bury(run, now, **facts))
        return
    wait = error.after if isinstance(error, Retry) else pause(run.attempt, retries)
    logger.warning("%s failed: %s; attempt %d follows", run, type(error).__name__, run.attempt + 1)
    following = run.attempt + 1  # said here, since the move is written again when its commit fails
    record(durable, lambda now: retry(run, now, wait, story, attempt=following))


def pause(attempt: int, retries: Retries) -> timedelta:
    if retries.jitter == "none":
        return timedelta(seconds=min(retries.max_delay, retries.base * retries.factor ** (attempt - 1)))
    return backoff.full_jitter(attempt, base=retries.base, factor=retries.factor, longest=retries.max_delay)


def retry(run: Run, now: datetime, wait: timedelta, story: dict[str, Any], *, attempt: int) -> None:
    due = {"due_at": now + wait, "wake_at": now + wait, "rung_at": None, "leased_until": None, "lease_owner": ""}
    run.move("retry", attempt=attempt, reason="failed", error=story, **due)
    breakers.failed(run, now)
    changed("runs", id=run.pk)


def overdue(run: Run) -> None:
    """The run's own time is up: count it as a lost worker before this process ends itself."""
    reclaim(run.pk, run.fence, reason="timed_out")


@retried
def reclaim(run_id: int, fence: int, *, reason: str) -> bool:
    """Take a run from a worker that is gone; the third time it is a crash loop. False when it moved on meanwhile."""
    with transaction.atomic():
        held = Run.objects.select_for_update(no_key=True).filter(pk=run_id, fence=fence, status="running")
        run = held.select_related("event").first()
        if run is None:
            return False
        now = clock.now()
        last = Step.objects.filter(run=run).order_by("-seq").only("name", "status").first()
        Run.objects.filter(pk=run.pk).update(fence=run.fence + 1, crashes=run.crashes + 1)
        run.refresh_from_db()
        story = crash(run, reason, last)
        if run.cancel_requested_at:
            endings.cancel_as_asked(run, now)
        elif run.crashes >= MAX_CRASHES:
            endings.bury(run, now, error=story, place="", step=story["step"], reason="crash_loop")
        else:
            free = {"leased_until": None, "lease_owner": "", "rung_at": None}
            run.move("give_back", reason=reason, error=story, due_at=now, **free)
        changed("runs", id=run.pk)
    failpoint("after_reclaim")
    return True


def crash(run: Run, reason: str, last: Step | None) -> dict[str, Any]:
    """What is known of the worker that is gone: where it was, why it went, how much memory it held."""
    loop, step = run.crashes >= MAX_CRASHES, last.name if last else ""
    where = f"{'in' if last.status == 'started' else 'after'} the step “{step}”" if last else "before its first step"
    why = "its time was up" if reason == "timed_out" else "the worker died"
    held = f", {run.memory_mib:,} MiB of memory in use" if run.memory_mib is not None else ""
    lost = f"{run.crashes} workers were lost under this run, the last one" if run.crashes > 1 else "a worker was lost"
    message = f"{lost} {where}: {why}{held}"
    return {"type": "CrashLoop" if loop else "WorkerLost", "message": message, "traceback": "", "step": step}
