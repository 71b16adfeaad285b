"""Events written many at a time: one statement a table, on either database, inside the caller's transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from triggers import flow, seen
from triggers.dialect import MOST_PARAMETERS, Dialect, Opening, marks, parts
from triggers.envelope import Arrival
from triggers.errors import TriggerFull
from triggers.matching import Rule, RuleOutcome
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
EVENTS, RUNS = "triggers_event", "triggers_run"


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
    bells: list[int] = field(default_factory=list)  # of these, what may be taken up at once
    full: TriggerFull | None = None  # why it was not stored
    awaited: bool = True  # whether a run may wait for an event of this type

    @property
    def is_held(self) -> bool:
        """Its source sends too fast: it is matched when its turn comes, not right away."""
        return self.route.is_held

    @property
    def told_status(self) -> str:
        """What its sender hears: one that its type's schema refuses is kept all the same."""
        return "invalid" if self.route.refused and self.status != "duplicate" else self.status


class ConfigChanged(Exception):
    """The batch was matched under another version of the configuration."""


def write(db: Dialect, members: Sequence[Member], version: int) -> None:
    """Claim the keys, then write events and runs; fills `seq`, `status`, `reason` and `runs` of every member.

    Raises ConfigChanged when the configuration is no longer at `version`, TriggerFull for a sender who is to wait."""
    opening = db.opening(len(members), sum(len(member.route.matched) for member in members))
    if opening.version != version:
        raise ConfigChanged
    for member, seq in zip(members, opening.events, strict=True):
        member.seq, member.ce_id = seq, member.arrival.ce_id
    seen.claim(db, members, opening.now)
    fresh = [member for member in members if member.status != "duplicate"]
    if fresh:
        start(db, fresh, opening, at_edge=True)
        moment = db.when(opening.now)
        db.insert(EVENTS, EVENT_COLUMNS, [event_row(db, member, moment) for member in fresh])
        name_agents(db, [(member.seq, member.arrival.correlationid) for member in fresh])
    count_duplicates(db, members)


def start_runs(db: Dialect, member: Member, version: int) -> bool:
    """Start the runs of an event that is stored already; False when the configuration has changed."""
    opening = db.opening(0, len(member.route.matched))
    if opening.version != version:
        return False
    start(db, [member], opening, at_edge=False)
    return True


@dataclass(slots=True)
class Start:
    """A run that is to be written; `due` and `values` (of FLOW_COLUMNS) where its trigger holds back."""

    member: Member
    rule: Rule
    run_id: int
    due: datetime | None = None
    rings: bool = True
    values: tuple[Any, ...] | None = None


def start(db: Dialect, fresh: Sequence[Member], opening: Opening, *, at_edge: bool) -> None:
    """Write the runs these events start, and note in their routes what became of every match.

    Plain ones are written together; where a trigger holds back, each sees the one before. Raises TriggerFull."""
    flow.lock(db, [rule for member in fresh for rule in member.route.matched])
    ids, plain, moment = iter(opening.runs), [], db.when(opening.now)
    for member in fresh:
        for rule in member.route.matched:
            one = Start(member, rule, next(ids))
            if rule.flow is None:
                plain.append(one)
                note_start(one)
            elif passes_limits(db, one, opening.now, at_edge=at_edge):
                db.insert(RUNS, RUN_COLUMNS + flow.FLOW_COLUMNS, [(*run_row(db, one, moment), *(one.values or ()))])
    db.insert(RUNS, RUN_COLUMNS, [run_row(db, one, moment) for one in plain])


def passes_limits(db: Dialect, one: Start, now: datetime, *, at_edge: bool) -> bool:
    """Let the trigger's limits decide; whether a run is to be written."""
    member, rule = one.member, one.rule
    keys = member.route.keys.get(rule.trigger_id, {})
    try:
        decision = flow.Gate(db, rule, now).decide(member.seq, keys, one.run_id, at_edge=at_edge)
    except TriggerFull as full:
        member.full = full
        raise
    if decision.values is None:
        told = outcome_of(member, rule)
        told["outcome"], told["detail"] = decision.outcome, decision.detail
        if decision.run:
            told["run"] = decision.run
        return False
    one.due, one.values, one.rings = decision.due, decision.values, decision.rings
    note_start(one)
    return True


def note_start(one: Start) -> None:
    one.member.runs.append(one.run_id)
    if one.rings:
        one.member.bells.append(one.run_id)
    outcome_of(one.member, one.rule)["run"] = one.run_id


def outcome_of(member: Member, rule: Rule) -> RuleOutcome:
    for told in member.route.outcomes:
        if told["trigger"] == rule.slug:
            return told
    raise LookupError(rule.slug)


def event_row(db: Dialect, member: Member, moment: Any) -> tuple[Any, ...]:
    event, route = member.arrival, member.route
    return (
        member.seq,
        event.source_id,
        event.source,
        event.ce_id,
        event.ce_source,
        event.type,
        event.subject,
        event.time and db.when(event.time),
        event.datacontenttype,
        event.dataschema,
        event.severity,
        event.traceparent,
        event.correlationid,
        event.idempotencykey,
        event.hops,
        event.raw,
        event.data_json,
        orjson.dumps(event.headers).decode(),
        event.credentials,
        event.sanitized,
        event.remote,
        moment,
        route.status,
        orjson.dumps(route.outcomes).decode(),
        0,
        event.requester_id,
        None,
    )


def run_row(db: Dialect, one: Start, moment: Any) -> tuple[Any, ...]:
    rule, due, rung = one.rule, db.when(one.due) if one.due else moment, moment if one.rings else None
    about = (one.run_id, rule.trigger_id, one.member.seq, rule.handler, rule.handler_version, "queued", "")
    return (*about, rule.priority, 0, 1, 0, moment, due, rung, "", "", "[]", one.member.arrival.requester_id)


def count_duplicates(db: Dialect, members: Iterable[Member]) -> None:
    """Count every repeat on the first event."""
    counts: dict[int, int] = {}
    for member in members:
        if member.status == "duplicate":
            counts[member.seq] = counts.get(member.seq, 0) + 1
    for seq, count in sorted(counts.items()):
        db.run(f'UPDATE "{EVENTS}" SET duplicates = duplicates + %s WHERE id = %s', [count, seq])


def name_agents(db: Dialect, told: Iterable[tuple[int, str]]) -> None:
    """Note for each agent which of these stored events name it, once: `(event, correlationid)`."""
    named = [(event, slug) for event, slug in told if slug]
    agents: dict[str, int] = {}
    for some in parts(sorted({slug for _, slug in named}), MOST_PARAMETERS):
        sql = f"SELECT slug, id FROM triggers_agent WHERE archived_at IS NULL AND slug IN ({marks(len(some))})"
        agents |= dict(db.rows(sql, some))
    rows = [(agents[slug], event) for event, slug in named if slug in agents]
    for few in parts(rows, MOST_PARAMETERS // 2):
        values = ", ".join(["(%s, %s)"] * len(few))
        once = "ON CONFLICT (event_id) DO NOTHING"
        sql = f"INSERT INTO triggers_agentevent (agent_id, event_id) VALUES {values} {once}"
        db.run(sql, [value for row in few for value in row])
