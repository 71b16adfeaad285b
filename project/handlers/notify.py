"""`notify`: tell our own people that something happened; the seeded alarm for dead letters."""

from typing import Any

from django.conf import settings

from approvals.act import NoConnection, act
from triggers.durable import Durable
from triggers.registry import handler


@handler("notify", version="1")
def notify(run: Durable) -> dict[str, Any]:
    """Say the event that rang, with its link, on the `notify` connection."""
    title, text = in_words(run.event.type, run.event.subject, run.event.data)
    try:
        told = act(run, "tell our people", kind="notify.send", title=title, text=text, severity=run.event.severity)
    except NoConnection as missing:
        run.log(f"nobody was told: {missing}")
        return {"told": 0}
    return {"told": told.get("told", 0)}


def in_words(type: str, subject: str, data: Any) -> tuple[str, str]:
    """A title and a text; of a payload only what the desk itself wrote is repeated."""
    facts = data if isinstance(data, dict) else {}
    if type == "nightdesk.dead_letter.opened":
        error = facts.get("error") or {}
        title = f"Dead letter: {facts.get('handler') or facts.get('kind')}: {error.get('type', 'error')}"
        lines = [error.get("message", ""), f"{facts.get('open', 1)} open with this cause"]
    else:
        title, lines = f"Nightdesk: {type}", [subject]
    link = f"{settings.BASE_URL}{facts['link']}" if facts.get("link") else settings.BASE_URL
    return title[:200], "\n".join([*(line[:2000] for line in lines if line), link])
