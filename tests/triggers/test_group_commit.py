"""Deliveries that come at once share a commit, and each of them hears how it ended."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from triggers import group_commit
from triggers.group_commit import GroupCommit, Writer
from triggers.routing import Table
from triggers.store import Member


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
