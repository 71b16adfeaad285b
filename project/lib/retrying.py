"""A whole transaction, done again while the database is away or asks for it; never a part of one."""

import functools
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from django.db import InterfaceError, OperationalError, connection

from project.lib import backoff

logger = logging.getLogger("nightdesk.database")
PATIENCE = 15.0  # seconds; less than the twenty after which a worker that cannot renew its lease ends itself
FIRST, LONGEST = 0.05, 2.0  # seconds between two tries, doubled each time
# Connection lost, serialization failure, deadlock, lock timeout, no resources, server going down or coming up
SQLSTATES = ("08", "40001", "40P01", "55P03", "53", "57P01", "57P02", "57P03")
SQLITE_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL)

P = ParamSpec("P")
T = TypeVar("T")


def retried(transaction: Callable[P, T]) -> Callable[P, T]:
    """Call `transaction` again, for at most PATIENCE, while what it raises passes by itself.

    Its whole body is one transaction, and it finds what an earlier try of it may have committed after all."""

    @functools.wraps(transaction)
    def until_done(*given: P.args, **named: P.kwargs) -> T:
        if connection.in_atomic_block:
            return transaction(*given, **named)  # whoever began it does all of it again
        for pause in pauses():
            try:
                return transaction(*given, **named)
            except (OperationalError, InterfaceError) as error:
                if not passes(error):
                    raise
                logger.warning("%s is done again: %s", transaction.__qualname__, str(error).strip())
            time.sleep(pause)
            connection.close_if_unusable_or_obsolete()
        return transaction(*given, **named)

    return until_done


def pauses() -> Iterator[float]:
    """Seconds between the tries, until patience is at its end."""
    until, pause = time.monotonic() + PATIENCE, FIRST
    while time.monotonic() + pause < until:
        yield backoff.around(pause).total_seconds()
        pause = min(LONGEST, pause * 2)


def passes(error: Exception) -> bool:
    """Is it the database's trouble of this moment, and not a fault of what was asked?"""
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in SQLITE_CODES
    state = getattr(cause, "sqlstate", None)
    return state is None or state.startswith(SQLSTATES)
