"""A worker takes a run, and with it the slot and the turn its trigger's limits ask for: all in one transaction."""

from collections.abc import Callable
from datetime import datetime

from django.db import transaction

from project.lib import clock
from project.lib.hasty import hasty
from project.lib.prepared import by_itself
from project.lib.retrying import retried
from triggers import rates
from triggers.keys import value_of
from triggers.limits import Concurrency, RateLimit
from triggers.models import Run, Slot, Trigger
from triggers.viewing import event_view


def claim(run: Run, *, owner: str, now: Callable[[], datetime] = clock.now) -> bool:
    """Take the lease of `run`; False when another worker was first, nothing is due, or no slot or turn is free.

    `now` tells the database's time, perhaps as it was read some seconds ago; where limits hold, it is asked anew."""
    busy = run.flow.concurrency
    rate = run.flow.rate_limit if run.started_at is None else None
    if busy and run.slot_key is None:
        name_key(run, "slot_key", busy.key)
    if rate and run.rate_key is None:
        name_key(run, "rate_key", rate.key)
    return take(run, busy, rate, owner=owner, now=now)


@retried
def take(
    run: Run, busy: Concurrency | None, rate: RateLimit | None, *, owner: str, now: Callable[[], datetime]
) -> bool:
    """A claim whose answer was lost is told as False: its lease runs out, like that of a worker that died with it.

    On SQLite it waits for no disk: what the worker writes next under its fence does, and is there with it or not at
    all."""
    if busy is None and rate is None:
        with hasty(), by_itself():
            return run.claim(now(), owner=owner)
    with transaction.atomic():
        if rate:
            # The trigger before the run, as everywhere.
            Trigger.objects.select_for_update(of=("self",), no_key=True).get(runs=run.pk)
        at = clock.now()
        if rate and not rates.may_start(run, rate, at):
            return False
        taken = run.claim(at, owner=owner) and (busy is None or Slot.objects.take(run, busy.limit))
        if taken and rate:
            Run.objects.filter(pk=run.pk).update(not_before=at)
        transaction.set_rollback(not taken)
    return taken


@retried
def name_key(run: Run, field: str, expression: str) -> None:
    """Its trigger counts runs only since this one was queued, or a person started it: work out where it belongs."""
    value = value_of(expression, event_view(run.event)) if expression else ""  # type: ignore[arg-type]
    setattr(run, field, value)
    Run.objects.filter(pk=run.pk).update(**{field: value})
