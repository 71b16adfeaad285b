"""Celery carries ids; the rows carry the truth."""

import time
from typing import Any

from celery import shared_task

from triggers import dispatch
from triggers.execute import execute
from triggers.stopping import is_told_to_stop

DRAIN = 2.0  # seconds a worker that heard one bell goes on with whatever is due
PAUSES = (0.002, 0.004, 0.008, 0.016, 0.032)  # seconds it waits for more to come before it goes back to the broker


@shared_task
def advance(*, run_id: int, **later: Any) -> None:
    drain(time.monotonic() + DRAIN, is_busy=execute(run_id))


def drain(until: float, *, is_busy: bool) -> None:
    """Work on due runs until `until`: dispatch through the broker costs more than the run itself.

    `is_busy`: there was work a moment ago, so there may be more in a moment."""
    pauses = iter(PAUSES if is_busy else ())
    while time.monotonic() < until and not is_told_to_stop():
        if (run_id := dispatch.next_due()) is not None:
            if execute(run_id):
                pauses = iter(PAUSES)
        elif pause := next(pauses, None):
            time.sleep(pause)
        else:
            break
