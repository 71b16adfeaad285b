"""`notify`: tell our own people that something happened; the seeded alarms call it."""

from typing import Any

from django.conf import settings

from approvals.act import NoConnection, act
from project.lib.text import span
from triggers.durable import Durable
from triggers.models import Event
from triggers.registry import handler

WHY = {
    "no_channel": "Nobody who may decide has a channel: Settings, Notifications.",
    "nobody_may_decide": "Nobody who may decide is there.",
    "too_few_may_decide": "Fewer people than it needs may decide it.",
    "not_taken": "No message was taken by the far side.",
    "outside_hours": "It is outside the hours of everybody who may decide.",
}


@handler("notify", version="1")
def notify(run: Durable) -> dict[str, Any]:
    """Tell our own people what rang, with a link to it, through the connection of the system notify."""
    title, text = in_words(run.event)
    try:
        told = act(run, "tell our people", kind="notify.send", title=title, text=text, severity=run.event.severity)
    except NoConnection as missing:
        run.log(f"nobody was told: {missing}")
        return {"told": 0}
    return {"told": told.get("told", 0)}


def in_words(event: Event) -> tuple[str, str]:
    """A title and a text; of a payload only what the desk itself wrote is repeated."""
    facts = event.data if event.source_slug.startswith("/") and isinstance(event.data, dict) else {}
    if facts and event.type == "nightdesk.dead_letter.opened":
        error = facts.get("error") or {}
        title = f"Dead letter: {facts.get('handler') or facts.get('kind')}: {error.get('type', 'error')}"
        lines = [
            error.get("message", ""),
            f"{facts.get('since', 1)} since the last alarm",
            f"{facts.get('open', 1)} open",
        ]
    elif facts and event.type == "nightdesk.approval.unreached":
        title = f"Nobody could be asked: A-{facts.get('action')} {facts.get('kind')}"
        lines = [WHY.get(str(facts.get("why")), ""), f"risk: {facts.get('tier')}"]
    elif facts and event.type == "nightdesk.source.silent":
        title = f"Silent: {facts.get('source')} has sent nothing for {span(facts.get('silent_for') or 0)}"
        lines = [
            f"it rings {facts['rhythm']}" if facts.get("rhythm") else f"expected every {span(facts['expect_every'])}"
        ]
    elif facts and event.type == "nightdesk.source.disabled":
        title = f"Switched off: {facts.get('source')}"
        lines = [f"by {facts.get('by') or 'the desk itself'}", str(facts.get("reason") or "")]
    else:
        title, lines = f"Nightdesk: {event.type}", [event.subject, f"from {event.source_slug}"]
    link = f"{settings.BASE_URL}{facts.get('link') or f'/events/{event.pk}'}"
    return title[:200], "\n".join([*(line[:2000] for line in lines if line), link])
