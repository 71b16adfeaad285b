"""Concurrent deliveries of one process share one commit; each is answered after it was read back."""

import asyncio
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.db import DatabaseError, OperationalError, connection, transaction

from triggers import ingest, store
from triggers.dialect import Dialect, Postgres, marks
from triggers.errors import QueueFull
from triggers.ingest import ConfigChanged
from triggers.routing import Table
from triggers.store import Member

MOST = 128  # deliveries of one commit
MOST_EVENTS = 4000  # of one commit; a delivery may bring a thousand, and a statement takes only so many values
PATIENCE = 0.2  # seconds the loop itself may wait for SQLite's writer lock; after that a thread waits
LONGEST = 20.0  # seconds that thread waits
PRAGMAS = (
    *("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"),
    "wal_autocheckpoint=8000",  # pages, 32 MB: a page that many batches touch is copied back once
    "cache_size=-32768",  # KiB: the indexes a batch touches stay at hand
)
VERSION = "SELECT version FROM triggers_configversion WHERE id = 1"


class Writer(Protocol):
    """Writes members in one transaction and reads them back; raises ConfigChanged or DatabaseError."""

    async def write(self, members: Sequence[Member], version: int) -> None: ...
    async def version(self) -> int: ...
    async def close(self) -> None: ...


class Unconfirmed(Exception):
    """The commit went through, or may have, but could not be read back: nobody writes it a second time."""


class SqliteWriter:
    """An own connection that writes on the loop: a commit takes half a millisecond, a change of threads as long."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.quick = self.connect(PATIENCE)

    def connect(self, timeout: float) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=timeout, isolation_level=None, check_same_thread=False)
        for pragma in PRAGMAS:
            db.execute(f"PRAGMA {pragma}")
        return db

    async def write(self, members: Sequence[Member], version: int) -> None:
        try:
            self.commit(self.quick, members, version)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) and "busy" not in str(error):
                raise OperationalError(str(error)) from error
            for member in members:
                ingest.fresh_start(member)
            await asyncio.to_thread(self.wait_and_commit, members, version)
        except sqlite3.Error as error:
            raise DatabaseError(str(error)) from error

    def wait_and_commit(self, members: Sequence[Member], version: int) -> None:
        db = self.connect(LONGEST)
        try:
            self.commit(db, members, version)
        except sqlite3.OperationalError as error:
            raise OperationalError(str(error)) from error
        except sqlite3.Error as error:
            raise DatabaseError(str(error)) from error
        finally:
            db.close()

    def commit(self, db: sqlite3.Connection, members: Sequence[Member], version: int) -> None:
        cursor = db.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            write_members(Dialect(cursor, "?"), members, version)
            cursor.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                cursor.execute("ROLLBACK")
            raise
        try:
            read_back(Dialect(cursor, "?"), members)
        except sqlite3.Error as error:
            raise Unconfirmed(str(error)) from error

    async def version(self) -> int:
        try:
            row = self.quick.execute(VERSION).fetchone()
        except sqlite3.Error as error:
            raise OperationalError(str(error)) from error
        return int(row[0]) if row else 1

    async def close(self) -> None:
        self.quick.close()


class ThreadWriter:
    """PostgreSQL: one thread with Django's connection; while it commits, the next batch gathers."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="door")

    async def write(self, members: Sequence[Member], version: int) -> None:
        await asyncio.get_running_loop().run_in_executor(self.thread, self.commit, members, version)

    def commit(self, members: Sequence[Member], version: int) -> None:
        connection.close_if_unusable_or_obsolete()
        with transaction.atomic(), connection.cursor() as cursor:
            write_members(Postgres(cursor), members, version)
        try:
            with connection.cursor() as cursor:
                read_back(Postgres(cursor), members)
        except DatabaseError as error:
            raise Unconfirmed(str(error)) from error

    async def version(self) -> int:
        return await asyncio.get_running_loop().run_in_executor(self.thread, self.read_version)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self.thread, lambda: connection.close())
        self.thread.shutdown(wait=False)

    def read_version(self) -> int:
        connection.close_if_unusable_or_obsolete()
        with connection.cursor() as cursor:
            cursor.execute(VERSION)
            row = cursor.fetchone()
        return int(row[0]) if row else 1


def write_members(db: Dialect, members: Sequence[Member], version: int) -> None:
    found = db.rows(VERSION)
    if (found[0][0] if found else 1) != version:
        raise ConfigChanged
    now = db.now()
    store.write(db, members, now)
    store.count_duplicates(db, members)


def read_back(db: Dialect, members: Sequence[Member]) -> None:
    """Nothing is answered that is not there; in the same look, who waits for it."""
    ids = sorted({member.seq for member in members})
    if db.rows(f"SELECT count(*) FROM triggers_event WHERE id IN ({marks(len(ids))})", ids)[0][0] != len(ids):
        raise Unconfirmed("the events were not there after the commit")
    store.note_waits(db, members)


@dataclass(slots=True)
class Request:
    """The members of one delivery, written together or not at all."""

    members: list[Member]
    table: Table
    done: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class GroupCommit:
    """Gathers what arrives while the loop is busy, and commits it as one."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.waiting: list[Request] = []
        self.task: asyncio.Task[None] | None = None

    async def write(self, members: list[Member], table: Table) -> None:
        """Returns after the commit was read back. Raises ConfigChanged (match again) or QueueFull."""
        request = Request(members, table)
        self.waiting.append(request)
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self.drain())
        await request.done

    async def drain(self) -> None:
        await asyncio.sleep(0)  # whoever is ready in this turn of the loop comes along
        while self.waiting:
            await self.commit(self.next_batch())

    def next_batch(self) -> list[Request]:
        """Those who came first, whole deliveries."""
        count = events = 0
        while count < min(MOST, len(self.waiting)) and events < MOST_EVENTS:
            events += len(self.waiting[count].members)
            count += 1
        batch, self.waiting = self.waiting[:count], self.waiting[count:]
        return batch

    async def commit(self, batch: list[Request]) -> None:
        newest = max(request.table.version for request in batch)
        for request in batch:
            if request.table.version != newest:
                settle([request], ConfigChanged())
        batch = [request for request in batch if request.table.version == newest]
        try:
            await self.writer.write([member for request in batch for member in request.members], newest)
        except ConfigChanged as changed:
            settle(batch, changed)
        except Unconfirmed as error:
            settle(batch, full(error))
        except DatabaseError as error:
            await self.alone(batch, newest, error)
        except BaseException as error:
            settle([*batch, *self.waiting], error)  # nobody waits for a drain that has ended
            self.waiting = []
            raise
        else:
            settle(batch, None)

    async def alone(self, batch: list[Request], version: int, error: DatabaseError) -> None:
        """One member broke the batch: each delivery tries once by itself. The database is away: nobody waits twice."""
        for place, request in enumerate(batch):
            for member in request.members:
                ingest.fresh_start(member)
            try:
                if len(batch) == 1:
                    raise error
                await self.writer.write(request.members, version)
            except ConfigChanged as changed:
                settle([request], changed)
            except OperationalError as again:
                return settle(batch[place:], full(again))
            except (DatabaseError, Unconfirmed) as again:
                settle([request], full(again))
            else:
                settle([request], None)


def full(cause: Exception) -> QueueFull:
    answer = QueueFull("The database does not take events right now.")
    answer.__cause__ = cause
    return answer


def settle(batch: list[Request], error: BaseException | None) -> None:
    for request in batch:
        if request.done.done():
            continue  # its client went away
        if error is None:
            request.done.set_result(None)
        else:
            request.done.set_exception(error)


def writer_for(settings_dict: dict[str, Any], vendor: str) -> Writer:
    return ThreadWriter() if vendor == "postgresql" else SqliteWriter(str(settings_dict["NAME"]))
