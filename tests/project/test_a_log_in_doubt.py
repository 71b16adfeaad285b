"""A disk says once that it did not take a part of SQLite's log. From then on nobody is answered by its later word."""

import os
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connections, transaction

from project.lib import wal
from project.lib.sqlite.base import DatabaseWrapper
from project.lib.turnstile import Turnstile
from project.lib.wal import Log
from triggers import store, writers
from triggers.writers import SqliteWriter, Unconfirmed

WORD = "INSERT INTO word VALUES ('hello')"


@pytest.fixture
def refuses(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Called, it lets the disk refuse what it is asked next; afterwards it says that all is well, as real ones do."""
    faults: list[OSError] = []

    def once(number: int) -> None:
        if faults:
            raise faults.pop()

    monkeypatch.setattr(wal, "synchronize", once)
    monkeypatch.setattr(wal, "PATIENCE", 0.05)
    return lambda: faults.append(OSError(5, "Input/output error"))


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Somebody reads an older state meanwhile: the log cannot be given up."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM word").fetchone()
        yield


def on_the_disk(path: str) -> int:
    """Words in the database's own file, which the disk took by pages of its own; the log is not looked at."""
    shutil.copy(path, f"{path}.alone")
    with closing(sqlite3.connect(f"{path}.alone")) as db:
        count: int = db.execute("SELECT count(*) FROM word").fetchone()[0]
    return count


def write(database: DatabaseWrapper) -> None:
    with transaction.atomic(database.alias):
        database.cursor().execute(WORD)


def test_what_the_disk_refused_is_copied_before_anybody_hears_of_it(database, path, refuses) -> None:
    write(database)
    heard = []
    refuses()
    with transaction.atomic("other"):
        database.cursor().execute(WORD)
        transaction.on_commit(lambda: heard.append(on_the_disk(path)), using="other")
    assert heard == [2]
    assert Log(path).doubts() == 0
    write(database)
    assert on_the_disk(path) == 2, "from here on its log is good again"


def test_nobody_is_answered_by_the_next_word_of_the_disk(database, path, refuses, another) -> None:
    with reading(path):
        refuses()
        with pytest.raises(OperationalError, match="refused a part of the log"):
            write(database)
        for one in (database, another):  # the disk says yes by now
            with pytest.raises(OperationalError, match="refused a part of the log"):
                write(one)
            with pytest.raises(OperationalError, match="refused a part of the log"):
                one.cursor().execute(WORD)
    write(another)
    assert on_the_disk(path) == 1, "what could not be answered is there before anything else begins"


@pytest.fixture
def another(database: DatabaseWrapper, path: str) -> Iterator[DatabaseWrapper]:
    """As one in another process, which the disk told nothing."""
    made = DatabaseWrapper(database.settings_dict, "another")
    connections["another"] = made
    yield made
    made.close()
    del connections["another"]


def test_the_door_answers_nothing_meanwhile(database, path, refuses, monkeypatch) -> None:
    monkeypatch.setattr(store, "write", lambda db, members, version: db.run(WORD))
    monkeypatch.setattr(writers, "read_back", lambda db, members: None)
    writer = SqliteWriter(path)
    with reading(path):
        refuses()
        with pytest.raises(Unconfirmed, match="refused a part of the log"):
            writer.commit([], 1)
        with pytest.raises(OperationalError, match="refused a part of the log"):
            writer.commit([], 1)
    writer.commit([], 1)
    writer.disconnect()
    assert on_the_disk(path) == 1
    assert database.cursor().execute("SELECT count(*) FROM word").fetchone() == (2,)


def test_one_that_is_refused_while_it_is_copied_is_in_doubt_still(path, database) -> None:
    log = Log(path)
    log.doubt()
    before = log.doubts()
    Log(path).doubt()
    log.clear(before)
    assert log.doubts() == 2


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_the_mark_is_whoever_s_the_database_is(path, database) -> None:
    """A command of root's must not keep the desk's own processes from clearing it."""
    os.chown(path, 65534, 65534)
    Log(path).doubt()
    assert os.stat(f"{path}-doubt").st_uid == 65534


def test_what_sqlite_hears_from_the_disk_counts_as_well(database, path, small_files) -> None:
    write(database)
    with small_files, pytest.raises(OperationalError, match="disk I/O error"):
        database.cursor().execute("INSERT INTO word VALUES (zeroblob(1000000))")
    assert Log(path).doubts() == 1
    write(database)
    assert (Log(path).doubts(), on_the_disk(path)) == (0, 1)


def test_what_the_door_hears_counts_as_well(database, path, small_files, monkeypatch) -> None:
    big = "INSERT INTO word VALUES (zeroblob(1000000))"
    monkeypatch.setattr(store, "write", lambda db, members, version: db.run(big))
    writer = SqliteWriter(path)
    with small_files, pytest.raises(Unconfirmed, match="disk I/O error"):
        writer.commit([], 1)
    writer.disconnect()
    assert Log(path).doubts() > 0


@pytest.fixture
def small_files() -> Any:
    """No file of this process grows over 100 kB while the block lasts: the disk's own refusal."""

    @contextmanager
    def held() -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return held()


def test_a_process_that_can_leave_no_mark_keeps_it_in_mind(database, path, refuses, monkeypatch) -> None:
    def no_room(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Log, "marked", no_room)
    with reading(path):
        refuses()
        for _ in range(2):
            with pytest.raises(OperationalError, match="refused a part of the log"):
                write(database)
    monkeypatch.undo()
    write(database)
    assert (Log(path).doubts(), on_the_disk(path)) == (0, 1)


@pytest.mark.parametrize("level", ["NORMAL", "FULL"])
def test_a_pragma_that_fails_does_so_in_djangos_words(database, path, level) -> None:
    """Whoever repeats a transaction that met a lock knows it by these only; and the turn is free."""

    def deny(action: int, name: str | None, value: str | None, *_: Any) -> int:
        is_it = action == sqlite3.SQLITE_PRAGMA and (name, value) == ("synchronous", level)
        return sqlite3.SQLITE_DENY if is_it else sqlite3.SQLITE_OK

    database.ensure_connection()
    database.connection.set_authorizer(deny)
    with pytest.raises(DatabaseError, match="not authorized"):
        write(database)
    turn = Turnstile(path)
    assert turn.is_free()
    turn.close()
