"""The numbers of the home page, counted from the rows. Big desks are counted at most every few seconds."""

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import CharField, Count, QuerySet
from django.db.models.functions import Cast, Substr
from django.utils import timezone
from django.utils.safestring import SafeString

from project.lib import svg
from project.measures import USUAL, Measures, percentile
from project.templatetags.desk import took
from triggers.models import Event, Run

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MINUTES = 60
SLOTS, SLOT = 24, timedelta(minutes=5)  # of a trigger's heartbeat
SAMPLE = 500  # newest runs a percentile is taken from
BUSY = 5000  # events an hour above which the figures may be a few seconds old
KEEP = 4.0  # seconds
FAILED = ("dead", "blocked")
UNDER_WAY = ("queued", "running", "waiting", "retrying")
MADE: dict[str, tuple[float, Any]] = {}


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with what it means: `tone` good, bad or nothing."""

    title: str
    value: str
    unit: str
    words: str
    tone: str = ""
    spark: SafeString | str = ""


def kept(name: str, make: Callable[[], Any], *, busy: bool) -> Any:
    """`make()`, or on a busy desk what it gave a moment ago."""
    at, value = MADE.get(name, (0.0, None))
    if busy and time.monotonic() - at < KEEP:
        return value
    value = make()
    MADE[name] = (time.monotonic(), value)
    return value


def from_outside() -> QuerySet[Event]:
    return Event.objects.filter(source__isnull=False)


def minute(field: str) -> Substr:
    """`2026-11-29 15:58`, by the database itself: SQLite's and PostgreSQL's texts of a time begin alike (UTC)."""
    return Substr(Cast(field, CharField()), 1, 16)


def minutes(now: datetime) -> list[datetime]:
    """The last sixty full or begun minutes, oldest first."""
    end = now.astimezone(UTC).replace(second=0, microsecond=0)
    return [end - timedelta(minutes=back) for back in range(MINUTES - 1, -1, -1)]


def key(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def per_minute(now: datetime) -> list[svg.Bar]:
    """Events of the last hour, by what became of them; every event is counted once."""
    since = minutes(now)[0]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    events = from_outside().filter(received_at__gte=since).annotate(minute=minute("received_at"))
    for at, status, number in events.values_list("minute", "status").annotate(n=Count("id")).order_by():
        name = {"routed": "ok", "accepted": "wait", "invalid": "fail"}.get(status, "other")
        counts[at][name] += number
    runs = Run.objects.filter(event__received_at__gte=since, event__source__isnull=False)
    for name, statuses in (("fail", FAILED), ("wait", UNDER_WAY)):
        some = runs.filter(status__in=statuses).annotate(minute=minute("event__received_at"))
        for at, number in some.values_list("minute").annotate(n=Count("event_id", distinct=True)).order_by():
            moved = min(number, counts[at]["ok"])
            counts[at]["ok"] -= moved
            counts[at][name] += moved
    return [bar(at, counts[key(at)], place) for place, at in enumerate(minutes(now))]


def bar(at: datetime, counted: Counter[str], place: int) -> svg.Bar:
    local = timezone.localtime(at)
    parts = {name: counted[name] for name in ("ok", "other", "wait", "fail")}
    names = {"ok": "succeeded", "other": "started nothing", "wait": "under way or waiting", "fail": "failed"}
    words = ", ".join(f"{number} {names[name]}" for name, number in parts.items() if number)
    tick = f"{local:%H:%M}" if place % 15 == 0 or place == MINUTES - 1 else ""
    return svg.Bar(parts, f"{local:%H:%M}: {words or 'nothing'}", tick)


def chart(bars: Sequence[svg.Bar]) -> SafeString:
    total, failed = sum(b.total for b in bars), sum(b.parts["fail"] for b in bars)
    return svg.columns(bars, f"Events per minute in the last hour: {total} in all, {failed} failed")


def figures(now: datetime, bars: Sequence[svg.Bar], total: Measures) -> list[Figure]:
    return [events(bars), succeeded(now, bars), time_to_result(now), alone(total), approval_wait(total)]


def events(bars: Sequence[svg.Bar]) -> Figure:
    total = sum(each.total for each in bars)
    return Figure(
        "Events",
        f"{total:,}",
        "in the last hour",
        f"{bars[-1].total + bars[-2].total} in the last two minutes",
        "",
        svg.spark([each.total for each in bars], "Events in each of the last 60 minutes"),
    )


def succeeded(now: datetime, bars: Sequence[svg.Bar]) -> Figure:
    ended = Run.objects.filter(finished_at__gte=now - DAY)
    good, dead = ended.filter(status="succeeded").count(), ended.filter(status="dead").count()
    if not good + dead:
        return Figure("Succeeded", "–", "", "no run ended in the last 24 h")
    words = (
        f"{dead} of {good + dead:,} runs gave up in 24 h"
        if dead
        else f"{good:,} run{'s' * (good > 1)} in 24 h, none gave up"
    )
    share = 100 * good / (good + dead)
    line = svg.spark([each.parts["ok"] for each in bars], "Events that succeeded in each of the last 60 minutes")
    return Figure("Succeeded", f"{share:.1f}".removesuffix(".0"), "%", words, "bad" if dead else "good", line)


def time_to_result(now: datetime) -> Figure:
    rows = Run.objects.filter(finished_at__gte=now - DAY, status="succeeded").order_by("-id")
    times = rows.values_list("queued_at", "finished_at")[:SAMPLE]
    lengths = [(end - start).total_seconds() for start, end in times if end]
    if not lengths:
        return Figure("Time to result, p95", "–", "", "no run succeeded in the last 24 h")
    value, unit = length(percentile(lengths, 0.95))
    words = f"median {took(statistics.median(lengths))}, with waits"
    return Figure("Time to result, p95", value, unit, words, "", svg.spark(lengths[:60][::-1], "The last runs"))


def alone(total: Measures) -> Figure:
    """Beside the share that articles report, so that people can tell what is usual."""
    usual = f"articles say {USUAL[0]}–{USUAL[1]} %"
    if total.share is None:
        return Figure("Handled without a person", "–", "", f"no action was asked for in 24 h; {usual}")
    asked = total.asked - total.alone
    return Figure(
        "Handled without a person",
        f"{100 * total.share:.1f}".removesuffix(".0"),
        "%",
        f"{asked:,} of {total.asked:,} actions asked a person; {usual}",
    )


def approval_wait(total: Measures) -> Figure:
    words = f"{total.expired} expired in 24 h" if total.expired else "none expired in 24 h"
    tone = "bad" if total.expired else ""
    if total.median is None:
        return Figure("Approval wait, median", "–", "", words, tone)
    value, unit = length(total.median)
    return Figure("Approval wait, median", value, unit, f"p95 {took(total.p95)}, {words}", tone)


def length(seconds: float) -> tuple[str, str]:
    """A length as a large number and a small unit: `1.8`, `s`; `4:10`, `min`."""
    if 60 <= seconds < 3600:
        return f"{int(seconds // 60)}:{int(seconds % 60):02d}", "min"
    value, _, unit = took(seconds).partition(" ")
    return value, unit


def heartbeats(now: datetime, trigger_ids: list[int]) -> dict[int, SafeString]:
    """For each trigger, its runs in the last 24 times five minutes."""
    since = now - SLOTS * SLOT
    slots = {each: ["none"] * SLOTS for each in trigger_ids}
    runs = Run.objects.filter(trigger_id__in=trigger_ids, queued_at__gte=since).annotate(minute=minute("queued_at"))
    rows = runs.values_list("trigger_id", "minute", "status").annotate(n=Count("id")).order_by()
    worse = ("none", "ok", "wait", "fail")
    for trigger, text, status, _ in rows:
        at = datetime.fromisoformat(text).replace(tzinfo=UTC)
        slot = min(SLOTS - 1, max(0, int((at - since) / SLOT)))
        tone = "fail" if status in FAILED else "wait" if status in UNDER_WAY else "ok"
        slots[trigger][slot] = max(tone, slots[trigger][slot], key=worse.index)
    return {each: svg.beat(tones, beat_words(tones)) for each, tones in slots.items()}


def beat_words(tones: list[str]) -> str:
    busy, failed = SLOTS - tones.count("none"), tones.count("fail")
    return f"Runs in {busy} of the last 24 slots of 5 minutes, failures in {failed}"
