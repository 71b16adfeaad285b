"""Deliveries that come at once share a commit, and each of them hears how it ended."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from triggers import group_commit, writers
from triggers.group_commit import GroupCommit
from triggers.routing import Table
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


def ring(book: Book, deliveries: int, events: int) -> list[Any]:
    """What each of so many deliveries hears that come at once."""

    async def run() -> list[Any]:
        group, table = GroupCommit(book), Table(1, {}, (), 0.0)
        heard = (group.write([None] * events, table) for _ in range(deliveries))  # type: ignore[list-item]
        told = await asyncio.wait_for(asyncio.gather(*heard, return_exceptions=True), 10)
        await book.close()
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
