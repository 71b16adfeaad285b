"""The round of the machine: whatever a lost message would have done, asked of the rows again."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from project.lib import clock
from project.lib.apart import apart
from triggers import bells, fire, waking
from triggers.execute import reclaim
from triggers.ingest import match_stored
from triggers.models import Pulse, Run, Wait

RING_AGAIN = timedelta(seconds=5)  # a bell older than this is presumed lost
BELLS = 64  # bells a round at most; a worker that hears one looks for more by itself
ROUND = 500  # rows of each kind a round at most
ASK_MISSING = 10  # of so many rounds one rings for runs whose handler was missing: it may be back


@dataclass(frozen=True)
class Round:
    """What one round did."""

    reclaimed: int
    woken: int
    matched: int
    fired: int
    rung: int


class Place:
    """Where this process goes on with the slow walk over all pending waits, and how often it has rung."""

    after = 0
    rounds = 0


def tick() -> Round:
    """One round; safe when two run at once, since every move is a compare-and-set. No stage stops another one."""
    now = clock.now()
    done = Round(
        reclaimed=apart(reclaim_lost, now),
        woken=apart(waking.expire_due, now) + apart(repair_waits),
        matched=apart(match_stored, None, limit=ROUND),
        fired=apart(fire.fire_due),
        rung=apart(ring_due, clock.now()),
    )
    Pulse.beat("tick", now, **asdict(done))
    return done


def reclaim_lost(now: datetime) -> int:
    """Take back the runs of workers that are gone."""
    lost = Run.objects.lost(now).order_by("leased_until").values_list("pk", "fence")[:ROUND]
    return sum(apart(reclaim, run_id, fence, reason="worker_lost") for run_id, fence in lost)


def repair_waits() -> int:
    if not Wait.objects.filter(status="pending").exclude(type="").exists():
        Place.after = 0
        return 0
    woken, Place.after = waking.repair(Place.after)
    return woken


def ring_due(now: datetime) -> int:
    """Ring for due runs whose bell is old or was never rung, most urgent first.

    Runs without a handler would take the bells of those behind them; one round in ten asks whether it is back."""
    stale = Q(rung_at=None) | Q(rung_at__lt=now - RING_AGAIN)
    due = Run.objects.due(now).filter(stale)
    if Place.rounds % ASK_MISSING:
        due = due.exclude(reason="handler_missing")
    Place.rounds += 1
    ids = list(due.order_by("priority", "due_at", "id").values_list("pk", flat=True)[:BELLS])
    if not ids:
        return 0
    Run.objects.filter(pk__in=ids).update(rung_at=now)
    return bells.ring(ids)


def next_due(skip: int = 0) -> int | None:
    """The most urgent run a worker may claim now."""
    due = Run.objects.due(clock.now()).exclude(pk=skip).exclude(reason="handler_missing")
    return due.order_by("priority", "due_at", "id").values_list("pk", flat=True).first()
