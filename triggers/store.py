"""Events written many at a time: one statement a table, on either database, inside the caller's transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson

from triggers.dialect import Dialect, Key, marks
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
    awaited: bool = True  # whether a run may wait for an event of this type


class ConfigChanged(Exception):
    """The batch was matched under another version of the configuration."""


def write(db: Dialect, members: Sequence[Member], version: int) -> None:
    """Claim the keys, then write events and runs; fills `seq`, `status`, `reason` and `runs` of every member.

    Raises ConfigChanged when the configuration is no longer at `version`."""
    opening = db.opening(len(members), sum(len(member.route.matched) for member in members))
    if opening.version != version:
        raise ConfigChanged
    for member, seq in zip(members, opening.events, strict=True):
        member.seq, member.ce_id = seq, member.arrival.ce_id
    claim(db, members, opening.now)
    fresh = [member for member in members if member.status != "duplicate"]
    if fresh:
        starts = decide_starts(db, fresh, opening.runs)
        moment = db.when(opening.now)
        db.insert(EVENTS, EVENT_COLUMNS, [event_row(db, member, moment) for member in fresh])
        db.insert(RUNS, RUN_COLUMNS, [run_row(*start, moment) for start in starts])
    count_duplicates(db, members)


def start_runs(db: Dialect, member: Member, version: int) -> bool:
    """Start the runs of an event that is stored already; False when the configuration has changed."""
    opening = db.opening(0, len(member.route.matched))
    if opening.version != version:
        return False
    moment = db.when(opening.now)
    db.insert(RUNS, RUN_COLUMNS, [run_row(*start, moment) for start in decide_starts(db, [member], opening.runs)])
    return True


Wanted = dict[Key, tuple["Member", str]]  # (source, key) -> who claims it, and what a repeat is told


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
        name_firsts(db, wanted, db.claim(claims_of(db, wanted, now), db.when(now)))
    for member, twin, reason in twins:
        mark_duplicate(member, twin.seq, twin.ce_id, reason)


def claims_of(db: Dialect, wanted: Wanted, now: datetime) -> list[list[Any]]:
    """Sorted, so that two processes never wait for each other in a ring."""
    windows = {member.arrival.window for member, _ in wanted.values()}
    until = {window: db.when(now + timedelta(seconds=window)) for window in windows}
    return [
        [source_id, key, member.seq, until[member.arrival.window]]
        for (source_id, key), (member, _) in sorted(wanted.items(), key=lambda item: item[0])
    ]


def name_firsts(db: Dialect, wanted: Wanted, taken: set[Key]) -> None:
    """Name the first event of every lost key; what a repeat claimed beside them is free again."""
    lost = sorted(key for key in wanted if key not in taken)
    if not lost:
        return
    firsts = db.holders(lost)
    for key in (key for key in wanted if key in firsts):  # a delivery's id is named before its body
        (member, reason), (seq, ce_id) = wanted[key], firsts[key]
        if member.status != "duplicate":
            mark_duplicate(member, seq, ce_id or member.arrival.ce_id, reason)
    for key in sorted(taken):
        if wanted[key][0].status == "duplicate":  # a repeat claims nothing: its other key may be a newcomer's own
            db.run(f'DELETE FROM "{SEEN}" WHERE source_id = %s AND "key" = %s', list(key))


def mark_duplicate(member: Member, seq: int, ce_id: str, reason: str) -> None:
    member.status, member.reason, member.seq, member.ce_id = "duplicate", reason, seq, ce_id


def decide_starts(db: Dialect, fresh: Sequence[Member], ids: Sequence[int]) -> list[tuple[Member, Rule, int]]:
    """The runs to start, each with one of `ids`; a trigger that is full is locked, counted, and its event `skipped`."""
    full = lock_limited(db, {rule.trigger_id: rule for member in fresh for rule in member.route.matched})
    starts: list[tuple[Member, Rule, int]] = []
    for member in fresh:
        for rule in member.route.matched:
            if rule.trigger_id in full:
                outcome_of(member, rule).update(
                    outcome="skipped", detail="an earlier run of this trigger is still at work"
                )
                continue
            run_id = ids[len(starts)]
            starts.append((member, rule, run_id))
            member.runs.append(run_id)
            outcome_of(member, rule)["run"] = run_id
            if busy_limit(rule):
                full.add(rule.trigger_id)
    return starts


def outcome_of(member: Member, rule: Rule) -> dict[str, Any]:
    return next(told for told in member.route.outcomes if told["trigger"] == rule.slug)


def busy_limit(rule: Rule) -> dict[str, Any] | None:
    limit: dict[str, Any] | None = rule.limits.get("concurrency")
    return limit if limit and limit.get("when_busy") == "skip" else None


def lock_triggers(db: Dialect, rules: Iterable[Rule]) -> None:
    """Hold the rows of the triggers that count their runs, in the order of their ids."""
    for trigger_id in sorted({rule.trigger_id for rule in rules if busy_limit(rule)}):
        db.rows(f"SELECT id FROM triggers_trigger WHERE id = %s{db.lock}", [trigger_id])


def lock_limited(db: Dialect, rules: dict[int, Rule]) -> set[int]:
    """Ids of the triggers among `rules` that are at their limit; their rows stay locked until the commit."""
    full = set()
    lock_triggers(db, rules.values())
    for trigger_id, rule in sorted(rules.items()):
        limit = busy_limit(rule)
        if limit is None:
            continue
        held = WAITING_HELD if limit.get("waiting_counts") else HELD
        sql = f'SELECT count(*) FROM "{RUNS}" WHERE trigger_id = %s AND status IN ({marks(len(held))})'
        if db.rows(sql, [trigger_id, *held])[0][0] >= limit["limit"]:
            full.add(trigger_id)
    return full


def event_row(db: Dialect, member: Member, moment: Any) -> list[Any]:
    event, route = member.arrival, member.route
    return [
        *(member.seq, event.source_id, event.source, event.ce_id, event.ce_source, event.type, event.subject),
        *(db.when(event.time), event.datacontenttype, event.dataschema, event.severity, event.traceparent),
        *(event.correlationid, event.idempotencykey, event.hops, event.raw, event.data_json),
        *(orjson.dumps(event.headers).decode(), event.credentials, event.sanitized, event.remote, moment, route.status),
        *(orjson.dumps(route.outcomes).decode(), 0, event.requester_id, None),
    ]


def run_row(member: Member, rule: Rule, run_id: int, moment: Any) -> list[Any]:
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


def note_waits(db: Dialect, members: Sequence[Member]) -> None:
    """After the commit: mark the events of whose type some run waits; the others need no further look."""
    types = sorted({member.arrival.type for member in members})
    sql = f"SELECT DISTINCT type FROM triggers_wait WHERE status = %s AND type IN ({marks(len(types))})"
    awaited = {row[0] for row in db.rows(sql, ["pending", *types])}
    for member in members:
        member.awaited = member.arrival.type in awaited
