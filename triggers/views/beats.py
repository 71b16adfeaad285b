"""The heartbeat of a trigger: a row of small slots, so that silence and failures are seen without reading."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.db.models import Count
from django.urls import reverse
from django.utils.safestring import SafeString

from project.lib import svg
from project.lib.by_time import minute
from project.lib.language import phrase, words
from triggers.models import Run, Trigger
from triggers.views.ranges import Range

SLOTS, SLOT = 24, timedelta(minutes=5)
FAILED = ("dead", "blocked")
UNDER_WAY = ("queued", "running", "waiting", "retrying")
WORSE = ("none", "ok", "wait", "fail")
LABEL = words("Runs {per} {last}: {total} in all, {failed} failed")
COUNTED = {"ok": words("{n} ended"), "wait": words("{n} under way or waiting"), "fail": words("{n} failed")}


def heartbeats(now: datetime, trigger_ids: Sequence[int]) -> dict[int, SafeString]:
    """For each trigger, its runs in the last 24 times five minutes."""
    since = now - SLOTS * SLOT
    slots = {each: ["none"] * SLOTS for each in trigger_ids}
    runs = Run.objects.filter(trigger_id__in=trigger_ids, queued_at__gte=since).annotate(minute=minute("queued_at"))
    rows = runs.values_list("trigger_id", "minute", "status").annotate(n=Count("id")).order_by()
    for trigger, text, status, _ in rows:
        at = datetime.fromisoformat(text).replace(tzinfo=UTC)
        slot = min(SLOTS - 1, max(0, int((at - since) / SLOT)))
        tone = tone_of(status)
        slots[trigger][slot] = max(tone, slots[trigger][slot], key=WORSE.index)
    return {each: svg.beat(tones, beat_words(tones)) for each, tones in slots.items()}


def tone_of(status: str) -> str:
    return "fail" if status in FAILED else "wait" if status in UNDER_WAY else "ok"


def chart_of_runs(
    now: datetime, trigger: Trigger, span: Range, runs: Sequence[tuple[datetime, str]]
) -> SafeString | str:
    """Those of its newest runs (when queued, status) that lie in this span; nothing when there is none."""
    slots = span.slots(now)
    counts: list[Counter[str]] = [Counter() for _ in slots]
    for at, status in runs:
        if at >= slots[0]:
            counts[span.place(at, slots[0])][tone_of(status)] += 1
    query = f"trigger={trigger.slug}&"
    bars = [run_bar(span, at, number, counts[number], query) for number, at in enumerate(slots)]
    return svg.columns(bars, span.label(LABEL, bars)) if any(bar.total for bar in bars) else ""


def run_bar(span: Range, at: datetime, number: int, counted: Counter[str], query: str) -> svg.Bar:
    parts = {name: counted[name] for name in COUNTED}
    said = ", ".join(phrase(COUNTED[name], n=found) for name, found in parts.items() if found)
    return span.bar(at, number, parts, said, reverse("runs"), query)


def beat_words(tones: list[str]) -> str:
    busy, failed = SLOTS - tones.count("none"), tones.count("fail")
    return phrase("Runs in {busy} of the last 24 slots of 5 minutes, failures in {failed}", busy=busy, failed=failed)
