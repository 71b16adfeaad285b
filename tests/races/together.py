"""Two people, two workers, two ticks at the same moment: threads with connections of their own and a barrier."""

import os
import threading
from collections.abc import Callable
from typing import Any

from django.db import connection

OURS = ("approvals.", "project.", "triggers.")  # a refusal is an answer of a deed; any other error is a fault
PATIENCE = 50  # seconds for a lock, ten times what a desk gives it: a bound on liveness
RACES = int(os.environ.get("NIGHTDESK_RACES", "0"))  # of each kind; `make races` asks for two thousand


def rounds(few: int) -> int:
    """How often a race is run: `few` times in the suite."""
    return RACES or few


def together(*deeds: Callable[[], Any]) -> list[Any]:
    """Start every deed at once; returns, in order, what each returned or refused.

    What is no refusal of the desk's own is raised here: an error of the database, a slip in the test, a deed that has
    not ended."""
    barrier = threading.Barrier(len(deeds))
    results: list[Any] = [None] * len(deeds)

    def perform(place: int, deed: Callable[[], Any]) -> None:
        try:
            connection.ensure_connection()
            if connection.vendor == "postgresql":
                connection.cursor().execute(f"SET lock_timeout = '{PATIENCE}s'")  # a long line is no fault
            barrier.wait(timeout=20)
            results[place] = deed()
        except BaseException as error:
            results[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=perform, args=pair) for pair in enumerate(deeds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads), "a deed has not ended within a minute"
    for result in results:
        if isinstance(result, BaseException) and not type(result).__module__.startswith(OURS):
            raise result
    return results
