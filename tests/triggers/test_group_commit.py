"""Deliveries that come at once share a commit, and each of them hears how it ended."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError

from project.lib import unwritten
from triggers import group_commit, writers
from triggers.envelope import Arrival
from triggers.errors import QueueFull
from triggers.group_commit import GroupCommit
from triggers.routing import Route, Table
from triggers.store import Member
from triggers.writers import SqliteWriter, Writer


class Book(Writer):
    """A writer that notes how many events each commit held, and breaks when it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.commits: list[int] = []
        self.error = error

    def commit(self, members: Sequence[Member], version: int) -> None:
        self.commits.append(len(members))
        if self.error:
            raise self.error

    def disconnect(self) -> None: ...


def member(seq: int) -> Member:
    return Member(Arrival(None, "", "", "", ""), Route([], [], "stored"), seq=seq)


def ring(book: Book, deliveries: int, events: int) -> list[Any]:
    """What each of so many deliveries hears that come at once."""

    async def run() -> list[Any]:
        group, table = GroupCommit(book), Table(1, {}, (), 0.0)
        heard = (group.write([member(1)] * events, table) for _ in range(deliveries))
        told = await asyncio.wait_for(asyncio.gather(*heard, return_exceptions=True), 10)
        await book.close()
        return told

    return asyncio.run(run())


def told_of(writer: Writer, *numbers: int) -> list[Any]:
    """What each of several deliveries hears that come at once, of one event each."""

    async def run() -> list[Any]:
        group, table = GroupCommit(writer), Table(1, {}, (), 0.0)
        told = await asyncio.gather(*(group.write([member(seq)], table) for seq in numbers), return_exceptions=True)
        await group.close()
        return told

    return asyncio.run(run())


def test_one_commit_holds_whole_deliveries_and_only_so_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "MOST_EVENTS", 5)
    book = Book()
    assert ring(book, deliveries=5, events=3) == [None] * 5
    assert book.commits == [6, 6, 3]


def test_nobody_is_left_waiting_when_a_commit_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "MOST", 2)
    error = RuntimeError("the code is broken")
    assert ring(Book(error), deliveries=5, events=1) == [error] * 5


class Choosy(Book):
    """A writer for whom one delivery breaks our own code."""

    def commit(self, members: Sequence[Member], version: int) -> None:
        super().commit(members, version)
        if any(member.seq == 13 for member in members):
            raise OverflowError("a number without a place")


def test_what_breaks_our_own_code_is_the_answer_to_nobody_else() -> None:
    first, broken, last = told_of(Choosy(), 12, 13, 14)
    assert (first, last) == (None, None)
    assert isinstance(broken, OverflowError)


@pytest.mark.parametrize("broken", [DatabaseError("one of them"), RuntimeError("all together")], ids=str)
def test_what_was_written_when_its_neighbour_broke_is_not_written_again(broken: Exception) -> None:
    class Both(Choosy):
        def commit(self, members: Sequence[Member], version: int) -> None:
            if len(members) > 1:
                raise broken
            super().commit(members, version)
            written.extend(member.seq for member in members)

    written: list[int] = []
    told = told_of(Both(), 12, 13, 14)
    assert ([type(one) for one in told], written) == ([type(None), OverflowError, type(None)], [12, 14])


class PastALimit(Exception):
    sqlstate = "54000"


def test_what_passes_a_limit_of_the_database_says_nothing_of_its_neighbours() -> None:
    """PostgreSQL tells it as it tells that it is away: by an OperationalError."""

    class Bounded(Book):
        def commit(self, members: Sequence[Member], version: int) -> None:
            if any(member.seq == 13 for member in members):
                raise OperationalError("index row size 3088 exceeds maximum 2704") from PastALimit()

    unwritten.Last.at = float("-inf")
    first, past, last = told_of(Bounded(), 12, 13, 14)
    assert (first, type(past), last) == (None, QueueFull, None)
    assert unwritten.lately() == ""


def test_who_still_waits_when_the_door_is_closed_is_sent_away_and_written_by_nobody() -> None:
    class Slow(Book):
        def commit(self, members: Sequence[Member], version: int) -> None:
            begun.set()
            go_on.wait(10)
            super().commit(members, version)

    begun, go_on = threading.Event(), threading.Event()

    async def run() -> list[Any]:
        group, table = GroupCommit(book), Table(1, {}, (), 0.0)
        under_way = asyncio.ensure_future(group.write([member(1)], table))
        await asyncio.to_thread(begun.wait, 10)
        waiting = asyncio.ensure_future(group.write([member(2)], table))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(group.close())
        await asyncio.sleep(0)
        go_on.set()
        told = await asyncio.gather(
            under_way, waiting, closing, group.write([member(3)], table), return_exceptions=True
        )
        await asyncio.sleep(0.05)
        return told

    book = Slow()
    written, waited, closed, late = asyncio.run(run())
    assert (written, closed) == (None, None)
    assert isinstance(waited, QueueFull)
    assert isinstance(late, QueueFull)
    assert book.commits == [1]


def test_where_no_thread_can_be_started_the_senders_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Book()

    def submit(*given: Any) -> None:
        raise RuntimeError("can't start new thread")

    async def run() -> list[Any]:
        group, table = GroupCommit(book), Table(1, {}, (), 0.0)
        monkeypatch.setattr(book.thread, "submit", submit)
        told = [await asyncio.gather(group.write([member(1)], table), return_exceptions=True)]
        monkeypatch.undo()
        told.append(await asyncio.gather(group.write([member(1)], table), return_exceptions=True))
        await group.close()
        return told

    [full], [written] = asyncio.run(run())
    assert isinstance(full, QueueFull)
    assert written is None


def test_the_log_is_used_again_while_commits_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "COPY_AFTER", 4)
    writer = SqliteWriter(str(tmp_path / "desk.sqlite3"))
    db, log = writer.connected(), tmp_path / "desk.sqlite3-wal"
    db.execute("CREATE TABLE things (body BLOB)")
    sizes = []
    for _ in range(200):
        db.execute("INSERT INTO things VALUES (?)", [b"x" * 10_000])
        writer.tend()
        if writer.copying:
            writer.copying.result()
        sizes.append(log.stat().st_size)
    assert max(sizes) < 200_000  # of the 2 MB that were written
    assert db.execute("SELECT count(*), sum(length(body)) FROM things").fetchone() == (200, 2_000_000)
    writer.disconnect()
