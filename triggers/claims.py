"""A worker takes a run, and with it the slot and the turn its trigger's limits ask for: all in one transaction."""

from contextlib import nullcontext

from django.db import connection, transaction

from project.lib import clock
from project.lib.retrying import retried
from triggers import rates
from triggers.keys import value_of
from triggers.limits import Concurrency, RateLimit
from triggers.models import Run, Slot, Trigger
from triggers.viewing import event_view


def claim(run: Run, *, owner: str) -> bool:
    """Take the lease of `run`; False when another worker was first, nothing is due, or no slot or turn is free."""
    busy = run.flow.concurrency
    rate = run.flow.rate_limit if run.rate_key is not None and run.started_at is None else None
    if busy and run.slot_key is None:
        name_slot(run, busy.key)
    return take(run, busy, rate, owner=owner)


@retried
def take(run: Run, busy: Concurrency | None, rate: RateLimit | None, *, owner: str) -> bool:
    """A claim whose answer was lost is told as False: its lease runs out, like that of a worker that died with it."""
    if busy is None and rate is None:
        with transaction.atomic() if connection.vendor == "sqlite" else nullcontext():  # one alone waits out of turn
            return run.claim(clock.now(), owner=owner)
    with transaction.atomic():
        if rate:
            # The trigger before the run, as everywhere.
            Trigger.objects.select_for_update(of=("self",), no_key=True).get(runs=run.pk)
        now = clock.now()
        if rate and not rates.may_start(run, rate, now):
            return False
        taken = run.claim(now, owner=owner) and (busy is None or Slot.objects.take(run, busy.limit))
        if taken and rate:
            Run.objects.filter(pk=run.pk).update(not_before=now)
        transaction.set_rollback(not taken)
    return taken


@retried
def name_slot(run: Run, expression: str) -> None:
    """Its trigger counts runs only since this one was queued, or a person started it: work out where it belongs."""
    run.slot_key = value_of(expression, event_view(run.event)) if expression else ""  # type: ignore[arg-type]
    Run.objects.filter(pk=run.pk).update(slot_key=run.slot_key)
