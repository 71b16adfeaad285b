"""Tries the connection of a source once, as its listener would, and says in words what was found or what is wrong."""

from collections.abc import Callable

from django.utils.module_loading import import_string

from triggers.errors import NotValid
from triggers.listeners.keeper import LISTENERS
from triggers.listeners.thread import FAULTS, UNFORESEEN, Listener, words_of
from triggers.models import Source

TRIED = {  # kind -> how; loaded with its libraries when somebody tries one of that kind
    "email": "triggers.listeners.mail.try_out",
    "database": "triggers.listeners.database.try_out",
    "kafka": "triggers.listeners.kafka.try_out",
    "redis_stream": "triggers.listeners.stream.try_out",
}


def try_out(source: Source) -> str:
    """What was found over there. Raises NotValid in words people can act upon."""
    if source.kind not in TRIED:
        raise NotValid(f"A source of kind `{source.kind}` connects to nothing.")
    attempt: Callable[[Source], str] = import_string(TRIED[source.kind])
    listener: type[Listener] = import_string(LISTENERS[source.kind])
    try:
        return attempt(source)
    except FAULTS + listener.faults + UNFORESEEN as fault:
        raise NotValid(f"It cannot be reached: {getattr(fault, 'detail', '') or words_of(fault)}") from fault
