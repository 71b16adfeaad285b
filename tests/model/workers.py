"""A worker whose every place between two commits is a stop: there it waits, dies, or comes back hours later.

One of all workers and the test moves at a time, so a story always goes the same way. Places are those of
project.lib.failpoints; inside a transaction a worker can die, but not stop, for it would hold the database.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from django.db import connection

from project.lib import failpoints

INSIDE = ("before_journal_commit", "before_suspend_commit", "before_outcome_commit")
PATIENCE = 60.0  # seconds for a worker to come to its next place; it takes some milliseconds


class Killed(BaseException):
    """As SIGKILL: nothing of this worker goes on, and nothing of it is undone but the open transaction."""


class Worker:
    """Does `deed` in a thread and connection of its own, from place to place."""

    of_thread = threading.local()
    of_story: "ClassVar[list[Worker]]" = []

    def __init__(self, deed: Callable[[], Any]) -> None:
        Worker.of_story.append(self)
        self.deed = deed
        self.place = ""
        self.over = False
        self.dies = self.dies_inside = False
        self.error: BaseException | None = None
        self.turn, self.rest = threading.Semaphore(0), threading.Semaphore(0)
        self.thread = threading.Thread(target=self.work, daemon=True)

    def go(self, places: int = 1) -> "Worker":
        """On to its next place, or to its end."""
        for _ in range(places):
            if self.over:
                break
            if self.thread.ident is None:
                self.thread.start()
            else:
                self.turn.release()
            assert self.rest.acquire(timeout=PATIENCE), f"the worker hangs after {self.place}"
        if self.error is not None:
            raise self.error
        return self

    def go_to(self, place: str) -> "Worker":
        """On to this place; raises when it ended before."""
        while self.go().place != place:
            assert not self.over, f"it never came to {place}"
        return self

    def finish(self) -> "Worker":
        while not self.over:
            self.go()
        return self

    def die(self, *, inside: bool = False) -> None:
        """Here, or `inside` its next transaction if there is one before its next place."""
        self.dies, self.dies_inside = not inside, inside
        if self.thread.ident is None:
            self.over = True
        self.go()

    def work(self) -> None:
        Worker.of_thread.me = self
        try:
            self.deed()
        except Killed:
            pass
        except BaseException as error:
            self.error = error  # no worker lets one out
        finally:
            connection.close()
            self.over = True
            self.rest.release()

    def reach(self, place: str) -> None:
        if place in INSIDE:
            if self.dies_inside:
                raise Killed
            return
        self.place = place
        self.rest.release()
        self.turn.acquire()
        if self.dies:
            raise Killed


def reached(place: str) -> None:
    me = getattr(Worker.of_thread, "me", None)
    if me is not None:
        me.reach(place)


@contextmanager
def stopping_at_places() -> Iterator[None]:
    """Workers stop at every place while the block lasts; none is left standing, whose heart would beat on."""
    before, failpoints.reached = failpoints.reached, reached
    try:
        yield
    finally:
        for worker in Worker.of_story:
            if not worker.over:
                worker.die()
        Worker.of_story.clear()
        failpoints.reached = before
