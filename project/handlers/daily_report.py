"""`daily-report`: what the desk did in the last day, told to our own people."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, QuerySet

from approvals.act import NoConnection, act
from approvals.models import Action
from triggers.durable import Durable
from triggers.models import DeadLetter, Event, Run
from triggers.registry import handler

DAY = timedelta(days=1)


@handler("daily-report", version="1")
def daily_report(run: Durable) -> dict[str, Any]:
    """Count the last day's events, runs and actions, and say it to our own people."""
    counts: dict[str, Any] = run.step("count the last day", count, run.now().isoformat())
    try:
        act(run, "tell our people", kind="notify.send", title="Nightdesk: the last day", text=in_words(counts))
    except NoConnection as missing:
        run.log(f"nobody was told: {missing}")
    return counts


def count(now: str) -> dict[str, Any]:
    """Rows of the 24 hours before `now`, by status; what is open now beside them."""
    since = datetime.fromisoformat(now) - DAY
    return {
        "events": by_status(Event.objects.filter(received_at__gte=since)),
        "runs": by_status(Run.objects.filter(queued_at__gte=since)),
        "actions": by_status(Action.objects.filter(created_at__gte=since)),
        "waiting_for_people": Action.objects.waiting_for_people().count(),
        "dead_letters_open": DeadLetter.objects.open().count(),
    }


def by_status(rows: QuerySet[Any]) -> dict[str, int]:
    return {row["status"]: row["n"] for row in rows.order_by().values("status").annotate(n=Count("pk"))}


def in_words(counts: dict[str, Any]) -> str:
    lines = [
        f"{name.capitalize()}: {sum(counts[name].values())}{details(counts[name])}"
        for name in ("events", "runs", "actions")
    ]
    lines.append(f"Waiting for a person: {counts['waiting_for_people']}")
    lines.append(f"Open dead letters: {counts['dead_letters_open']}")
    return "\n".join([*lines, settings.BASE_URL])


def details(numbers: dict[str, int]) -> str:
    listed = ", ".join(f"{number} {status}" for status, number in sorted(numbers.items()))
    return f" ({listed})" if listed else ""
