"""The single tries of a step: when each was made, and what became of it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from triggers.failures import describe
from triggers.models import Step

KEPT = 20  # tries of a step that are told of, the newest
WORDS = 500  # characters of an error's message that are kept beside the last one's


class Tries:
    """What is made of a step in this worker, after those of the attempts before that failed."""

    def __init__(self, before: Step | None) -> None:
        self.earlier = made_before(before)
        self.failed = int(self.earlier[-1]["n"]) if self.earlier else 0  # in those attempts
        self.made: list[tuple[float, float, dict[str, str] | None]] = []  # from when to when, by the monotonic clock

    @property
    def count(self) -> int:
        """The number of the newest."""
        return self.failed + len(self.made)

    @contextmanager
    def one(self) -> Iterator[None]:
        """While the function is called once."""
        began = time.monotonic()
        try:
            yield
        except Exception as error:
            self.made.append((began, time.monotonic(), brief(describe(error))))
            raise
        self.made.append((began, time.monotonic(), None))

    def told(self, now: datetime, *, so_far: bool = False) -> list[dict[str, Any]] | None:
        """`{n, started_at, finished_at, error: {type, message} or None}` of each that ended by now, oldest first; None
        when there is but one, for then the step itself tells, unless it is told `so_far`."""
        if self.count < (1 if so_far else 2):
            return None
        clock = time.monotonic()
        here = [
            {
                "n": number,
                "started_at": (now - timedelta(seconds=clock - began)).isoformat(),
                "finished_at": (now - timedelta(seconds=clock - ended)).isoformat(),
                "error": error,
            }
            for number, (began, ended, error) in enumerate(self.made, self.failed + 1)
        ]
        return [*self.earlier, *here][-KEPT:]


def made_before(step: Step | None) -> list[dict[str, Any]]:
    """Those that failed in earlier attempts of the run, as the step tells them."""
    if step is None or step.tries or not step.error:
        return list(step.tries or []) if step is not None else []
    ended = (step.finished_at or step.started_at).isoformat()
    return [
        {
            "n": step.attempt,
            "started_at": step.started_at.isoformat(),
            "finished_at": ended,
            "error": brief(step.error),
        }
    ]


def brief(error: dict[str, Any]) -> dict[str, str]:
    return {"type": error["type"], "message": error["message"][:WORDS]}
