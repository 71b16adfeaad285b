"""The numbers of the home page, counted from the rows. Big desks are counted at most every few seconds."""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import get_language

from approvals.models import Action
from approvals.tiers import WAITING
from project import hours
from project.chart import from_outside
from project.lib import svg
from project.lib.language import phrase, spoken, words
from project.measures import USUAL, Measures, percentile
from project.templatetags.desk import took
from triggers.models import Run

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
MINUTES = 60
SAMPLE = 500  # newest runs a percentile is taken from
KEEP = timedelta(seconds=4)  # what was counted may be so old
TIMES = 20  # as old as so many times what counting took: a desk counts no more than a twentieth of its time
YESTERDAY = 10_000  # events of the same hour of yesterday that are counted at most
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


@dataclass(frozen=True, slots=True)
class Kept:
    """What was counted, until when it is good, and whether it was counted for an earlier page."""

    value: Any
    until: datetime
    is_old: bool = False


def kept(name: str, now: datetime, make: Callable[[], Any], keep: timedelta | None = None) -> Kept:
    """`make()`, or what it gave a moment ago to one who reads the same language and the same clock: a page of many
    rows is asked for again at every change."""
    name = f"{name} in {get_language()}, {timezone.get_current_timezone_name()}"
    if (one := MADE.get(name)) and one.until > now:
        return replace(one, is_old=True)
    began = time.monotonic()
    value = make()
    took_long = timedelta(seconds=TIMES * (time.monotonic() - began))
    MADE[name] = Kept(value, now + max(keep or KEEP, took_long))
    return MADE[name]


def forget() -> None:
    MADE.clear()
    hours.KNOWN.clear()


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
    ended, before = ended_in(now - DAY, now), ended_in(now - 2 * DAY, now - DAY)
    if not ended.total():
        return Figure("Succeeded", "–", "", "no run ended in the last 24 h")
    share = per_cent(**ended)
    words = (
        phrase("{dead} of {all} runs gave up", dead=ended["dead"], all=f"{ended.total():,}")
        if ended["dead"]
        else phrase("none gave up in 24 h")
    )
    if before.total():
        words += phrase(", {share}% yesterday", share=per_cent(**before))
    line = svg.spark(
        [each.parts["ok"] for each in bars], phrase("Events that succeeded in each of the last 60 minutes")
    )
    return Figure("Succeeded", share, "%", words, "bad" if ended["dead"] else "good", line)


def ended_in(since: datetime, until: datetime) -> Counter[str]:
    """How many runs succeeded (`good`) and gave up (`dead`)."""
    told = {"good": Count("pk", filter=Q(status="succeeded")), "dead": Count("pk", filter=Q(status="dead"))}
    return sum(hours.counted("runs that ended", Run.objects.all(), "finished_at", told, since, until), Counter())


def per_cent(good: int = 0, dead: int = 0) -> str:
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
    ended = Run.objects.filter(finished_at__gte=until - DAY, finished_at__lt=until)
    ended = ended.exclude(status__in=["dead", "cancelled"])  # asked for `succeeded` SQLite would sort all of those
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
    told = {"all": Count("pk"), "alone": Count("pk", filter=~Q(tier__in=WAITING))}
    of_hours = hours.counted("actions asked for", Action.objects.all(), "created_at", told, now - DAY, now)
    return [counts["alone"] / counts["all"] for counts in of_hours if counts["all"]]


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
    decided = Action.objects.filter(decided_at__gte=now - DAY, tier__in=WAITING).order_by("-decided_at")
    times = decided.values_list("created_at", "decided_at")[:MINUTES]
    return [max(0.0, (end - begun).total_seconds()) for begun, end in times if end][::-1]


def length(seconds: float) -> tuple[str, str]:
    """A length as a large number and a small unit: `1.8`, `s`; `4:10`, `min`."""
    if 60 <= seconds < 3600:
        return f"{int(seconds // 60)}:{int(seconds % 60):02d}", words("min")
    value, _, unit = took(seconds).partition(" ")
    return value, unit
