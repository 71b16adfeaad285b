"""Celery carries ids; the rows carry the truth."""

import time
from typing import Any

from celery import shared_task

from triggers import dispatch
from triggers.execute import execute
from triggers.stopping import is_told_to_stop

DRAIN = 2.0  # seconds a worker that heard one bell goes on with whatever is due


@shared_task
def advance(*, run_id: int, **later: Any) -> None:
    execute(run_id)
    drain(time.monotonic() + DRAIN)


def drain(until: float) -> None:
    """Work on due runs until `until`: dispatch through the broker costs more than the run itself."""
    while time.monotonic() < until and not is_told_to_stop() and (run_id := dispatch.next_due()) is not None:
        execute(run_id)
