"""The few words in which SQLite and PostgreSQL differ for the door, over any DB-API cursor in the caller's transaction.

`mark` is the cursor's placeholder: Django's cursors and psycopg's write `%s`, sqlite3's own `?`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol

from project.lib import clock

MOST_PARAMETERS = 30_000  # of one statement; SQLite takes 32,766, PostgreSQL 65,535
MOST_ROWS = 64  # of one statement: few enough texts that SQLite compiles each only once
VERSION = "SELECT version FROM triggers_configversion WHERE id = 1"  # no row yet: the first one
CLAIM = (
    'INSERT INTO "triggers_seen" (source_id, "key", event, until) VALUES {values} '
    'ON CONFLICT (source_id, "key") DO UPDATE SET event = excluded.event, until = excluded.until '
    'WHERE "triggers_seen".until <= %s'
)
CLAIM_MANY = CLAIM.replace(
    "VALUES {values}", "SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::timestamptz[])"
)
CLAIM_MANY += ' RETURNING source_id, "key"'
TYPES = (  # of PostgreSQL's columns that hold no text
    dict.fromkeys(("id", "source_id", "trigger_id", "event_id", "requester_id", "emitted_by"), "bigint")
    | dict.fromkeys(("hops", "sanitized", "duplicates", "priority", "fence", "attempt", "crashes"), "integer")
    | dict.fromkeys(("time", "received_at", "queued_at", "due_at", "rung_at", "not_before"), "timestamptz")
    | {"raw": "bytea", "headers": "jsonb", "outcomes": "jsonb", "send_again": "jsonb"}
)
Row = Sequence[Any]
Key = tuple[int, str]


class Cursor(Protocol):
    @property
    def rowcount(self) -> int: ...
    def execute(self, sql: str, params: Any = ..., /) -> Any: ...
    def fetchall(self) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class Opening:
    """What a transaction of the door asks first, in one statement; ids that are not used leave a gap."""

    version: int  # of the configuration
    now: datetime  # the database's clock
    events: list[int]  # fresh ids
    runs: list[int]


@lru_cache(maxsize=2048)
def insert_sql(table: str, columns: tuple[str, ...], count: int) -> str:
    one = f"({', '.join(['%s'] * len(columns))})"
    names = ", ".join(f'"{column}"' for column in columns)
    return f'INSERT INTO "{table}" ({names}) VALUES {", ".join([one] * count)}'


@lru_cache(maxsize=2048)
def claim_sql(count: int) -> str:
    return CLAIM.format(values=", ".join(["(%s, %s, %s, %s)"] * count))


@lru_cache(maxsize=2048)
def marked(sql: str, mark: str) -> str:
    return sql.replace("%s", mark)


def marks(count: int) -> str:
    return ", ".join(["%s"] * count)


def parts(rows: Sequence[Row], most: int) -> Iterator[Sequence[Row]]:
    for start in range(0, len(rows), most):
        yield rows[start : start + most]


class Dialect:
    """SQLite: the caller holds the writer's lock, so what is counted here stays true until the commit."""

    lock = ""  # at the end of a SELECT

    def __init__(self, cursor: Cursor, mark: str = "%s") -> None:
        self.cursor = cursor
        self.mark = mark

    def rows(self, sql: str, params: Row = ()) -> list[Any]:
        self.run(sql, params)
        return self.cursor.fetchall()

    def run(self, sql: str, params: Row = ()) -> None:
        self.cursor.execute(sql if self.mark == "%s" else marked(sql, self.mark), tuple(params))

    def version(self) -> int:
        """Of the configuration."""
        found = self.rows(VERSION)
        return int(found[0][0]) if found else 1

    def opening(self, events: int, runs: int) -> Opening:
        """The version, the time, and ids for as many events and runs."""
        last = "(SELECT seq FROM sqlite_sequence WHERE name = 'triggers_{}')"
        [(version, text, event, run)] = self.rows(
            f"SELECT ({VERSION}), strftime('%Y-%m-%d %H:%M:%f', 'now'), {last.format('event')}, {last.format('run')}"
        )
        now = datetime.fromisoformat(text).replace(tzinfo=UTC) + clock.shift
        event, run = (event or 0) + 1, (run or 0) + 1
        return Opening(version or 1, now, list(range(event, event + events)), list(range(run, run + runs)))

    def when(self, moment: datetime | None) -> Any:
        """A time as this database's driver stores it (Django's own form)."""
        return moment and moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")

    def moment(self, stored: Any) -> datetime:
        """A time as it was read: text, or a naive or aware one, by driver and column."""
        found = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    def insert(self, table: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        for some in parts(rows, MOST_ROWS):
            self.run(insert_sql(table, columns, len(some)), tuple(chain.from_iterable(some)))

    def claim(self, claims: Sequence[Row], now: Any) -> set[Key]:
        """Claim `[source id, key, event, until]`, sorted; the keys that were free, or whose window is over at `now`."""
        count = 0
        for some in parts(claims, 2 * MOST_ROWS):
            self.run(claim_sql(len(some)), (*chain.from_iterable(some), now))
            count += self.cursor.rowcount
        if count == len(claims):
            return {(source_id, key) for source_id, key, _, _ in claims}
        holders = self.holders([(claim[0], claim[1]) for claim in claims])
        return {(source_id, key) for source_id, key, event, _ in claims if holders[source_id, key][0] == event}

    def holders(self, keys: Sequence[Key], now: datetime | None = None) -> dict[Key, tuple[int, str | None]]:
        """Who holds each key, or held it until `now`: the number of its event, and that event's id while it is kept."""
        found: dict[Key, tuple[int, str | None]] = {}
        still = " AND s.until > %s" if now else ""
        for some in parts(keys, MOST_PARAMETERS // 2):
            named = f'(s.source_id, s."key") IN (VALUES {", ".join(["(%s, %s)"] * len(some))})'
            rows = self.rows(
                'SELECT s.source_id, s."key", s.event, e.ce_id FROM triggers_seen s '
                f"LEFT JOIN triggers_event e ON e.id = s.event WHERE {named}{still}",
                [*(part for key in some for part in key), *([self.when(now)] if now else [])],
            )
            found |= {(row[0], row[1]): (row[2], row[3]) for row in rows}
        return found


class Postgres(Dialect):
    lock = " FOR NO KEY UPDATE"  # a worker's slot and its run refer to rows that the door holds

    def opening(self, events: int, runs: int) -> Opening:
        name = "pg_get_serial_sequence('triggers_{}', 'id') AS name"
        fresh = f"ARRAY(SELECT nextval(name) FROM {name}, generate_series(1, %s))"
        [(version, now, event_ids, run_ids)] = self.rows(
            f"SELECT ({VERSION}), clock_timestamp(), {fresh.format('event')}, {fresh.format('run')}",
            [events, runs],
        )
        return Opening(version or 1, now.astimezone(UTC) + clock.shift, sorted(event_ids), sorted(run_ids))

    def when(self, moment: datetime | None) -> Any:
        return moment

    def insert(self, table: str, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        """Every row by one statement, whatever their number: one array a column."""
        if rows:
            self.run(unnest_sql(table, columns), columns_of(rows))

    def claim(self, claims: Sequence[Row], now: Any) -> set[Key]:
        return {(row[0], row[1]) for row in self.rows(CLAIM_MANY, [*columns_of(claims), now])}


def columns_of(rows: Sequence[Row]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


@lru_cache(maxsize=32)
def unnest_sql(table: str, columns: tuple[str, ...]) -> str:
    arrays = ", ".join(f"%s::{TYPES.get(column, 'text')}[]" for column in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    return f'INSERT INTO "{table}" ({names}) SELECT * FROM unnest({arrays})'
