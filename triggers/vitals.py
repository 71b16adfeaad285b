"""How a source is doing: what it delivered, what was refused and why, when it should ring next, how its clock goes."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count

from project.lib.language import phrase
from project.lib.text import span
from triggers.models import Event, Refusal, Rhythm, Source

REPEATS = Refusal.REPEATS
SHOWN = 12  # deliveries
TIMED = 50  # events that tell their own time, which is compared with ours
LOOKED = 500  # newest events among which they are looked for
FEWEST = 3  # of them; from fewer nothing is said
STATUSES = 200  # newest events whose states are counted
LOST = ("suppressed", "stopped", "invalid")  # states of which a person should know
AHEAD, BEHIND = 2, 60  # seconds of skew that are worth a word
EARLY = 0.1  # share of events that come sooner than what is called the skew: what is left is the way


@dataclass(frozen=True, slots=True)
class Delivery:
    """One thing that came to the source's door: an event, a repeat of one, or a refusal."""

    at: datetime
    status: str  # of the event; duplicate, refused
    words: str  # its type, or why it was refused
    event: int | None  # its number, or that of the first one
    answered: int | None = None


@dataclass(frozen=True, slots=True)
class Vitals:
    """What can be measured of one source."""

    rhythm: Rhythm | None
    next_expected: datetime | None
    refused: dict[str, int]  # by reason, of what is kept and nobody admitted
    repeats: int
    stopped: dict[str, int]  # suppressed, stopped and invalid ones among the newest events
    skew: float | None  # seconds its clock is behind ours; negative: ahead

    @property
    def clock_words(self) -> str:
        """What the skew means; empty when nothing could be measured."""
        if self.skew is None:
            return ""
        if self.skew < -AHEAD:
            return phrase("{time} ahead of ours", time=span(-self.skew))
        if self.skew > BEHIND:
            return phrase("{time} behind ours, or it delivers late", time=span(self.skew))
        return phrase("goes right")

    @property
    def silent_at(self) -> datetime | None:
        return self.rhythm.silent_at if self.rhythm else None


def vitals_of(source: Source) -> Vitals:
    rhythm = getattr(source, "rhythm", None)
    kept = source.refusals.filter(admitted_at=None).values_list("reason")  # nobody admits a repeat
    counted = dict(kept.annotate(n=Count("pk")).order_by("-n", "reason"))
    states = Counter(newest(source).values_list("status", flat=True)[:STATUSES])
    return Vitals(
        rhythm=rhythm,
        next_expected=next_expected(source, rhythm),
        refused={reason: n for reason, n in counted.items() if reason not in REPEATS},
        repeats=sum(counted.get(reason, 0) for reason in REPEATS),
        stopped={status: states[status] for status in LOST if states[status]},
        skew=skew_of(source),
    )


def next_expected(source: Source, rhythm: Rhythm | None) -> datetime | None:
    """When it should ring next: its slot, or what its rhythm says; None when it is off or nobody knows."""
    if not source.enabled:
        return None
    if source.kind == "schedule":
        return source.next_fire_at
    return rhythm.next_expected(source.expect_every) if rhythm else None


def skew_of(source: Source) -> float | None:
    """By how much the sender's clock differs from ours, by the quickest of its newest events."""
    timed = [pair for pair in newest(source).values_list("received_at", "time")[:LOOKED] if pair[1] is not None]
    late = sorted((came - said).total_seconds() for came, said in timed[:TIMED])
    return round(late[int(len(late) * EARLY)], 1) if len(late) >= FEWEST else None


def newest(source: Source) -> Any:
    return Event.objects.filter(source_slug=source.slug).order_by("-pk")


def last_deliveries(source: Source) -> list[Delivery]:
    """What came to its door lately, the newest first, whatever became of it."""
    rows = newest(source).values_list("received_at", "status", "type", "pk")[:SHOWN]
    events = [Delivery(at, status, type, seq) for at, status, type, seq in rows]
    return sorted([*events, *turned_away(source)], key=lambda one: one.at, reverse=True)[:SHOWN]


def turned_away(source: Source) -> Iterable[Delivery]:
    rows = (
        Refusal.objects.filter(source=source).order_by("-pk").values_list("at", "reason", "event", "answered")[:SHOWN]
    )
    for at, reason, event, answered in rows:
        yield Delivery(at, "duplicate" if reason in REPEATS else "refused", reason.replace("_", " "), event, answered)
