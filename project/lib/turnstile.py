"""Who writes to SQLite next: without it, whoever has just written does, and others sleep for up to 100 ms at a time.

Only a courtesy among our own processes, by the lock of a file beside the database: SQLite's own lock keeps writers
apart, also from those that do not pass here. Who dies holds it no longer."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

PATIENCE = 5.0  # seconds after which one goes on without it: its holder may have been stopped
IN_VAIN = 0.01  # the same after a wait that was in vain, until a turn was had
FIRST, LONGEST = 0.0001, 0.0005  # seconds between two looks, doubled each time: a writer is done in less than that


class Turnstile:
    """One for each connection; `path` is the database's. Where there can be no file one goes on without a turn."""

    def __init__(self, path: str) -> None:
        self.file = opened(f"{path}-turn", like=path)
        self.patience = PATIENCE

    @contextmanager
    def held(self) -> Iterator[None]:
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        """Wait for this connection's turn, before its transaction begins."""
        until, pause = time.monotonic() + self.patience, FIRST
        while not (had := self.is_free()) and time.monotonic() < until:
            time.sleep(pause)
            pause = min(LONGEST, pause * 2)
        self.patience = PATIENCE if had else IN_VAIN

    def is_free(self) -> bool:
        if self.file is None:
            return True
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except (OSError, ValueError):  # a file system without locks; a file that was closed
            return True
        return True

    def leave(self) -> None:
        if self.file is not None:
            with suppress(OSError, ValueError):
                fcntl.flock(self.file, fcntl.LOCK_UN)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def opened(path: str, *, like: str) -> BinaryIO | None:
    """The file, made where there is none; None where there can be none."""
    try:
        return os.fdopen(descriptor(path, os.O_RDONLY, like=like), "rb", 0)
    except OSError:
        return None


def descriptor(path: str, how: int, *, like: str) -> int:
    """Of the file, made where there is none; it is whoever's the database is, also when root makes it, as SQLite's own.

    Raises OSError."""
    number = os.open(path, how | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with suppress(OSError):
        owner = os.stat(like)
        if owner.st_uid != os.fstat(number).st_uid:
            os.fchown(number, owner.st_uid, owner.st_gid)
    return number
