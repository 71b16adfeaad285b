"""Listeners of streams, mailboxes, topics and tables for tests: turn by turn, without their threads."""

import time
from typing import Any

from tests import builders
from triggers.listeners.keeper import listener_of
from triggers.listeners.thread import Listener
from triggers.models import Event, Source, Watch


def listened(kind: str, slug: str, *, secret: str = "", **config: Any) -> Source:
    """An open source of a kind that is listened to."""
    secrets = (secret,) if secret else ()
    return builders.source(slug, kind=kind, provider="", secrets=secrets, config=config)


def listener(source: Source, **quick: Any) -> Listener:
    """Its listener as `listen` would start it, without its thread; `quick` sets what it waits for."""
    source.refresh_from_db()
    one = listener_of(source)
    for name, value in quick.items():
        setattr(one, name, value)
    return one


def turns(one: Listener, many: int = 1) -> None:
    for _ in range(many):
        one.safely_at(time.monotonic())


def events(slug: str) -> list[Event]:
    return list(Event.objects.filter(source_slug=slug).order_by("pk"))


def state(source: Source) -> tuple[str, str]:
    """How the page says the listening goes."""
    row = Watch.objects.get(source=source)
    return row.status, row.detail
