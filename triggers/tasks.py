"""Celery carries ids; the rows carry the truth."""

import time
from typing import Any

from celery import shared_task

from project.lib import clock
from triggers import bells, dispatch, turns
from triggers.execute import execute
from triggers.stopping import is_told_to_stop

DRAIN = 2.0  # seconds a worker that heard one bell goes on with whatever is due
PAUSES = (0.002, 0.004, 0.008, 0.016, 0.032)  # seconds it waits for more to come before it goes back to the broker
RINGS_EACH = 0.25  # seconds between two bells of one worker: short runs are through before another worker is awake
LOOKS_EACH = 0.02  # the same between two looks that found nothing to ring for


class Chain:
    """When this process looks next whether another worker is needed."""

    looks_at = 0.0


@shared_task
def advance(*, run_id: int, **later: Any) -> None:
    drain(time.monotonic() + DRAIN, is_busy=execute(run_id, on_claim=pass_on))


def drain(until: float, *, is_busy: bool) -> None:
    """Work on due runs until `until`: dispatch through the broker costs more than the run itself.

    `is_busy`: there was work a moment ago, so there may be more in a moment."""
    pauses = iter(PAUSES if is_busy else ())
    told = clock.Reading(clock.now())
    while time.monotonic() < until and not is_told_to_stop():
        if (run_id := dispatch.next_due(told.now())) is not None:
            if execute(run_id, on_claim=pass_on, now=told.now):
                pauses = iter(PAUSES)
        elif pause := next(pauses, None):
            time.sleep(pause)
        else:
            break


def pass_on() -> None:
    """Ring for what is due beside the run just taken up: a burst reaches every free worker by few bells of the door."""
    now = time.monotonic()
    if now < Chain.looks_at:
        return
    turn = turns.next_turn(clock.now())
    Chain.looks_at = now + (RINGS_EACH if turn else LOOKS_EACH)
    if turn:
        bells.ring([turn[1]])
