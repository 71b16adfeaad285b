"""The silence alarm: a source that rings no more is noticed, by what its admin expects or by its own rhythm.

Each source is looked at about once a minute, by its newest events only. Of every day the longest pause is kept, for two
weeks: what four of five days stayed within is its rhythm, so that nights and weekends are part of it, and one outage or
one burst changes nothing."""

import itertools
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import F, Q

from project.lib import clock
from project.lib.apart import each
from project.lib.live import changed
from triggers.ingest import store_internal
from triggers.models import Event, Rhythm, Source
from triggers.models.rhythm import SHORTEST, SILENT_AFTER

if TYPE_CHECKING:
    from project.people.models import User

SILENT, DISABLED = "nightdesk.source.silent", "nightdesk.source.disabled"
LOOK = timedelta(seconds=30)  # between two looks at one source
ROUND = 50  # sources a round
NEWEST = 100  # events of one look; more in so short a time are no pause
FIRST = 2000  # of a look at a source whose rhythm nobody knows
KEPT = timedelta(days=14)  # of pauses
FEWEST = 10  # pauses from which on a rhythm is believed
FEWEST_DAYS = 2  # a night is part of it
BURST = 1.0  # seconds: events closer together are one
USUAL_DAYS = 0.8  # share of the days that stayed within the rhythm

Came = tuple[int, datetime]  # an event's number, and when it came


def listen_for_silence() -> int:
    """Look at the sources whose turn it is; how many fell silent. Called by tick."""
    now = clock.now()
    due = (
        Source.objects.open()
        .exclude(kind="schedule")
        .filter(Q(rhythm__looked_at=None) | Q(rhythm__looked_at__lte=now - LOOK))
    )
    return each(look, due.select_related("rhythm").order_by(F("rhythm__looked_at").asc(nulls_first=True), "pk")[:ROUND])


def look(source: Source) -> bool:
    """Count in what came since the last look, and say so when it has been silent for too long."""
    rhythm = getattr(source, "rhythm", None) or Rhythm.objects.get_or_create(source=source)[0]
    before = {"newest": rhythm.newest, "looked_at": rhythm.looked_at, "since": rhythm.since}
    now = clock.now()
    learn(rhythm, newest_of(source, rhythm), now)
    rhythm.again_at = newest_repeat(source) or rhythm.again_at
    fell_silent = is_over(source, rhythm, now)
    with transaction.atomic():
        mine = Rhythm.objects.filter(pk=rhythm.pk, source__enabled=True, **before)
        told = rhythm.silent_at is not None
        facts = ("newest", "last_at", "again_at", "pauses", "usually", "every", "silent_at")
        rhythm.silent_at = (rhythm.silent_at or now) if fell_silent else None
        if not mine.update(looked_at=now, **{name: getattr(rhythm, name) for name in facts}):
            return False  # another round looked at the same moment, or it was switched off or on
        if fell_silent and not told:
            tell_silent(source, rhythm, now)
        if fell_silent != told:
            changed("sources", id=source.slug)
    return fell_silent and not told


def newest_of(source: Source, rhythm: Rhythm) -> list[Came]:
    """The events that came since the last look, the first one first; of very many only the newest. All of them as long
    as too few came to know a rhythm: one look at a source that rings once an hour sees one."""
    after, most = (0, FIRST) if rhythm.usually is None else (rhythm.newest, NEWEST)
    rows = Event.objects.filter(source_slug=source.slug, pk__gt=after).order_by("-pk")
    return list(rows.values_list("pk", "received_at")[:most])[::-1]


def newest_repeat(source: Source) -> datetime | None:
    """When a delivery that was known already last came: an alarm that rings for as long as all is well has one key."""
    again = source.refusals.repeats().order_by("-pk")
    return again.values_list("at", flat=True).first()


def learn(rhythm: Rhythm, came: Sequence[Came], now: datetime) -> None:
    """Work the distances between these events, and to the one before them, into what is known."""
    if not came:
        return
    moments = [at for _, at in came]
    if rhythm.usually is not None and rhythm.last_at is not None:
        moments.insert(0, rhythm.last_at)
    gaps = [(max((after - before).total_seconds(), 0.0), after) for before, after in itertools.pairwise(moments)]
    for gap, end in gaps:
        day = f"{end.astimezone(UTC):%Y-%m-%d}"
        rhythm.pauses[day] = max(rhythm.pauses.get(day, 0.0), gap)
    oldest = f"{now.astimezone(UTC) - KEPT:%Y-%m-%d}"
    rhythm.pauses = {day: gap for day, gap in rhythm.pauses.items() if day >= oldest}
    rhythm.newest, rhythm.last_at = came[-1][0], moments[-1]
    lengths = [gap for gap, _ in gaps]
    if len(gaps) >= FEWEST:
        rhythm.usually = typical(lengths)
    elif gaps and rhythm.usually is not None:
        rhythm.usually = rhythm.usually * 0.8 + typical(lengths) * 0.2
    known = rhythm.usually is not None and len(rhythm.pauses) >= FEWEST_DAYS
    rhythm.every = usual_pause(list(rhythm.pauses.values())) if known else None


def typical(gaps: Sequence[float]) -> float:
    """The distance in the middle; what comes in one burst counts as one, since a push of a hundred says nothing."""
    apart = [gap for gap in gaps if gap >= BURST]
    return statistics.median(apart or gaps)


def usual_pause(pauses: Sequence[float]) -> float:
    """The pause that four of five days stay within."""
    ranked = sorted(pauses)
    return max(ranked[min(int(len(ranked) * USUAL_DAYS), len(ranked) - 1)], SHORTEST)


def is_over(source: Source, rhythm: Rhythm, now: datetime) -> bool:
    """Whether it is silent three times as long as it should be."""
    every = rhythm.expects(source.expect_every)
    heard = rhythm.heard_at or (source.created_at if source.expect_every else None)
    return bool(every and heard and now - heard > SILENT_AFTER * timedelta(seconds=every))


def tell_silent(source: Source, rhythm: Rhythm, now: datetime) -> None:
    heard = rhythm.heard_at or source.created_at
    store_internal(
        source="/nightdesk",
        type=SILENT,
        subject=f"sources/{source.slug}",
        data={
            "source": source.slug,
            "expect_every": rhythm.expects(source.expect_every),
            "learnt": source.expect_every is None,
            "rhythm": rhythm.words,
            "last_at": rhythm.last_at.isoformat() if rhythm.last_at else None,
            "silent_for": round((now - heard).total_seconds()),
            "link": f"/sources/{source.slug}",
        },
        severity="warning",
    )


def switched(source: Source, *, by: "User | None", reason: str = "") -> None:
    """In the transaction that turned a source on or off: say that it is off; on again, its silence begins anew."""
    if source.enabled:
        Rhythm.objects.filter(source=source).update(since=clock.now(), silent_at=None)
        return
    Rhythm.objects.filter(source=source).update(silent_at=None)
    data = {
        "source": source.slug,
        "by": by.username if by else None,
        "reason": reason,
        "link": f"/sources/{source.slug}",
    }
    store_internal(source="/nightdesk", type=DISABLED, subject=f"sources/{source.slug}", data=data, severity="warning")
