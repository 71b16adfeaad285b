"""A connection to somebody else's database: read-only but for the rows of an outbox, names quoted."""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.adapt import Loader
from psycopg.rows import dict_row
from psycopg.types import datetime as times
from psycopg.types import json as jsons

from triggers.listeners.thread import Trouble
from triggers.models import Source
from triggers.sources.cursors import is_placed
from triggers.sources.database import PORTS, TableSource, column, open_file, quoted
from triggers.sources.farside import addresses

CONNECT = 5  # seconds
STATEMENT = 30_000  # milliseconds
MOST_ODD = 1000  # rows without a place in the order that a first look passes over
TLS = {"require": "require", "verify": "verify-full", "prefer": "prefer"}
FAULTS: tuple[type[Exception], ...] = (psycopg.Error, sqlite3.Error)

Row = dict[str, Any]


class Link:
    """What both databases are asked; `mark` stands for a value."""

    mark = "?"

    def __init__(self, table: TableSource) -> None:
        self.table = table
        self.name = quoted(table.table)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        raise NotImplementedError

    def write(self, statement: str, many: Sequence[Sequence[Any]]) -> list[int]:
        """Do it for each of `many`; how many rows each of them touched."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def columns(self) -> list[str]:
        raise NotImplementedError

    def clock(self) -> datetime:
        """What time it is over there."""
        raise NotImplementedError

    # The questions

    def refuse_missing(self) -> None:
        """Raises Trouble when the table lacks a column that the source names."""
        there = self.columns()
        if missing := [name for name in self.table.columns if name not in there]:
            raise Trouble(f"{self.table.table} has no column {missing[0]}; it has {', '.join(there)}")

    def newest(self, latest: datetime) -> Any:
        """The greatest cursor that has a place. Raises Trouble when too many rows before it have none."""
        by = column(self.table.cursor)
        where = f"FROM {self.name} WHERE {by} IS NOT NULL ORDER BY {by} DESC LIMIT {MOST_ODD}"
        rows = self.rows(f"SELECT {by} AS newest {where}")
        if (found := next((row["newest"] for row in rows if is_placed(row["newest"], latest)), None)) is not None:
            return found
        if len(rows) == MOST_ODD:
            odd = "is infinity, NaN or a time to come"
            raise Trouble(f"{self.table.cursor} {odd} in {MOST_ODD} rows and more; no cursor passes those")
        return None

    def behind(self, after: Any, most: int) -> int:
        """How many rows lie after the cursor, counted up to `most`."""
        by = column(self.table.cursor)
        where = f"{by} > {self.mark}" if after is not None else f"{by} IS NOT NULL"
        told = [after] if after is not None else []
        [row] = self.rows(
            f"SELECT count(*) AS n FROM (SELECT 1 FROM {self.name} WHERE {where} LIMIT {most}) AS counted", told
        )
        return int(row["n"])

    def page(self, where: str, values: Sequence[Any], size: int) -> list[Row]:
        """Rows by the cursor, then by their key, so that equal cursors have an order too."""
        order = ", ".join(self.order)
        return self.rows(f"SELECT * FROM {self.name} WHERE {where} ORDER BY {order} LIMIT {size}", values)

    @property
    def order(self) -> list[str]:
        return [column(name) for name in [self.table.cursor, *self.table.key]]

    def after(self) -> str:
        """The condition that begins behind one row, by its cursor and key."""
        return f"({', '.join(self.order)}) > ({', '.join([self.mark] * len(self.order))})"

    def unacknowledged(self, size: int) -> list[Row]:
        order = ", ".join(column(name) for name in self.table.key)
        return self.rows(f"SELECT * FROM {self.name} WHERE {self.waiting()} ORDER BY {order} LIMIT {size}")

    def waiting(self) -> str:
        return "1 = 1" if self.table.acknowledge == "delete" else f"{column(self.table.acknowledge)} IS NULL"

    def count_waiting(self, most: int) -> int:
        inner = f"SELECT 1 FROM {self.name} WHERE {self.waiting()} LIMIT {most}"
        [row] = self.rows(f"SELECT count(*) AS n FROM ({inner}) AS counted")
        return int(row["n"])

    def insert(self, row: Row) -> None:
        """Write a row; columns that are not named have what the table gives them."""
        names = ", ".join(column(name) for name in row)
        marks = ", ".join([self.mark] * len(row))
        self.write(f"INSERT INTO {self.name} ({names}) VALUES ({marks})", [list(row.values())])

    def acknowledge(self, keys: Sequence[Sequence[Any]]) -> list[int]:
        """How many rows each of the keys acknowledged: none when it is empty, or somebody else was first."""
        where = " AND ".join(f"{column(name)} = {self.mark}" for name in self.table.key)
        if self.table.acknowledge == "delete":
            return self.write(f"DELETE FROM {self.name} WHERE {where}", keys)
        done = column(self.table.acknowledge)
        return self.write(f"UPDATE {self.name} SET {done} = CURRENT_TIMESTAMP WHERE {where}", keys)


class OrText(Loader):
    """A value as Python has it, or as the text it is: `infinity`, a year before Christ, JSON deeper than anybody reads.

    One value that nobody can read must not keep the other rows from being read."""

    usual: type[Loader]

    def __init__(self, oid: int, context: Any = None) -> None:
        super().__init__(oid, context)
        self.inner = self.usual(oid, context)

    def load(self, data: Any) -> Any:
        try:
            return self.inner.load(data)
        except (psycopg.DataError, ArithmeticError, RuntimeError, ValueError):
            return bytes(data).decode("utf-8", "replace")


USUAL: dict[str, type[Loader]] = {
    "date": times.DateLoader,
    "time": times.TimeLoader,
    "timetz": times.TimetzLoader,
    "timestamp": times.TimestampLoader,
    "timestamptz": times.TimestamptzLoader,
    "interval": times.IntervalLoader,
    "json": jsons.JsonLoader,
    "jsonb": jsons.JsonbLoader,
}
LOADERS = {name: type(f"{name}OrText", (OrText,), {"usual": usual}) for name, usual in USUAL.items()}


class PostgresLink(Link):
    """One connection to a checked address; the name stays that of the certificate."""

    mark = "%s"

    def __init__(self, source: Source, table: TableSource) -> None:
        super().__init__(table)
        self.open = psycopg.connect(
            host=table.host,
            hostaddr=",".join(addresses(table.host, table.port, PORTS, "PostgreSQL")[:1]),
            port=table.port,
            user=table.user,
            password=source.password or None,
            dbname=table.name,
            sslmode=TLS[table.tls],
            sslrootcert="system" if table.tls == "verify" else None,
            connect_timeout=CONNECT,
            application_name="nightdesk",
            row_factory=dict_row,
        )
        for name, loader in LOADERS.items():
            self.open.adapters.register_loader(name, loader)
        self.open.read_only = True
        with self.open.transaction():
            self.open.execute(f"SET statement_timeout = {STATEMENT}")

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        with self.open.transaction():
            return list(self.open.execute(statement.encode(), list(values)))

    def write(self, statement: str, many: Sequence[Sequence[Any]]) -> list[int]:
        self.open.read_only = False
        try:
            with self.open.transaction(), self.open.cursor() as cursor:
                cursor.executemany(statement.encode(), many, returning=True)
                touched = [cursor.rowcount]
                while cursor.nextset():
                    touched.append(cursor.rowcount)
                return touched
        finally:
            self.open.read_only = True

    def columns(self) -> list[str]:
        with self.open.transaction():
            told = self.open.execute(f"SELECT * FROM {self.name} LIMIT 0".encode()).description
        return [one.name for one in told or []]

    def clock(self) -> datetime:
        [row] = self.rows("SELECT clock_timestamp() AS now")
        now: datetime = row["now"]
        return now

    def close(self) -> None:
        self.open.close()


class SqliteLink(Link):
    """A file inside FILE_ROOTS, opened for reading; for the acknowledgement of an outbox opened once more."""

    def __init__(self, table: TableSource) -> None:
        super().__init__(table)
        self.place = quote(str(open_file(table)))
        self.open = self.connect("ro")

    def connect(self, mode: str) -> sqlite3.Connection:
        opened = sqlite3.connect(f"file:{self.place}?mode={mode}", uri=True, timeout=CONNECT)
        opened.row_factory = sqlite3.Row
        opened.text_factory = lambda text: text.decode("utf-8", "replace")  # SQLite keeps any bytes as text
        return opened

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return [dict(row) for row in self.open.execute(statement, values)]

    def write(self, statement: str, many: Sequence[Sequence[Any]]) -> list[int]:
        writing = self.connect("rw")
        try:
            with writing:
                return [writing.execute(statement, each).rowcount for each in many]
        finally:
            writing.close()

    def columns(self) -> list[str]:
        return [one[0] for one in self.open.execute(f"SELECT * FROM {self.name} LIMIT 0").description]

    def clock(self) -> datetime:
        [row] = self.rows("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now') AS now")
        return datetime.fromisoformat(row["now"]).replace(tzinfo=UTC)

    def close(self) -> None:
        self.open.close()


def link_to(source: Source, table: TableSource) -> Link:
    """Raises what a connection raises, and Trouble for a table without the columns."""
    link = SqliteLink(table) if table.is_sqlite else PostgresLink(source, table)
    try:
        link.refuse_missing()
    except BaseException:
        link.close()
        raise
    return link
