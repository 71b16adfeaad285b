"""Who writes a batch of the door: a connection in a thread of its own, on either database."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction

from project.lib.deferred import deferred
from project.lib.turnstile import Turnstile
from project.lib.wal import Log
from triggers import store
from triggers.dialect import Cursor, Dialect, Postgres, marks
from triggers.store import Member

if TYPE_CHECKING:
    import psycopg
else:
    psycopg = deferred("psycopg")

PATIENCE = 20.0  # seconds the writer waits for SQLite's lock
STATEMENTS = 256  # of the writer's connection that stay compiled
COPY_AFTER = 64  # commits, 32 MB of full ones: a page that many batches touch is copied back once
PRAGMAS = (
    *("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"),  # the writer asks for the disk himself
    "wal_autocheckpoint=32000",  # pages, 128 MB: only where the log is not copied back beside the commits
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

    def tend(self) -> None:
        """What is due between two commits, when the answers to the one before are on their way."""

    def disconnect(self) -> None:
        raise NotImplementedError


class SqliteWriter(Writer):
    """A connection of its own, with settings for many small rows at a time."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.db: sqlite3.Connection | None = None
        self.turnstile = Turnstile(path)
        self.log = Log(path)
        self.commits = 0  # since the log was copied into the database
        self.copier = ThreadPoolExecutor(1, thread_name_prefix="door-copier")
        self.copying: Future[None] | None = None

    def connected(self) -> sqlite3.Connection:
        if self.db is None:
            self.db = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, cached_statements=STATEMENTS)
            for pragma in PRAGMAS:
                self.db.execute(f"PRAGMA {pragma}")
        return self.db

    def commit(self, members: Sequence[Member], version: int) -> None:
        with translated(self.log):
            self.log.trust()
            db = Dialect(self.connected().cursor(), "?")
            with self.turnstile.held():
                self.write(db, members, version)
        try:
            self.log.flush()
            read_back(db, members)
        except (OSError, sqlite3.Error) as error:
            raise Unconfirmed(str(error)) from error

    def write(self, db: Dialect, members: Sequence[Member], version: int) -> None:
        db.cursor.execute("BEGIN IMMEDIATE")
        written = False
        try:
            store.write(db, members, version)
            written = True
            db.cursor.execute("COMMIT")
        except BaseException as error:
            self.log.heed(error)
            if self.connected().in_transaction:
                self.undo(db)
            elif written:  # the disk failed during COMMIT: what it holds is not known
                raise Unconfirmed(str(error)) from error
            raise

    def undo(self, db: Dialect) -> None:
        """A connection that cannot even do this is left: its transaction would stand before all that follow."""
        try:
            db.cursor.execute("ROLLBACK")
        except sqlite3.Error:
            self.disconnected()

    def read_version(self) -> int:
        with translated(self.log):
            return Dialect(self.connected().cursor(), "?").version()

    def tend(self) -> None:
        """Have the log copied into the database beside the commits, which would wait for it as long as for many others.

        What came meanwhile is little and copied here: then the log is used from its beginning again."""
        self.commits += 1
        if self.copying is None and self.commits >= COPY_AFTER:
            self.copying = self.copier.submit(copy_beside, self.path)
        elif self.copying is not None and self.copying.done():
            self.copying, self.commits = None, 0
            copy_back(self.connected(), self.log)

    def disconnect(self) -> None:
        self.copier.shutdown()
        self.disconnected()
        self.turnstile.close()

    def disconnected(self) -> None:
        """Its log may be another file once nobody has the database open."""
        self.log.close()
        if self.db is not None:
            self.db.close()
            self.db = None


def copy_beside(path: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        copy_back(db, Log(path))


def copy_back(db: sqlite3.Connection, log: Log) -> None:
    """As much of the log as nobody still reads; what cannot be copied now is copied the next time."""
    try:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    except sqlite3.Error as error:
        log.heed(error)


@contextlib.contextmanager
def translated(log: Log) -> Iterator[None]:
    """What sqlite3 and a log in doubt raise, as Django's own errors."""
    try:
        yield
    except sqlite3.Error as error:
        log.heed(error)
        raise (OperationalError if isinstance(error, sqlite3.OperationalError) else DatabaseError)(
            str(error)
        ) from error
    except OSError as error:
        raise OperationalError(str(error)) from error


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


def writer_for(settings_dict: dict[str, Any], vendor: str) -> Writer:
    return PostgresWriter() if vendor == "postgresql" else SqliteWriter(str(settings_dict["NAME"]))
