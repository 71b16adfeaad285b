"""The numbers of the home page, counted from the rows. Big desks are counted at most every few seconds."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Substr
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from approvals.models import Action
from project.lib import svg
from project.lib.language import phrase, spoken, words
from project.lib.visible import plain
from project.measures import PEOPLE, USUAL, Measures, percentile
from project.templatetags.desk import took
from triggers.models import DeadLetter, Event, Run
from triggers.views.beats import FAILED, UNDER_WAY, minute

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
MINUTES = 60
SAMPLE = 500  # newest runs a percentile is taken from
KEEP = timedelta(seconds=4)  # what was counted may be so old
MARKS = 3  # incidents written over the chart
LETTERS = 500  # newest dead letters in which they are looked for
READ = 4  # lines a second that a person can follow
YESTERDAY = 10_000  # events of the same hour of yesterday that are counted at most
MOVED = {"fail": FAILED, "wait": UNDER_WAY}  # of events that woke something
COUNTED = {  # what became of a minute's events
    "ok": words("{n} succeeded"),
    "other": words("{n} started nothing"),
    "wait": words("{n} under way or waiting"),
    "fail": words("{n} failed"),
}
MADE: dict[str, "Kept"] = {}


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with what it means: `tone` good, bad or nothing."""

    title: str
    value: str
    unit: str
    words: str
    tone: str = ""
    spark: SafeString | str = ""


@dataclass(slots=True)
class Cause:
    """Dead letters of one fingerprint: how many came up, and when the first one did."""

    fingerprint: str
    error: str
    at: datetime
    count: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """What was counted, until when it is good, and whether it was counted for an earlier page."""

    value: Any
    until: datetime
    is_old: bool = False


def kept(name: str, now: datetime, make: Callable[[], Any]) -> Kept:
    """`make()`, or what it gave a moment ago: a page of many rows is asked for again at every change."""
    if (one := MADE.get(name)) and one.until > now:
        return replace(one, is_old=True)
    MADE[name] = Kept(make(), now + KEEP)
    return MADE[name]


def forget() -> None:
    MADE.clear()


def from_outside() -> QuerySet[Event]:
    return Event.objects.filter(source__isnull=False)


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
    some = runs.filter(status__in=(*FAILED, *UNDER_WAY)).annotate(minute=minute("event__received_at"))
    told = {name: Count("event_id", distinct=True, filter=Q(status__in=of)) for name, of in MOVED.items()}
    rows: Any = some.values("minute").annotate(**told).order_by()
    for row in rows:
        for name in MOVED:
            moved = min(row[name], counts[row["minute"]]["ok"])
            counts[row["minute"]]["ok"] -= moved
            counts[row["minute"]][name] += moved
    return [bar(at, counts[key(at)], place) for place, at in enumerate(minutes(now))]


def bar(at: datetime, counted: Counter[str], place: int) -> svg.Bar:
    local = timezone.localtime(at)
    parts = {name: counted[name] for name in ("ok", "other", "wait", "fail")}
    words = ", ".join(phrase(COUNTED[name], n=number) for name, number in parts.items() if number)
    tick = f"{local:%H:%M}" if place % 15 == 0 or place == MINUTES - 1 else ""
    span = urlencode({"since": key(at).replace(" ", "T") + "Z", "until": key(at + MINUTE).replace(" ", "T") + "Z"})
    return svg.Bar(parts, f"{local:%H:%M}: {words or phrase('nothing')}", tick, f"{reverse('events')}?{span}")


def rate_words(bars: Sequence[svg.Bar]) -> str:
    """How fast events come, when that is faster than people read; by the last full minute."""
    rate = bars[-2].total // 60 if len(bars) > 1 else 0
    return phrase("{n} a second, the newest of them", n=rate) if rate > READ else ""


def chart(bars: Sequence[svg.Bar], marks: Sequence[svg.Mark]) -> SafeString:
    total, failed = sum(b.total for b in bars), sum(b.parts["fail"] for b in bars)
    return svg.columns(
        bars,
        phrase("Events per minute in the last hour: {total} in all, {failed} failed", total=total, failed=failed),
        marks,
    )


def incidents(now: datetime) -> list[svg.Mark]:
    """Where the causes of dead letters began that came up in this hour, the biggest ones, as places on the chart."""
    since = minutes(now)[0]
    newest = DeadLetter.objects.order_by("-pk").values_list("fingerprint", "error_type", "first_at")[:LETTERS]
    causes: dict[str, Cause] = {}
    for fingerprint, error, at in newest:  # few are read, whatever the hour brought: Home is looked at all night
        if at >= since:
            cause = causes.setdefault(fingerprint, Cause(fingerprint, error, at))
            cause.count, cause.at = cause.count + 1, min(cause.at, at)
    told = sorted(causes.values(), key=lambda cause: (-cause.count, cause.at))[:MARKS]
    return [
        svg.Mark(
            at=int((cause.at - since) / MINUTE),
            words=f"{timezone.localtime(cause.at):%H:%M} {cause.count} × {plain(cause.error)}",
            url=reverse("dead-letter-group", args=[cause.fingerprint]),
        )
        for cause in sorted(told, key=lambda cause: cause.at)
    ]


def figures(now: datetime, bars: Sequence[svg.Bar], total: Measures) -> list[Figure]:
    return [
        events(now, bars),
        succeeded(now, bars),
        time_to_result(now),
        by_itself(total, now),
        approval_wait(total, now),
    ]


def events(now: datetime, bars: Sequence[svg.Bar]) -> Figure:
    total = sum(each.total for each in bars)
    same_hour = from_outside().filter(received_at__gte=now - DAY - HOUR, received_at__lt=now - DAY)
    before = same_hour.order_by()[:YESTERDAY].count()
    line = svg.spark([each.total for each in bars], phrase("Events in each of the last 60 minutes"))
    return Figure("Events", f"{total:,}", "in the last hour", compared(total, before), "", line)


def compared(total: int, before: int) -> str:
    if not before or before == YESTERDAY:
        return (
            phrase("none at this hour yesterday")
            if not before
            else phrase("at least {n} at this hour yesterday", n=f"{YESTERDAY:,}")
        )
    change = round(100 * (total - before) / before)
    if not change:
        return phrase("as many as at this hour yesterday")
    return phrase(
        "{change}% {which} than at this hour yesterday",
        change=abs(change),
        which=spoken("more" if change > 0 else "fewer"),
    )


def succeeded(now: datetime, bars: Sequence[svg.Bar]) -> Figure:
    good, dead = Q(status="succeeded"), Q(status="dead")
    today, yesterday = Q(finished_at__gte=now - DAY), Q(finished_at__lt=now - DAY)
    ended = Run.objects.filter(finished_at__gte=now - 2 * DAY).aggregate(
        good=Count("pk", filter=good & today),
        dead=Count("pk", filter=dead & today),
        good_before=Count("pk", filter=good & yesterday),
        dead_before=Count("pk", filter=dead & yesterday),
    )
    if not ended["good"] + ended["dead"]:
        return Figure("Succeeded", "–", "", "no run ended in the last 24 h")
    share = per_cent(ended["good"], ended["dead"])
    words = (
        phrase("{dead} of {all} runs gave up", dead=ended["dead"], all=f"{ended['good'] + ended['dead']:,}")
        if ended["dead"]
        else phrase("none gave up in 24 h")
    )
    if ended["good_before"] + ended["dead_before"]:
        words += phrase(", {share}% yesterday", share=per_cent(ended["good_before"], ended["dead_before"]))
    line = svg.spark(
        [each.parts["ok"] for each in bars], phrase("Events that succeeded in each of the last 60 minutes")
    )
    return Figure("Succeeded", share, "%", words, "bad" if ended["dead"] else "good", line)


def per_cent(good: int, dead: int) -> str:
    return f"{100 * good / (good + dead):.1f}".removesuffix(".0")


def time_to_result(now: datetime) -> Figure:
    lengths, before = (results(now - back) for back in (timedelta(0), DAY))
    if not lengths:
        return Figure("Time to result, p95", "–", "", "no run succeeded in the last 24 h")
    p95 = percentile(lengths, 0.95)
    words, tone = phrase("median {median}, with waits", median=took(statistics.median(lengths))), ""
    if before:
        change = p95 - percentile(before, 0.95)
        words = phrase(
            "{time} {which} than the day before",
            time=took(abs(change)),
            which=spoken("slower" if change > 0 else "faster"),
        )
        tone = "good" if change < 0 else ""
    value, unit = length(p95)
    return Figure(
        "Time to result, p95", value, unit, words, tone, svg.spark(lengths[:60][::-1], phrase("The last runs"))
    )


def results(until: datetime) -> list[float]:
    """Seconds from being queued to the end, of the newest runs of the day that ends then."""
    ended = Run.objects.filter(finished_at__gte=until - DAY, finished_at__lt=until, status="succeeded")
    times = ended.order_by("-finished_at").values_list("queued_at", "finished_at")[:SAMPLE]
    return [(end - start).total_seconds() for start, end in times if end]


def by_itself(total: Measures, now: datetime) -> Figure:
    """Beside the share that articles report, so that people can tell what is usual."""
    usual = phrase("articles say {least}–{most} %", least=USUAL[0], most=USUAL[1])
    if total.share is None:
        return Figure(
            "Handled without a person", "–", "", phrase("no action was asked for in 24 h; {usual}", usual=usual)
        )
    asked, newest = total.asked - total.by_itself, phrase("the newest ") if total.is_cut else ""
    return Figure(
        "Handled without a person",
        f"{100 * total.share:.1f}".removesuffix(".0"),
        "%",
        phrase(
            "{asked} of {newest}{all} actions asked a person; {usual}",
            asked=f"{asked:,}",
            newest=newest,
            all=f"{total.asked:,}",
            usual=usual,
        ),
        spark=svg.spark(hourly_shares(now), phrase("By the hour, of the last 24")),
    )


def hourly_shares(now: datetime) -> list[float]:
    """Of each hour of the last day in which something was asked for, the share that asked nobody; oldest first."""
    asked = Action.objects.filter(created_at__gte=now - DAY).annotate(hour=Substr(minute("created_at"), 1, 13))
    alone = Count("pk", filter=~Q(tier__in=PEOPLE))
    rows = asked.values_list("hour").annotate(all=Count("pk"), alone=alone).order_by()
    return [alone / all_of_them for _, all_of_them, alone in sorted(rows)]


def approval_wait(total: Measures, now: datetime) -> Figure:
    words = (
        phrase("{expired} expired in 24 h", expired=total.expired) if total.expired else phrase("none expired in 24 h")
    )
    tone = "bad" if total.expired else ""
    if total.median is None:
        return Figure("Approval wait, median", "–", "", words, tone)
    value, unit = length(total.median)
    said = phrase("p95 {time}, {words}", time=took(total.p95), words=words)
    line = svg.spark(newest_waits(now), phrase("The last decisions"))
    return Figure("Approval wait, median", value, unit, said, tone, line)


def newest_waits(now: datetime) -> list[float]:
    """Seconds people took for what they decided last, oldest first."""
    decided = Action.objects.filter(decided_at__gte=now - DAY, tier__in=PEOPLE).order_by("-decided_at")
    times = decided.values_list("created_at", "decided_at")[:MINUTES]
    return [max(0.0, (end - begun).total_seconds()) for begun, end in times if end][::-1]


def length(seconds: float) -> tuple[str, str]:
    """A length as a large number and a small unit: `1.8`, `s`; `4:10`, `min`."""
    if 60 <= seconds < 3600:
        return f"{int(seconds // 60)}:{int(seconds % 60):02d}", words("min")
    value, _, unit = took(seconds).partition(" ")
    return value, unit
