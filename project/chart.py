"""The chart of the home page: the events of a span of time by what became of them, and where trouble began."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Min, OuterRef, Q, QuerySet, Subquery
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from project.lib import svg
from project.lib.language import phrase, words
from project.lib.visible import plain
from triggers.models import DeadLetter, Event, Run, Trigger
from triggers.views.beats import FAILED, UNDER_WAY
from triggers.views.ranges import Range

MARKS = 3  # incidents written over the chart
LETTERS = 500  # newest dead letters in which they are looked for
MINUTE = timedelta(minutes=1)  # the numbers of runs grow with the time, but for what is written at the same moment
NONE = 2**63 - 1  # above the number of any row
READ = 4  # lines a second that a person can follow
MOVED = {"fail": FAILED, "wait": UNDER_WAY}  # of events that woke something
LABEL = words("Events {per} {last}: {total} in all, {failed} failed")
COUNTED = {  # what became of the events of a slot
    "ok": words("{n} succeeded"),
    "other": words("{n} started nothing"),
    "wait": words("{n} under way or waiting"),
    "fail": words("{n} failed"),
}


@dataclass(slots=True)
class Cause:
    """Dead letters of one fingerprint: how many came up, and when the first one did."""

    fingerprint: str
    error: str
    at: datetime
    count: int = 0


def from_outside() -> QuerySet[Event]:
    return Event.objects.filter(source__isnull=False)


def columns(now: datetime, span: Range) -> list[svg.Bar]:
    """Events of the span, by what became of them; every event is counted once."""
    slots = span.slots(now)
    counts: list[Counter[str]] = [Counter() for _ in slots]
    events = from_outside().filter(received_at__gte=slots[0]).annotate(text=span.text("received_at"))
    for text, status, number in events.values_list("text", "status").annotate(n=Count("id")).order_by():
        name = {"routed": "ok", "accepted": "wait", "invalid": "fail"}.get(status, "other")
        counts[span.slot_of(text, slots[0])][name] += number
    runs = Run.objects.filter(event__received_at__gte=slots[0], event__source__isnull=False)
    late = runs.filter(pk__gte=first_since(slots[0] - MINUTE))
    some = late.filter(status__in=(*FAILED, *UNDER_WAY)).annotate(text=span.text("event__received_at"))
    told = {name: Count("event_id", distinct=True, filter=Q(status__in=of)) for name, of in MOVED.items()}
    rows: Any = some.values("text").annotate(**told).order_by()
    for row in rows:
        counted = counts[span.slot_of(row["text"], slots[0])]
        for name in MOVED:
            moved = min(row[name], counted["ok"])
            counted["ok"] -= moved
            counted[name] += moved
    return [column(span, at, number, counts[number]) for number, at in enumerate(slots)]


def first_since(at: datetime) -> int:
    """The least number of the runs that were queued since then: a desk may have a crowd of older ones that wait."""
    queued = Run.objects.filter(queued_at__gte=at).order_by("queued_at").values("pk")
    own = Trigger.objects.annotate(first=Subquery(queued.filter(trigger=OuterRef("pk"))[:1])).aggregate(Min("first"))
    without = queued.filter(trigger=None).first()
    return min((pk for pk in (own["first__min"], without and without["pk"]) if pk), default=NONE)


def column(span: Range, at: datetime, number: int, counted: Counter[str]) -> svg.Bar:
    parts = {name: counted[name] for name in ("ok", "other", "wait", "fail")}
    said = ", ".join(phrase(COUNTED[name], n=found) for name, found in parts.items() if found)
    return span.bar(at, number, parts, said, reverse("events"))


def rate_words(bars: Sequence[svg.Bar]) -> str:
    """How fast events come, when that is faster than people read; by the last full minute."""
    rate = bars[-2].total // 60 if len(bars) > 1 else 0
    return phrase("{n} a second, the newest of them", n=rate) if rate > READ else ""


def drawn(now: datetime, span: Range, bars: Sequence[svg.Bar]) -> dict[str, Any]:
    """The picture, and the bars its table lists, newest first."""
    picture: SafeString = svg.columns(bars, span.label(LABEL, bars), incidents(now, span))
    return {"chart": picture, "bars": [bar for bar in reversed(bars) if bar.total]}


def incidents(now: datetime, span: Range) -> list[svg.Mark]:
    """Where the causes of dead letters began that came up in this span, the biggest ones, as places on the chart."""
    since = span.slots(now)[0]
    newest = DeadLetter.objects.order_by("-pk").values_list("fingerprint", "error_type", "first_at")[:LETTERS]
    causes: dict[str, Cause] = {}
    for fingerprint, error, at in newest:  # few are read, whatever the hour brought: Home is looked at all night
        if at >= since:
            cause = causes.setdefault(fingerprint, Cause(fingerprint, error, at))
            cause.count, cause.at = cause.count + 1, min(cause.at, at)
    told = sorted(causes.values(), key=lambda cause: (-cause.count, cause.at))[:MARKS]
    return [
        svg.Mark(
            at=span.place(cause.at, since),
            words=f"{timezone.localtime(cause.at):{span.clock}} {cause.count} × {plain(cause.error)}",
            url=reverse("dead-letter-group", args=[cause.fingerprint]),
        )
        for cause in sorted(told, key=lambda cause: cause.at)
    ]
