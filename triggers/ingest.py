"""The one door for events: believed, stored once, matched, and their runs started, in one transaction."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, connection, transaction

from project.lib import clock
from project.lib.apart import each
from project.lib.failpoints import failpoint
from project.lib.live import changed
from triggers import bells, flow, middleware, moving, pace, receipts, registry, routing, store, tallies, waking
from triggers.dialect import Cursor, Dialect, Postgres
from triggers.envelope import INNER, Arrival
from triggers.errors import QueueFull, TriggerFull
from triggers.models import AgentEvent, Event, Trigger
from triggers.results import data_of
from triggers.routing import Route, Table
from triggers.store import ConfigChanged, Member

TRIES = 3  # times a batch is matched again because the configuration changed under it


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one arrival; `seq` and `ce_id` are those of the first when it is a duplicate."""

    status: str  # accepted, duplicate, invalid
    seq: int
    ce_id: str
    reason: str = ""
    runs: tuple[int, ...] = ()


Along = Callable[[list[Outcome]], None]


def ingest(arrivals: Sequence[Arrival], *, along: Along | None = None, overload: str = "") -> list[Outcome]:
    """Store each arrival once and start its runs, all in one commit; bells ring after it.

    Equal keys, in the batch or claimed before, give the first one's numbers and start nothing. `along` writes what
    belongs into the same commit; what it raises undoes all of it. `overload`: keep them and match them later, `rate`
    at the rate of their source, `room` as soon as can be.
    Raises TriggerFull when a trigger wants its senders to wait, QueueFull when the database does not take them."""
    for _ in range(TRIES):
        known = routing.table()
        members = prepared(arrivals, known, overload)
        try:
            commit(members, known, along)
        except ConfigChanged:
            continue
        except TriggerFull as full:
            note_full(full)
            raise
        failpoint("after_event_commit")
        transaction.on_commit(lambda: announce(members), robust=True)  # noqa: B023 -- the loop ends here
        return [outcome_of(member) for member in members]
    raise QueueFull("The configuration changes too fast to take events; send it again.")


def prepared(arrivals: Sequence[Arrival], known: Table, overload: str = "") -> list[Member]:
    """Ask the rules before BEGIN: no filter runs inside a transaction."""
    if overload:
        return [Member(arrival, routing.kept(arrival, is_held=overload == "rate")) for arrival in arrivals]
    return [Member(arrival, routing.route(arrival, known, at_door=True)) for arrival in arrivals]


def commit(members: Sequence[Member], known: Table, along: Along | None = None) -> None:
    """One transaction: all members or none."""
    try:
        write(members, known, along)
    except DatabaseError as error:
        raise QueueFull("The database does not take events right now.") from error


def note_full(full: TriggerFull) -> None:
    """Let tick say that this queue is full; after the rollback that undid everything else."""
    Trigger.objects.filter(slug=full.facts["trigger"], full_at=None).update(full_at=clock.now())


def fresh_start(member: Member) -> None:
    member.status, member.reason, member.runs, member.bells, member.full = "accepted", "", [], [], None
    for told in member.route.outcomes:
        told.pop("run", None)
        if told["outcome"] in flow.OUTCOMES:
            told["outcome"] = "matched"
            del told["detail"]


def write(members: Sequence[Member], known: Table, along: Along | None) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        store.write(dialect(cursor), members, known.version)
        if along is not None:
            along([outcome_of(member) for member in members])


def dialect(cursor: Cursor) -> Dialect:
    return Postgres(cursor) if connection.vendor == "postgresql" else Dialect(cursor)


def outcome_of(member: Member) -> Outcome:
    return Outcome(member.told_status, member.seq, member.ce_id, member.reason, tuple(member.runs))


def announce(members: Sequence[Member]) -> None:
    """After the commit: ring for the runs, wake who waited, tell the browsers."""
    fresh = [member for member in members if member.status != "duplicate"]
    bells.ring([run for member in fresh for run in member.bells])
    for member in members:
        if member.status == "duplicate":
            tallies.note("duplicates", member.arrival.source)
    if fresh:
        waking.wake_waits([member.seq for member in fresh if member.route.status != routing.LATER])
        match_stored([member.seq for member in fresh if member.route.status == routing.LATER and not member.is_held])
        moving.move_agents(member.arrival.correlationid for member in fresh)
        receipts.tell([member.seq for member in fresh if member.route.status != routing.LATER])
    changed("events")


def store_internal(
    *,
    source: str,
    type: str,
    data: Any = None,
    subject: str = "",
    correlationid: str = "",
    traceparent: str = "",
    hops: int = 0,
    severity: str = "info",
    emitted_by: int | None = None,
    requester_id: int | None = None,
) -> Event:
    """Store an event of the desk's own inside the caller's transaction; it is matched in the next one.

    Its caller's compare-and-set makes it single, so no key is claimed."""
    event = Event.objects.create(
        source_slug=source,
        ce_id=str(uuid.uuid4()),
        ce_source=source if emitted_by is None else f"{source}/runs/{emitted_by}",
        type=type,
        subject=subject,
        datacontenttype="application/json",
        data_json=data_of(data, type),
        correlationid=correlationid,
        traceparent=traceparent,
        hops=hops,
        severity=severity,
        received_at=clock.now(),
        emitted_by=emitted_by,
        requester_id=requester_id,
    )
    if correlationid:
        with connection.cursor() as cursor:
            store.name_agents(dialect(cursor), [(event.pk, correlationid)])
    transaction.on_commit(lambda: match_stored([event.pk]), robust=True)
    return event


def match_stored(event_ids: Sequence[int] | None, limit: int = 500) -> int:
    """Match events that were only stored (born inside, too large for the door, or cut short), each on its own.

    None: all whose turn it is."""
    if event_ids is None:
        return each(match_one, pace.to_match(limit))
    waiting = Event.objects.unmatched().filter(pk__in=list(event_ids)).order_by("pk")
    return each(match_one, list(waiting.values_list("pk", flat=True)[:limit]))


def match_one(event_id: int) -> bool:
    """Ask the rules, then start the runs and write the outcomes in one transaction; False when it was done already."""
    event = Event.objects.get(pk=event_id)
    if event.status != "accepted":
        return False
    known = routing.table()
    route, edits = judged(event, known)
    event.requester_id = event.admitted_by() or event.requester_id  # of its runs; its own stays as it was
    member = Member(event, route, seq=event.pk)  # type: ignore[arg-type]
    with transaction.atomic(), connection.cursor() as cursor:
        flow.lock(dialect(cursor), member.route.matched)  # before the event, as everywhere
        held = Event.objects.select_for_update(of=("self",), no_key=True).filter(pk=event_id, status="accepted")
        if not held.values_list("pk", flat=True).first():
            return False
        if not store.start_runs(dialect(cursor), member, known.version):
            return False
        Event.objects.filter(pk=event_id).update(status=route.status, outcomes=route.outcomes, **edits)
        if route.status in waking.DEAF:
            AgentEvent.objects.to_come().filter(event=event_id).delete()
        else:
            store.name_agents(dialect(cursor), [(event_id, event.correlationid)])
        if route.refused:
            for hook in registry.at_refusal:
                hook(event, route.refused)
        transaction.on_commit(lambda: announce([member]), robust=True)
        changed("events", id=event_id)
    failpoint("after_matching")
    return True


def judged(event: Event, known: Table) -> tuple[Route, dict[str, Any]]:
    """What becomes of a stored event, and what a middleware made of it. User code runs here, in no transaction."""
    if (away := routing.turned_away(event, known, at_door=False)) is not None:
        return away, {}
    edits: dict[str, Any] = {}
    if registry.MIDDLEWARE and event.source_slug not in INNER:
        passed = middleware.passed(event)
        if passed.end:
            why = {**passed.error, "handler": f"middleware {passed.by}"} if passed.error else {}
            return Route([], [passed.outcome], passed.end, refused=why), {}
        edits = passed.changed
        for name, value in edits.items():
            setattr(event, name, value)
    return routing.ask(event, known, at_door=False), edits
