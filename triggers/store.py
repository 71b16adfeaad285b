"""Events written many at a time: one statement a table, on either database, inside the caller's transaction.

`cursor` is any DB-API cursor (Django's, sqlite3's or psycopg's); `mark` is its placeholder."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from triggers.envelope import Arrival
from triggers.matching import Rule
from triggers.routing import Route

EVENT_COLUMNS = (
    *("id", "source_id", "source_slug", "ce_id", "ce_source", "type", "subject", "time", "datacontenttype"),
    *("dataschema", "severity", "traceparent", "correlationid", "idempotencykey", "hops", "raw", "data_json"),
    *("headers", "credentials", "sanitized", "remote", "received_at", "status", "outcomes", "duplicates"),
    *("requester_id", "emitted_by"),
)
RUN_COLUMNS = (
    *("id", "trigger_id", "event_id", "handler", "handler_version", "status", "reason", "priority", "fence"),
    *("attempt", "crashes", "queued_at", "due_at", "rung_at", "lease_owner", "waiting_for", "send_again"),
    "requester_id",
)
EVENTS, RUNS, SEEN = "triggers_event", "triggers_run", "triggers_seen"
HELD = ("queued", "running", "retrying")
WAITING_HELD = (*HELD, "waiting", "blocked")


class Cursor(Protocol):
    def execute(self, sql: str, params: Any = ..., /) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def fetchone(self) -> Any: ...


@dataclass(slots=True)
class Member:
    """One arrival of a batch, its route, and what became of it."""

    arrival: Arrival
    route: Route
    seq: int = 0
    ce_id: str = ""
    status: str = "accepted"  # accepted, duplicate
    reason: str = ""
    runs: list[int] = field(default_factory=list)


class Dialect:
    """The few words in which the two databases differ."""

    def __init__(self, cursor: Cursor, *, postgres: bool, mark: str) -> None:
        self.cursor = cursor
        self.postgres = postgres
        self.mark = mark

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Any]:
        self.cursor.execute(sql.replace("%s", self.mark) if self.mark != "%s" else sql, tuple(params))
        return self.cursor.fetchall()

    def run(self, sql: str, params: Sequence[Any] = ()) -> None:
        self.cursor.execute(sql.replace("%s", self.mark) if self.mark != "%s" else sql, tuple(params))

    def now(self) -> datetime:
        if self.postgres:
            moment: datetime = self.rows("SELECT clock_timestamp()")[0][0]
            return moment.astimezone(UTC)
        text = self.rows("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')")[0][0]
        return datetime.fromisoformat(text).replace(tzinfo=UTC)

    def when(self, moment: datetime | None) -> Any:
        """A time as this database's driver stores it (Django's own forms)."""
        if moment is None or self.postgres:
            return moment
        return moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")

    def next_ids(self, table: str, count: int) -> list[int]:
        """`count` fresh ids, reserved under the lock this transaction holds (SQLite) or by the sequence."""
        if self.postgres:
            sequence = f"pg_get_serial_sequence('{table}', 'id')"
            found = self.rows(f"SELECT nextval({sequence}) FROM generate_series(1, %s)", [count])
            return sorted(int(row[0]) for row in found)
        last = self.rows("SELECT seq FROM sqlite_sequence WHERE name = %s", [table])
        first = (last[0][0] if last else 0) + 1
        return list(range(first, first + count))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Every row in as few statements as the database's limit of parameters allows."""
        one = "(" + ", ".join(["%s"] * len(columns)) + ")"
        names = ", ".join(f'"{column}"' for column in columns)
        fit = 30_000 // len(columns)
        for start in range(0, len(rows), fit):
            part = rows[start : start + fit]
            values = ", ".join([one] * len(part))
            self.run(f'INSERT INTO "{table}" ({names}) VALUES {values}', [value for row in part for value in row])


def write(db: Dialect, members: Sequence[Member], now: datetime) -> None:
    """Claim the keys, then write events and runs; fills `seq`, `status`, `reason` and `runs` of every member."""
    for member, seq in zip(members, db.next_ids(EVENTS, len(members)), strict=True):
        member.seq, member.ce_id = seq, member.arrival.ce_id
    claim(db, members, now)
    fresh = [member for member in members if member.status != "duplicate"]
    if not fresh:
        return
    starts = decide_starts(db, fresh)
    db.insert(EVENTS, EVENT_COLUMNS, [event_row(db, member, now) for member in fresh])
    db.insert(RUNS, RUN_COLUMNS, [run_row(db, *start, now) for start in starts])


def start_runs(db: Dialect, members: Sequence[Member], now: datetime) -> None:
    """Start the runs of events that are stored already."""
    db.insert(RUNS, RUN_COLUMNS, [run_row(db, *start, now) for start in decide_starts(db, members)])


Wanted = dict[tuple[int, str], tuple["Member", str]]  # (source, key) -> who claims it, and what a repeat is told


def claim(db: Dialect, members: Sequence[Member], now: datetime) -> None:
    """Claim every key of the batch in one sorted statement; whose key was taken is a duplicate of the first."""
    wanted: Wanted = {}
    twins: list[tuple[Member, Member, str]] = []
    for member in members:
        keys = {(member.arrival.source_id or 0, key): why for key, why in member.arrival.keys}
        again = next((key for key in keys if key in wanted), None)
        if again is None:
            wanted |= {key: (member, why) for key, why in keys.items()}
        else:
            twins.append((member, wanted[again][0], keys[again]))
    if wanted:
        name_firsts(db, wanted, claim_rows(db, wanted, now))
    for member, twin, reason in twins:
        mark_duplicate(member, twin.seq, twin.ce_id, reason)


def claim_rows(db: Dialect, wanted: Wanted, now: datetime) -> set[tuple[int, str]]:
    moment = db.when(now)
    params: list[Any] = []
    for (source_id, key), (member, _) in sorted(wanted.items(), key=lambda item: item[0]):
        params += [source_id, key, member.seq, db.when(now + timedelta(seconds=member.arrival.window))]
    values = ", ".join(["(%s, %s, %s, %s)"] * len(wanted))
    sql = (
        f'INSERT INTO "{SEEN}" (source_id, "key", event, until) VALUES {values} '
        'ON CONFLICT (source_id, "key") DO UPDATE SET event = excluded.event, until = excluded.until '
        f'WHERE "{SEEN}".until <= %s RETURNING source_id, "key"'
    )
    return {(row[0], row[1]) for row in db.rows(sql, [*params, moment])}


def name_firsts(db: Dialect, wanted: Wanted, taken: set[tuple[int, str]]) -> None:
    """Name the first event of every lost key; the other keys of that delivery point to it too."""
    lost = sorted(key for key in wanted if key not in taken)
    if not lost:
        return
    where = " OR ".join(['(s.source_id = %s AND s."key" = %s)'] * len(lost))
    found = db.rows(
        f'SELECT s.source_id, s."key", s.event, e.ce_id FROM "{SEEN}" s '
        f'LEFT JOIN "{EVENTS}" e ON e.id = s.event WHERE {where}',
        [part for key in lost for part in key],
    )
    firsts = {(row[0], row[1]): (row[2], row[3]) for row in found}
    for key in (key for key in wanted if key in firsts):  # a delivery's id is named before its body
        (member, reason), (seq, ce_id) = wanted[key], firsts[key]
        if member.status != "duplicate":
            mark_duplicate(member, seq, ce_id or member.arrival.ce_id, reason)
    for key in sorted(taken):
        if wanted[key][0].status == "duplicate":
            db.run(f'UPDATE "{SEEN}" SET event = %s WHERE source_id = %s AND "key" = %s', [wanted[key][0].seq, *key])


def mark_duplicate(member: Member, seq: int, ce_id: str, reason: str) -> None:
    member.status, member.reason, member.seq, member.ce_id = "duplicate", reason, seq, ce_id


def decide_starts(db: Dialect, fresh: Sequence[Member]) -> list[tuple[Member, Rule, int]]:
    """The runs to start; a trigger that is full is locked, counted, and answers `skipped` by name."""
    full = lock_limited(db, {rule.trigger_id: rule for member in fresh for rule in member.route.matched})
    starts: list[tuple[Member, Rule]] = []
    for member in fresh:
        for rule in member.route.matched:
            if rule.trigger_id in full:
                outcome = next(told for told in member.route.outcomes if told["trigger"] == rule.slug)
                outcome.update(outcome="skipped", detail="an earlier run of this trigger is still at work")
                continue
            starts.append((member, rule))
            if busy_limit(rule):
                full.add(rule.trigger_id)
    ids = db.next_ids(RUNS, len(starts)) if starts else []
    for (member, rule), run_id in zip(starts, ids, strict=True):
        member.runs.append(run_id)
        next(told for told in member.route.outcomes if told["trigger"] == rule.slug)["run"] = run_id
    return [(member, rule, run_id) for (member, rule), run_id in zip(starts, ids, strict=True)]


def busy_limit(rule: Rule) -> dict[str, Any] | None:
    limit: dict[str, Any] | None = rule.limits.get("concurrency")
    return limit if limit and limit.get("when_busy") == "skip" else None


def lock_limited(db: Dialect, rules: dict[int, Rule]) -> set[int]:
    """Ids of the triggers among `rules` that are at their limit; their rows stay locked until the commit."""
    full = set()
    for trigger_id, rule in sorted(rules.items()):
        limit = busy_limit(rule)
        if limit is None:
            continue
        lock = " FOR UPDATE" if db.postgres else ""
        db.rows(f"SELECT id FROM triggers_trigger WHERE id = %s{lock}", [trigger_id])
        held = WAITING_HELD if limit.get("waiting_counts") else HELD
        marks = ", ".join(["%s"] * len(held))
        sql = f'SELECT count(*) FROM "{RUNS}" WHERE trigger_id = %s AND status IN ({marks})'
        if db.rows(sql, [trigger_id, *held])[0][0] >= limit["limit"]:
            full.add(trigger_id)
    return full


def event_row(db: Dialect, member: Member, now: datetime) -> list[Any]:
    event, route = member.arrival, member.route
    status = route.status
    return [
        *(member.seq, event.source_id, event.source, event.ce_id, event.ce_source, event.type, event.subject),
        *(db.when(event.time), event.datacontenttype, event.dataschema, event.severity, event.traceparent),
        *(event.correlationid, event.idempotencykey, event.hops, event.raw, event.data_json),
        *(json.dumps(event.headers), event.credentials, event.sanitized, event.remote, db.when(now), status),
        *(json.dumps(route.outcomes), 0, event.requester_id, None),
    ]


def run_row(db: Dialect, member: Member, rule: Rule, run_id: int, now: datetime) -> list[Any]:
    moment = db.when(now)
    return [
        *(run_id, rule.trigger_id, member.seq, rule.handler, rule.handler_version, "queued", "", rule.priority, 0),
        *(1, 0, moment, moment, moment, "", "", "[]", member.arrival.requester_id),
    ]


def count_duplicates(db: Dialect, members: Iterable[Member]) -> None:
    """Count every repeat on the first event."""
    counts: dict[int, int] = {}
    for member in members:
        if member.status == "duplicate":
            counts[member.seq] = counts.get(member.seq, 0) + 1
    for seq, count in sorted(counts.items()):
        db.run(f'UPDATE "{EVENTS}" SET duplicates = duplicates + %s WHERE id = %s', [count, seq])
