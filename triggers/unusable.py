"""Sources whose row cannot be used: a key that was lost, a provider or a config that this code does not know."""

from collections.abc import Callable, Mapping
from typing import Any

from project.lib.crypto import Unreadable
from project.lib.language import phrase, words
from triggers.errors import NotValid
from triggers.models import Source
from triggers.sources.database import parse_table
from triggers.sources.details import scheme_of, warning_of
from triggers.sources.file import parse_watch
from triggers.sources.kafka import parse_topics
from triggers.sources.mail import parse_mailbox
from triggers.sources.schedule import parse_schedule
from triggers.sources.stream import parse_stream

PARSED: dict[str, Callable[[Mapping[str, Any]], object]] = {  # no network: how the config of each kind is read
    "file": parse_watch,
    "email": parse_mailbox,
    "redis_stream": parse_stream,
    "kafka": parse_topics,
    "database": parse_table,
    "schedule": parse_schedule,
}
LOST = words(
    "Its secret cannot be read: FIELD_KEY is not the one it was kept with. Bring that back, or give it a new one."
)


def wrong_with(source: Source) -> str:
    """Why it cannot be used as its row stands, in a sentence; empty where it can."""
    try:
        _ = source.secrets
    except Unreadable:
        return LOST
    try:
        if source.kind in Source.DOORS:
            scheme_of(source)
        else:
            PARSED[source.kind](source.config)
    except Unreadable as unknown:
        return unknown.detail
    except NotValid as refused:
        return phrase("What is saved of it makes no sense: {detail}", detail=refused.detail)
    return ""


def standing_warning(source: Source) -> str:
    """Why it cannot be used, or what its proof does not prove; empty where all is well."""
    return wrong_with(source) or warning_of(source)


def broken_sources() -> list[Source]:
    """Those that are on and cannot be used, by name."""
    return [source for source in Source.objects.open().order_by("slug") if wrong_with(source)]
