"""Tries the connection of a source once, as its listener would, and says in words what was found or what is wrong."""

from collections.abc import Callable

from triggers.errors import NotValid
from triggers.listeners import database, kafka, mail, stream
from triggers.listeners.thread import FAULTS, UNFORESEEN, words_of
from triggers.models import Source

TRIED: dict[str, tuple[Callable[[Source], str], tuple[type[Exception], ...]]] = {  # kind -> how, and what it raises
    "email": (mail.try_out, mail.MailListener.faults),
    "database": (database.try_out, database.TableListener.faults),
    "kafka": (kafka.try_out, kafka.TopicListener.faults),
    "redis_stream": (stream.try_out, stream.StreamListener.faults),
}


def try_out(source: Source) -> str:
    """What was found over there. Raises NotValid in words people can act upon."""
    if source.kind not in TRIED:
        raise NotValid(f"A source of kind `{source.kind}` connects to nothing.")
    attempt, faults = TRIED[source.kind]
    try:
        return attempt(source)
    except FAULTS + faults + UNFORESEEN as fault:
        raise NotValid(f"It cannot be reached: {getattr(fault, 'detail', '') or words_of(fault)}") from fault
