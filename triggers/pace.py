"""What was kept although its source sent too fast is matched at that source's rate; the rest as soon as it can be.

How far a source has come stands in its row (`paced_at`), moved by compare-and-set: however many processes look, in
however many lives, together they match no more than its rate."""

from datetime import datetime, timedelta

from project.lib import clock
from triggers.models import Event, Source


def to_match(limit: int) -> list[int]:
    """Numbers of stored events whose turn it is to be matched; at most `limit` of those nobody holds back."""
    slow = [source for source in Source.objects.filter(on_overload="accept") if source.rate_limit]
    waiting = Event.objects.unmatched().order_by("pk")
    free = waiting.exclude(source__in=slow) if slow else waiting
    found = list(free.values_list("pk", flat=True)[:limit])
    for source in slow:
        found += in_turn(source, list(waiting.filter(source=source).values_list("pk", "received_at")[:limit]))
    return found


def in_turn(source: Source, waiting: list[tuple[int, datetime]]) -> list[int]:
    """The first of them, as many as its rate lets through since the last one; none where somebody was quicker.

    The door has let through what was free when the oldest of them came, so nothing is saved up from before."""
    if not waiting:
        return []
    rule, now = source.rate_limit or {}, clock.now()
    each = timedelta(seconds=float(rule.get("period", 60)) / float(rule["limit"]))
    last = source.paced_at if source.paced_at and source.paced_at <= now else None  # later: the clock was set back
    pause = each * float(rule["limit"]) if last else each  # for which turns are saved up, at most
    since = max(last or waiting[0][1], waiting[0][1], now - pause)
    count = min(len(waiting), (now - since) // each)
    if count < 1:
        return []
    held = Source.objects.filter(pk=source.pk, paced_at=source.paced_at)
    return [pk for pk, _ in waiting[:count]] if held.update(paced_at=since + count * each) else []
