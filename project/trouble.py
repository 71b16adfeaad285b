"""What keeps the desk from its work right now, for the banner on every page: asked at most every few seconds."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import redis
from django.db import DatabaseError

from project import audited, health
from project.lib import clock, stream
from project.lib.language import phrase, spoken, words
from project.lib.text import span
from triggers.models import Pulse, Run

KEPT = 5.0  # seconds an answer is good for; a page waits for no probe twice
PATIENCE = 30.0  # seconds a due run may wait although no worker is at work


@dataclass(frozen=True)
class Trouble:
    """`what` is wrong, and what that means until somebody mends it."""

    what: str
    means: str
    age: float | None = None  # seconds that `what` tells of, at its `{time}`

    @property
    def said(self) -> str:
        """Asked once for people of every language, so it is put together for each."""
        return spoken(self.what) if self.age is None else phrase(self.what, time=span(self.age))


def storage() -> Trouble | None:
    """Can anything be written at all?"""
    wrong = health.storage()
    if not wrong:
        return None
    means = words("Deliveries are answered 503, so their senders try again. Nothing that was accepted is lost.")
    return Trouble(f"{wrong[0].upper()}{wrong[1:]}.", means)


def tick() -> Trouble | None:
    """A desk whose tick has not run yet is just starting, unless something waits: `workers` tells that."""
    age = Pulse.age("tick")
    if age is None or age <= health.TICK_IS_LATE:
        return None
    means = words("Waits, schedules, expiry and repeated tries stand still. Deliveries are taken in, decisions count.")
    return Trouble("The tick is late: the last round was {time} ago.", means, age)


def broker() -> Trouble | None:
    means = words("Nothing is lost: runs go on by the tick, more slowly, and pages ask instead of being told.")
    try:
        with stream.client() as client:
            client.set("asked", 1, ex=60)  # a full one still answers a ping
    except redis.exceptions.OutOfMemoryError:
        return Trouble("The broker is full: it takes no messages.", means)
    except (redis.RedisError, OSError):
        return Trouble("The broker does not answer.", means)
    return None


def workers() -> Trouble | None:
    """Told by the rows: something is due for a while, and nobody works on anything."""
    now = clock.now()
    if Run.objects.filter(status="running", leased_until__gte=now).exists():
        return None
    due = Run.objects.due(now - timedelta(seconds=PATIENCE)).exclude(reason="handler_missing")
    oldest = due.order_by("due_at").values_list("due_at", flat=True).first()
    if oldest is None:
        return None
    told = words("No worker takes runs: the oldest has waited for {time}.")
    return Trouble(told, "Runs wait; nothing is lost.", (now - oldest).total_seconds())


def audit() -> Trouble | None:
    if not audited.found():
        return None
    told = words("The audit log does not fit what was done.")
    return Trouble(told, words("The checks name what lacks a nod or a row. Somebody wrote past the desk."))


PROBES: tuple[Callable[[], Trouble | None], ...] = (storage, tick, broker, workers, audit)


class Known:
    """What the last look of this process found."""

    found: tuple[Trouble, ...] = ()
    until = float("-inf")  # by the monotonic clock


def troubles() -> tuple[Trouble, ...]:
    """What is wrong now, the worst first."""
    if time.monotonic() > Known.until:
        Known.found = tuple(trouble for probe in PROBES if (trouble := asked(probe)) is not None)
        Known.until = time.monotonic() + KEPT
    return Known.found


def asked(probe: Callable[[], Trouble | None]) -> Trouble | None:
    try:
        return probe()
    except (DatabaseError, OSError):
        return None  # the page itself says so: it cannot be drawn without the database


def forget() -> None:
    """Look again at the next page."""
    Known.until = float("-inf")
