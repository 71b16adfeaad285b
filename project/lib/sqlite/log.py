"""SQLite's write-ahead log is copied into the database by the desk's round, beside the commits.

Left to itself SQLite has the commit that fills the log copy it, and whoever made that one waits for the disk as long as
for many others. `wal_autocheckpoint` (project/backends.py) is high enough that this is left to those without rounds."""

import os
import struct
import sys
from contextlib import nullcontext
from pathlib import Path
from threading import Lock

from django.db import DEFAULT_DB_ALIAS, connections

from project.lib.sqlite.base import DatabaseWrapper

WORTH_IT = 1000  # pages, 4 MB: fewer wait, so that an idle desk leaves the disk alone
ORDER = "<" if sys.byteorder == "little" else ">"
IN_LOG, COPIED = 16, 96  # where the index of the log counts its pages (sqlite.org/walformat.html, "WAL-Index Header")

opened: dict[str, int] = {}  # path of an index -> its descriptor
opening = Lock()


def copy() -> int:
    """Copy as much of the log as nobody still reads; how many pages waited for it. Not in a transaction, nor for few.

    What comes meanwhile is copied while nobody else may write: then the log is used from its beginning again."""
    db = connections[DEFAULT_DB_ALIAS]
    if not isinstance(db, DatabaseWrapper) or db.in_atomic_block:
        return 0
    if (waiting := uncopied(db.settings_dict["NAME"])) < WORTH_IT:
        return 0
    with db.cursor() as cursor:
        for turn in (nullcontext(), db.turn()):
            with turn:
                cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
                cursor.fetchall()
    return waiting


def uncopied(path: str | Path) -> int:
    """Pages in the log of this database that are not in the database yet."""
    try:
        head = os.pread(index_of(f"{path}-shm"), COPIED + 4, 0)
    except OSError:
        return 0
    if len(head) < COPIED + 4:
        return 0
    return max(0, number_at(head, IN_LOG) - number_at(head, COPIED))


def index_of(path: str) -> int:
    """A descriptor that stays open: closing any of a file drops all locks of this process on it, and SQLite's are on
    this one (sqlite.org/howtocorrupt.html, "POSIX advisory locks canceled"). An index that was removed has none."""
    with opening:
        if (number := opened.get(path)) is not None and not os.path.samestat(os.fstat(number), os.stat(path)):
            os.close(opened.pop(path))
        if path not in opened:
            opened[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return opened[path]


def number_at(head: bytes, place: int) -> int:
    number: int = struct.unpack_from(f"{ORDER}I", head, place)[0]
    return number
