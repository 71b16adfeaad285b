"""Concurrent deliveries of one process share one commit; each is answered after it was read back."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import psycopg
from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction

from project.lib import unwritten
from project.lib.failpoints import failpoint
from project.lib.turnstile import Turnstile
from triggers import ingest, store
from triggers.dialect import Cursor, Dialect, Postgres, marks
from triggers.errors import QueueFull, TriggerFull
from triggers.routing import Table
from triggers.store import ConfigChanged, Member

MOST = 64  # deliveries of one commit: while it waits for the disk, the loop judges as many others
MOST_EVENTS = 4000  # of one commit; a delivery may bring a thousand, and a statement takes only so many values
PATIENCE = 20.0  # seconds the writer waits for SQLite's lock
STATEMENTS = 256  # of the writer's connection that stay compiled
PRAGMAS = (
    *("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"),
    "wal_autocheckpoint=8000",  # pages, 32 MB: a page that many batches touch is copied back once
    "cache_size=-32768",  # KiB: the indexes a batch touches stay at hand
)


class Unconfirmed(Exception):
    """The commit went through, or may have, but could not be read back: nobody writes it a second time."""


class Writer:
    """A connection that lives in a thread of its own: while it waits for the disk, the loop judges what comes next."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="door")

    async def beside(self, function: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.thread, function, *given)

    async def version(self) -> int:
        version: int = await self.beside(self.read_version)
        return version

    async def close(self) -> None:
        await self.beside(self.disconnect)
        self.thread.shutdown(wait=False)

    def commit(self, members: Sequence[Member], version: int) -> None:
        """Write members in one transaction and read them back; raises ConfigChanged, DatabaseError or Unconfirmed."""
        raise NotImplementedError

    def read_version(self) -> int:
        raise NotImplementedError

    def disconnect(self) -> None:
        raise NotImplementedError


class SqliteWriter(Writer):
    """A connection of its own, with settings for many small rows at a time."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.db: sqlite3.Connection | None = None
        self.turnstile = Turnstile(path)

    def connected(self) -> sqlite3.Connection:
        if self.db is None:
            self.db = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, cached_statements=STATEMENTS)
            for pragma in PRAGMAS:
                self.db.execute(f"PRAGMA {pragma}")
        return self.db

    def commit(self, members: Sequence[Member], version: int) -> None:
        with translated():
            db = Dialect(self.connected().cursor(), "?")
            with self.turnstile.held():
                self.write(db, members, version)
        try:
            read_back(db, members)
        except sqlite3.Error as error:
            raise Unconfirmed(str(error)) from error

    def write(self, db: Dialect, members: Sequence[Member], version: int) -> None:
        db.cursor.execute("BEGIN IMMEDIATE")
        written = False
        try:
            store.write(db, members, version)
            written = True
            db.cursor.execute("COMMIT")
        except BaseException as error:
            if self.connected().in_transaction:
                db.cursor.execute("ROLLBACK")
            elif written:  # the disk failed during COMMIT: what it holds is not known
                raise Unconfirmed(str(error)) from error
            raise

    def read_version(self) -> int:
        with translated():
            return Dialect(self.connected().cursor(), "?").version()

    def disconnect(self) -> None:
        if self.db is not None:
            self.db.close()
            self.db = None
        self.turnstile.close()


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """What sqlite3 raises, as Django's own errors."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise OperationalError(str(error)) from error
    except sqlite3.Error as error:
        raise DatabaseError(str(error)) from error


class PostgresWriter(Writer):
    """Django's connection of the writer's thread."""

    def commit(self, members: Sequence[Member], version: int) -> None:
        connection.close_if_unusable_or_obsolete()
        written = False
        try:
            with transaction.atomic(), bound_there() as cursor:
                store.write(Postgres(cursor), members, version)
                written = True
        except (InterfaceError, OperationalError) as error:
            if written:  # the line was cut during COMMIT: the server may have heard it
                raise Unconfirmed(str(error)) from error
            raise
        try:
            with bound_there() as cursor:
                read_back(Postgres(cursor), members)
        except DatabaseError as error:
            raise Unconfirmed(str(error)) from error

    def read_version(self) -> int:
        connection.close_if_unusable_or_obsolete()
        with connection.cursor() as cursor:
            return Postgres(cursor).version()

    def disconnect(self) -> None:
        connection.close()


@contextlib.contextmanager
def bound_there() -> Iterator[Cursor]:
    """A cursor whose values travel beside the text, so that the server keeps the plan; Django's own writes them in."""
    connection.ensure_connection()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        yield cursor


def read_back(db: Dialect, members: Sequence[Member]) -> None:
    """Nothing is answered that is not there; in the same look, who waits for it."""
    ids = sorted({member.seq for member in members})
    types = sorted({member.arrival.type for member in members})
    there = f"SELECT 1, count(*), '' FROM triggers_event WHERE id IN ({marks(len(ids))})"
    awaited = (
        f"SELECT DISTINCT 2, 0, type FROM triggers_wait WHERE status = 'pending' AND type IN ({marks(len(types))})"
    )
    (_, count, _), *waits = db.rows(f"{there} UNION ALL {awaited} ORDER BY 1", [*ids, *types])
    if count != len(ids):
        raise Unconfirmed("the events were not there after the commit")
    waited = {type for _, _, type in waits}
    for member in members:
        member.awaited = member.arrival.type in waited


@dataclass(slots=True)
class Request:
    """The members of one delivery, written together or not at all."""

    members: list[Member]
    table: Table
    done: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


Outcome = tuple[Request, BaseException | None]


class GroupCommit:
    """Gathers what arrives while a commit is under way, and commits it as one, in the writer's thread.

    The loop hands over a batch and goes on judging what comes next; all but the commit itself happens on the loop."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.waiting: list[Request] = []
        self.is_busy = False  # a batch is with the writer, or about to be

    async def write(self, members: list[Member], table: Table) -> None:
        """Returns after the commit was read back. Raises ConfigChanged (match again) or QueueFull."""
        request = Request(members, table)
        self.waiting.append(request)
        if not self.is_busy:  # whoever is ready in this turn of the loop comes along
            self.is_busy = True
            asyncio.get_running_loop().call_soon(self.hand_over)
        await request.done

    def hand_over(self) -> None:
        self.writer.thread.submit(self.work, self.next_batch())

    def next_batch(self) -> list[Request]:
        """Those who came first, whole deliveries."""
        count = events = 0
        while count < min(MOST, len(self.waiting)) and events < MOST_EVENTS:
            events += len(self.waiting[count].members)
            count += 1
        batch, self.waiting = self.waiting[:count], self.waiting[count:]
        return batch

    def work(self, batch: list[Request]) -> None:
        """Commit one batch; in the writer's thread."""
        try:
            outcomes = self.commit(batch)
        except BaseException as error:  # each delivery raises it on the loop: nobody would hear it here
            outcomes = alike(batch, error)
            raise
        finally:
            batch[0].done.get_loop().call_soon_threadsafe(self.settle, outcomes)

    def settle(self, outcomes: list[Outcome]) -> None:
        """The writer goes on with what was judged meanwhile, and each delivery hears how it ended; on the loop."""
        self.is_busy = bool(self.waiting)
        if self.is_busy:
            self.hand_over()
        for request, error in outcomes:
            if request.done.done():
                continue  # its client went away
            if error is None:
                request.done.set_result(None)
            else:
                request.done.set_exception(error)

    def commit(self, batch: list[Request]) -> list[Outcome]:
        newest = max(request.table.version for request in batch)
        older = [request for request in batch if request.table.version != newest]
        return alike(older, ConfigChanged()) + self.written([one for one in batch if one not in older], newest)

    def written(self, batch: list[Request], version: int) -> list[Outcome]:
        try:
            self.writer.commit([member for request in batch for member in request.members], version)
        except ConfigChanged as changed:
            return alike(batch, changed)
        except Unconfirmed as error:
            return alike(batch, full(error))
        except TriggerFull as error:
            return self.without_the_full(batch, version, error)
        except DatabaseError as error:
            return self.alone(batch, version, error)
        failpoint("after_ingest_commit")
        return alike(batch, None)

    def without_the_full(self, batch: list[Request], version: int, error: TriggerFull) -> list[Outcome]:
        """One delivery is to wait for its trigger; nothing of the batch was written, the others try again."""
        waits = [request for request in batch if any(member.full for member in request.members)]
        others = [request for request in batch if request not in waits]
        for request in others:
            for member in request.members:
                ingest.fresh_start(member)
        return alike(waits, error) + (self.written(others, version) if others else [])

    def alone(self, batch: list[Request], version: int, error: DatabaseError) -> list[Outcome]:
        """One member broke the batch: each delivery tries once by itself. The database is away: nobody waits twice."""
        outcomes: list[Outcome] = []
        for place, request in enumerate(batch):
            for member in request.members:
                ingest.fresh_start(member)
            try:
                if len(batch) == 1:
                    raise error
                self.writer.commit(request.members, version)
            except ConfigChanged as changed:
                outcomes.append((request, changed))
            except OperationalError as again:
                return outcomes + alike(batch[place:], full(again))
            except (DatabaseError, Unconfirmed) as again:
                outcomes.append((request, full(again)))
            except TriggerFull as again:
                outcomes.append((request, again))
            else:
                outcomes.append((request, None))
        return outcomes


def alike(batch: list[Request], error: BaseException | None) -> list[Outcome]:
    return [(request, error) for request in batch]


def full(cause: Exception) -> QueueFull:
    unwritten.note(cause)
    answer = QueueFull("The database does not take events right now.")
    answer.__cause__ = cause
    return answer


def writer_for(settings_dict: dict[str, Any], vendor: str) -> Writer:
    return PostgresWriter() if vendor == "postgresql" else SqliteWriter(str(settings_dict["NAME"]))
