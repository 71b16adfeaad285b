"""Numbers that no row keeps: counted in this process's memory, added to the rows a few seconds later.

Several processes add to the same rows, and what a process had not written when it was killed is lost: a few seconds of
figures, never of work. Noting costs under a microsecond; the door does it at every delivery."""

import json
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

from django.conf import settings
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import F

from triggers.models import Tally

EVERY = 5.0  # seconds between two writes of one process
DOOR = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds, upper ends
SLOW = (0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 28800.0, 86400.0, 604800.0)
DOLLARS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
BUCKETS = {"door": DOOR, "run_cost": DOLLARS}  # of the histograms; every other one has SLOW
SUM = "sum"
Key = tuple[str, tuple[str, ...]]

_lock = threading.Lock()  # around what is noted
_gate = threading.Lock()  # around moving it into the rows, so that a reader sees every number once
_fresh: Counter[Key] = Counter()
_timer: threading.Timer | None = None


def note(name: str, *labels: str, by: float = 1) -> None:
    """Count something under these labels."""
    with _lock:
        _fresh[name, labels] += by  # type: ignore[assignment]
        begin_to_write()


def door(seconds: float) -> None:
    """How long one delivery took at the door, from its headers to the end of the answer."""
    place = bucket("door", seconds)
    with _lock:
        _fresh["door", (place,)] += 1
        _fresh["door", (SUM,)] += seconds  # type: ignore[assignment]
        begin_to_write()


def bucket(name: str, value: float) -> str:
    """The bucket of a histogram into which `value` falls: its upper end as text."""
    ends = BUCKETS.get(name, SLOW)
    place = bisect_left(ends, value)
    return str(ends[place]) if place < len(ends) else "+Inf"


def begin_to_write() -> None:
    """Have it written soon; only in processes that stay (`up` and deploy/ name them). Called under the lock."""
    global _timer
    if _timer is None and settings.PROCESS:
        _timer = threading.Timer(EVERY, write_beside)
        _timer.daemon = True
        _timer.start()


def write_beside() -> None:
    try:
        flush()
    finally:
        connection.close()  # the thread's own


def flush() -> None:
    """Add what was noted to the rows; what cannot be written now is kept for the next time."""
    global _fresh, _timer
    with _gate:
        with _lock:
            fresh, _fresh, _timer = _fresh, Counter(), None
        try:
            add(fresh)
        except DatabaseError:
            with _lock:
                _fresh.update(fresh)


def known() -> Counter[Key]:
    """All tallies: what is in the rows, and what this process has not written yet."""
    with _gate:
        rows = Tally.objects.values_list("name", "labels", "value")
        written = Counter({(name, tuple(json.loads(labels))): value for name, labels, value in rows})
        with _lock:
            written.update(_fresh)
    return written


def forget() -> None:
    """Drop what was noted: tests begin with nothing."""
    with _lock:
        _fresh.clear()


def add(counts: Mapping[Key, float]) -> None:
    """Add to the rows, in the order of their keys so that two writers never wait for each other in a ring."""
    with transaction.atomic():
        for (name, labels), by in sorted(counts.items()):
            text = json.dumps(list(labels), ensure_ascii=False)
            grown = Tally.objects.filter(name=name, labels=text).update(value=F("value") + by)
            if not grown and not begun(name, text, by):
                Tally.objects.filter(name=name, labels=text).update(value=F("value") + by)


def begun(name: str, labels: str, by: float) -> bool:
    """Make the row; False when another process was faster."""
    try:
        with transaction.atomic():
            Tally.objects.create(name=name, labels=labels, value=by)
    except IntegrityError:
        return False
    return True
