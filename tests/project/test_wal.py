"""What was committed to SQLite is on the disk before anybody hears of it, and no other writer waits for that."""

import sqlite3
from typing import Any

import pytest
from django.db import transaction

from project.lib import wal
from project.lib.sqlite.base import DatabaseWrapper
from project.lib.turnstile import Turnstile
from triggers import store, writers
from triggers.writers import SqliteWriter

FULL, NORMAL = 2, 1


@pytest.fixture
def flushed(path: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, int]]:
    """Each time the disk was asked: whether the turn was free by then, and how many words others could read."""
    seen = []

    def note(number: int) -> None:
        turn = Turnstile(path)
        words = sqlite3.connect(path).execute("SELECT count(*) FROM word").fetchone()[0]
        seen.append((turn.is_free(), words))
        turn.close()

    monkeypatch.setattr(wal, "synchronize", note)
    return seen


def level(database: DatabaseWrapper) -> Any:
    return database.connection.execute("PRAGMA synchronous").fetchone()[0]


def test_the_disk_is_asked_once_the_turn_was_given_back(
    database: DatabaseWrapper, flushed: list[tuple[bool, int]]
) -> None:
    for number in (1, 2):
        with transaction.atomic("other"):
            assert level(database) == NORMAL
            database.cursor().execute("INSERT INTO word VALUES ('hello')")
            assert len(flushed) == number - 1
        assert flushed[number - 1] == (True, number)
        assert level(database) == FULL


def test_a_statement_outside_of_transactions_waits_for_the_disk_itself(
    database: DatabaseWrapper, flushed: list[tuple[bool, int]]
) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic("other"):
        raise ZeroDivisionError
    assert (level(database), flushed) == (FULL, [])


def test_whoever_hears_of_a_commit_hears_of_it_after_the_disk_has_it(
    database: DatabaseWrapper, flushed: list[tuple[bool, int]]
) -> None:
    heard = []
    with transaction.atomic("other"):
        transaction.on_commit(lambda: heard.append(len(flushed)), using="other")
    assert heard == [1]


def test_a_connection_that_is_closed_leaves_no_descriptor(database: DatabaseWrapper, path: str) -> None:
    for _ in range(2):
        with transaction.atomic("other"):
            database.cursor().execute("INSERT INTO word VALUES ('hello')")
        log = database.log
        assert log is not None
        assert log.number is not None
        database.close()
        assert log.number is None


def test_the_door_asks_the_disk_once_the_turn_was_given_back(
    database: DatabaseWrapper, path: str, flushed: list[tuple[bool, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "write", lambda db, members, version: db.run("INSERT INTO word VALUES ('hello')"))
    monkeypatch.setattr(writers, "read_back", lambda db, members: None)
    writer = SqliteWriter(path)
    writer.commit([], 1)
    writer.disconnect()
    assert flushed == [(True, 1)]
