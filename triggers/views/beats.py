"""The heartbeat of a trigger: a row of small slots, so that silence and failures are seen without reading."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.db.models import CharField, Count
from django.db.models.functions import Cast, Substr
from django.utils.safestring import SafeString

from project.lib import svg
from project.lib.language import phrase
from triggers.models import Run

SLOTS, SLOT = 24, timedelta(minutes=5)
FAILED = ("dead", "blocked")
UNDER_WAY = ("queued", "running", "waiting", "retrying")
WORSE = ("none", "ok", "wait", "fail")


def minute(field: str) -> Substr:
    """`2026-11-29 15:58`, by the database itself: SQLite's and PostgreSQL's texts of a time begin alike (UTC)."""
    return Substr(Cast(field, CharField()), 1, 16)


def heartbeats(now: datetime, trigger_ids: Sequence[int]) -> dict[int, SafeString]:
    """For each trigger, its runs in the last 24 times five minutes."""
    since = now - SLOTS * SLOT
    slots = {each: ["none"] * SLOTS for each in trigger_ids}
    runs = Run.objects.filter(trigger_id__in=trigger_ids, queued_at__gte=since).annotate(minute=minute("queued_at"))
    rows = runs.values_list("trigger_id", "minute", "status").annotate(n=Count("id")).order_by()
    for trigger, text, status, _ in rows:
        at = datetime.fromisoformat(text).replace(tzinfo=UTC)
        slot = min(SLOTS - 1, max(0, int((at - since) / SLOT)))
        tone = "fail" if status in FAILED else "wait" if status in UNDER_WAY else "ok"
        slots[trigger][slot] = max(tone, slots[trigger][slot], key=WORSE.index)
    return {each: svg.beat(tones, beat_words(tones)) for each, tones in slots.items()}


def beat_words(tones: list[str]) -> str:
    busy, failed = SLOTS - tones.count("none"), tones.count("fail")
    return phrase("Runs in {busy} of the last 24 slots of 5 minutes, failures in {failed}", busy=busy, failed=failed)
