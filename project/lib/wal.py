"""The write-ahead log of SQLite on the disk, asked for by whoever has committed and not by SQLite itself.

With `synchronous=FULL` it waits for the disk inside the commit, and every other writer waits for it. With NORMAL the
commit is done and the next writer begins; then the one who committed has the log written and only after that tells
anybody. A log is read from its beginning, so whoever waits for his own commit waits for all before it: nothing that
was answered, sent or built upon can be lost. What others read meanwhile may be lost with the power, as if it had come
a moment later."""

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator

from project.lib.turnstile import descriptor

BESIDE = "PRAGMA synchronous=NORMAL"  # whoever commits asks for the disk himself
WITHIN = "PRAGMA synchronous=FULL"  # SQLite does
PATIENCE = 2.0  # seconds for readers to make room for the copy of a log in doubt
PAUSE = 0.02  # seconds between two tries of it
synchronize = getattr(os, "fdatasync", os.fsync)  # macOS has only the one
doubted: set[str] = set()  # databases for which this process could not even leave its mark


class Log:
    """That of one connection; `path` is the database's.

    It stays the same file while the connection is open: only the last one that closes removes it.

    A disk that did not take a part of it says so once. Asked again it says that all is well, to this process and to
    whoever begins later, though what follows the missing part cannot be read after a power cut. So the log is *in
    doubt* from then on, for every process, by a mark beside it; nobody works with the database until all of the log
    was copied into it, which asks the disk for pages of its own, and the log begins anew."""

    def __init__(self, path: str) -> None:
        self.database, self.path, self.mark = path, f"{path}-wal", f"{path}-doubt"
        self.number: int | None = None

    def flush(self) -> None:
        """Returns when the disk has all that was committed so far; raises OSError."""
        if self.number is None:
            self.number = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            synchronize(self.number)
        except OSError:
            self.doubt()
        self.trust()

    def close(self) -> None:
        if self.number is not None:
            os.close(self.number)
            self.number = None

    # When the disk refused a part of it

    def heed(self, error: BaseException) -> None:
        """SQLite asks the disk, too, and uses up what that says once."""
        if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR:
            self.doubt()

    def doubt(self) -> None:
        """The mark grows each time, so that a copy that was begun before does not count."""
        try:
            with self.marked() as number:
                os.ftruncate(number, os.fstat(number).st_size + 1)
        except OSError:
            doubted.add(self.database)

    def doubts(self) -> int:
        """How often it came to be in doubt since it was last copied."""
        try:
            return os.stat(self.mark).st_size + (self.database in doubted)
        except FileNotFoundError:
            return self.database in doubted

    def trust(self) -> None:
        """Returns when it is not in doubt, or no more; raises OSError."""
        until = time.monotonic() + PATIENCE
        while doubts := self.doubts():
            if self.copied():
                self.clear(doubts)
            elif time.monotonic() > until:
                raise OSError("the disk refused a part of the log, which somebody still reads: it cannot be copied")
            else:
                time.sleep(PAUSE)

    def copied(self) -> bool:
        """Whether all of it is in the database, by the disk's word, and the next to write begins a new one."""
        try:
            with contextlib.closing(sqlite3.connect(self.database, timeout=PAUSE, isolation_level=None)) as db:
                db.execute(WITHIN)
                [(is_busy, *_)] = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return False
            raise OSError(f"the disk refused a part of the log, and its copy: {error}") from error
        return not is_busy

    def clear(self, doubts: int) -> None:
        """Unless it came to be in doubt once more while it was copied."""
        with self.marked() as number:
            if self.doubts() == doubts:
                os.ftruncate(number, 0)
                doubted.discard(self.database)

    @contextlib.contextmanager
    def marked(self) -> Iterator[int]:
        """The mark's file, for one process at a time."""
        number = descriptor(self.mark, os.O_RDWR, like=self.database)
        try:
            fcntl.flock(number, fcntl.LOCK_EX)
            yield number
        finally:
            os.close(number)
