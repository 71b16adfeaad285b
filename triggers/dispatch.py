"""The round of the machine: whatever a lost message would have done, asked of the rows again."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction
from django.db.models import Q

from project.lib import clock
from project.lib.apart import Round, each
from triggers import bells, breakers, endings, fire, moving, overflow, turns, waking
from triggers.execute import reclaim
from triggers.ingest import match_stored
from triggers.models import DeadLetter, Pulse, Run, Slot, Wait
from triggers.models.run import RunQuerySet

RING_AGAIN = timedelta(seconds=5)  # a bell older than this is presumed lost
BELLS = 64  # bells a round at most; a worker that hears one looks for more by itself
ROUND = 500  # rows of each kind a round at most
DEAD = 200  # dead runs looked at in one round
MOURNED_FOR = timedelta(days=1)  # older ones may have lost their letter by the rules of keeping
ASK_MISSING = 10  # of so many rounds one rings for runs whose handler was missing: it may be back


class Place:
    """Where this process goes on with its slow walks over pending waits and dead runs, and how often it has rung."""

    after = 0
    dead = 0
    rounds = 0


def stages() -> dict[str, Callable[[], int]]:
    """The machine's part of a round, in order; every move is a compare-and-set, so two rounds at once are safe."""
    return {
        "reclaimed": reclaim_lost,
        "woken": wake_due,
        "matched": partial(match_stored, None, limit=ROUND),
        "moved": partial(moving.move_due, ROUND),
        "answered": repair_waits,
        "fired": fire.fire_due,
        "buried": bury_dead,
        "freed": free_slots,
        "cancelled": overflow.end_unwanted,
        "overflows": overflow.tell_full,
        "tried": breakers.look,
        "rung": ring_due,
    }


def tick(more: Mapping[str, Callable[[], int | None]] | None = None) -> Round:
    """One round: the machine's stages, then those of who knows more; safe when two run at once."""
    now, this = clock.now(), Round()
    try:
        this.run({**stages(), **(more or {})})
    finally:
        if not this.stopped:
            Pulse.beat("tick", now, **this.done, faults=this.faults, took=this.took)
    return this


def reclaim_lost() -> int:
    """Take back the runs of workers that are gone."""
    lost = Run.objects.lost(clock.now()).order_by("leased_until").values_list("pk", "fence")[:ROUND]
    return each(take_back, lost)


def take_back(lost: tuple[int, int]) -> bool:
    run_id, fence = lost
    return reclaim(run_id, fence, reason="worker_lost")


def wake_due() -> int:
    return waking.expire_due(clock.now())


def repair_waits() -> int:
    if not Wait.objects.filter(status="pending").exclude(type="").exists():
        Place.after = 0
        return 0
    woken, Place.after = waking.repair(Place.after)
    return woken


def bury_dead() -> int:
    """A run that died has a letter; one of the last day that has none (a database that was mended) gets it now.

    A walk over the dead, a piece a round. Where the letter of an action names the run, that is its letter."""
    dead = Run.objects.filter(status="dead", pk__gt=Place.dead, reruns=None).order_by("pk")
    page = list(dead.values_list("pk", "finished_at")[:DEAD])
    Place.dead = page[-1][0] if len(page) == DEAD else 0
    young = clock.now() - MOURNED_FOR
    wanting = {pk for pk, end in page if end and end > young}
    spoken_of = DeadLetter.objects.speaking().filter(run__in=wanting).values_list("run_id", flat=True)
    return each(endings.open_forgotten, sorted(wanting.difference(spoken_of)))


def free_slots() -> int:
    """Give back the slots of runs that are gone: none is expected, since a run frees its own with its last word."""
    return Slot.objects.lost().delete()[0]


def silent(now: datetime, before: datetime) -> RunQuerySet:
    """Due runs whose bell is older than `before`, or was never rung."""
    return Run.objects.due(now).filter(Q(rung_at=None) | Q(rung_at__lt=before))


def silent_and_known(now: datetime, before: datetime) -> RunQuerySet:
    return silent(now, before).exclude(reason="handler_missing")


SILENT = turns.Line(silent, now=datetime, before=datetime)
SILENT_AND_KNOWN = turns.Line(silent_and_known, now=datetime, before=datetime)


def ring_due() -> int:
    """Ring for due runs whose bell is old or was never rung, every trigger in its turn.

    Runs without a handler would take the bells of those behind them; one round in ten asks whether it is back."""
    now = clock.now()
    line = SILENT_AND_KNOWN if Place.rounds % ASK_MISSING else SILENT
    Place.rounds += 1
    ids = turns.fair_share(line, now, BELLS, before=now - RING_AGAIN)
    return bells.ring(note_rung(ids, now)) if ids else 0


def note_rung(ids: list[int], now: datetime) -> list[int]:
    """Those of `ids` that nobody holds at the moment: waiting for the others could end in a circle with a door."""
    with transaction.atomic():
        held = Run.objects.select_for_update(skip_locked=True, no_key=True).filter(pk__in=ids)
        free = set(held.values_list("pk", flat=True))
        Run.objects.filter(pk__in=free).update(rung_at=now)
    return [run_id for run_id in ids if run_id in free]


def next_due(now: datetime | None = None) -> int | None:
    """The run whose turn it is for a worker that has nothing to do; `now` may be a moment old, the claim asks again."""
    turn = turns.next_turn(now or clock.now())
    if turn is None:
        return None
    trigger, run = turn
    turns.Served.note(trigger)
    return run
