"""Bells: Celery messages that say "look at run 7". They may be lost or doubled; rows decide."""

import time
from collections.abc import Iterable

from celery import current_app
from django.db import transaction
from django.db.models.fields.json import KT
from kombu.exceptions import OperationalError

from project.lib.failpoints import failpoint
from triggers.limits import Limits
from triggers.models import Trigger

SILENCE = 5.0  # seconds without bells after one failed: the broker is down, tick repeats what was lost
BACKSTOP = 60  # seconds Celery waits beyond the longest timeout before it kills a child itself
FRESH = 30.0  # seconds the longest timeout is remembered


class Belfry:
    """What this process remembers between two bells."""

    silent_until = 0.0
    limit = 0.0
    limit_read_at = -FRESH


def ring(run_ids: Iterable[int]) -> int:
    """Tell the workers about these runs now; returns how many bells went out. Never raises for a broken broker."""
    return sum(send("triggers.tasks.advance", time_limit=backstop(), run_id=run_id) for run_id in run_ids)


def ring_on_commit(run_ids: list[int]) -> None:
    """Ring once the current transaction commits."""
    transaction.on_commit(lambda: ring(run_ids), robust=True)


def send(task: str, *, time_limit: float | None = None, **ids: int) -> bool:
    """Send one message by its task's name; False while the broker is silent."""
    if time.monotonic() < Belfry.silent_until:
        return False
    failpoint("before_ring")
    try:
        current_app.send_task(task, kwargs=ids, time_limit=time_limit, ignore_result=True)
    except (OperationalError, OSError):
        Belfry.silent_until = time.monotonic() + SILENCE
        return False
    return True


def backstop() -> float:
    """Seconds after which Celery itself ends a message: beyond the longest timeout of any trigger, also of one that is
    off or archived, whose runs go on to their end."""
    if time.monotonic() - Belfry.limit_read_at > FRESH:
        own = [value for value in Trigger.objects.values_list(KT("limits__timeout"), flat=True) if value]
        Belfry.limit = max([Limits().timeout, *map(float, own)]) + BACKSTOP
        Belfry.limit_read_at = time.monotonic()
    return Belfry.limit
