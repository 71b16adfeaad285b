"""Who writes to SQLite next: without it, whoever has just written does, and others sleep for up to 100 ms at a time.

Only a courtesy among our own processes, by the lock of a file beside the database: SQLite's own lock keeps writers
apart, also from those that do not pass here. Who dies holds it no longer."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 5.0  # seconds after which one goes on without it: its holder may have been stopped
FIRST, LONGEST = 0.0003, 0.002  # seconds between two looks, doubled each time: a writer is done in half a millisecond


class Turnstile:
    """One for each connection; `path` is the database's."""

    def __init__(self, path: str) -> None:
        self.file = os.open(f"{path}-turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def held(self) -> Iterator[None]:
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        """Wait for this connection's turn, before its transaction begins."""
        until, pause = time.monotonic() + PATIENCE, FIRST
        while not self.is_free() and time.monotonic() < until:
            time.sleep(pause)
            pause = min(LONGEST, pause * 2)

    def is_free(self) -> bool:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def leave(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self.file)
