"""Events move agents: each once, in the order of their numbers, under the lock of the agent's row.

Which agent an event names is written in the event's own transaction (triggers/store.py); taking it up is the next one,
begun after the commit and repeated by tick."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from django.db import transaction

from project.lib import clock
from project.lib.apart import each, is_over
from project.lib.live import all_changed, changed
from triggers import bells, registry
from triggers.envelope import INNER, RESERVED
from triggers.hearing import STATE_LEFT, Hearing
from triggers.machines import MACHINES, MOVED, NO_MOVE, TOO_LATE, Judged, Machine, Verdict
from triggers.models import Agent, AgentEvent, AgentSnapshot, Event, Run

PIECE = 50  # events of one agent a transaction
WAITING = 5000  # agents with something to come that one round looks at
SNAPSHOT = 100  # moves between two snapshots
SUPPRESSED = "suppressed"


def move_agents(slugs: Iterable[str]) -> int:
    """Let the agents of these names take up what came for them; returns how many events that were."""
    names = {slug for slug in slugs if slug}
    if not names:
        return 0
    return each(catch_up, Agent.objects.kept().filter(slug__in=names).order_by("pk").values_list("pk", flat=True))


def move_due(limit: int) -> int:
    """The same for every agent for which something waits and whose machine is loaded here."""
    waiting = AgentEvent.objects.to_come().order_by("agent").values_list("agent", flat=True).distinct()[:WAITING]
    able = Agent.objects.filter(pk__in=list(waiting), machine__in=sorted(MACHINES)).order_by("pk")
    return each(catch_up, list(able.values_list("pk", flat=True)[:limit]))


def catch_up(agent_id: int) -> int:
    """Until nothing is left, an event is not matched yet (what came after it waits for it), or the round is over."""
    machine = MACHINES.get(Agent.objects.get(pk=agent_id).machine)
    taken = 0
    while machine and not is_over() and (judged := judge_next(agent_id, machine)):
        taken += take_up(agent_id, machine, judged)
    return taken


def judge_next(agent_id: int, machine: Machine) -> dict[int, Judged]:
    """What the guards say of the next events, by their numbers: user code runs in no transaction."""
    judged = {}
    for row in next_of(agent_id):
        if row.event.status == "accepted":
            break
        judged[row.event_id] = machine.judge(row.event)
    return judged


def next_of(agent_id: int) -> list[AgentEvent]:
    """Their events without payloads: a guard that looks reads its own."""
    rows = AgentEvent.objects.to_come().filter(agent=agent_id).order_by("event").select_related("event")
    return list(rows.defer(*(f"event__{name}" for name in ("raw", "data_json", "headers", "credentials")))[:PIECE])


def take_up(agent_id: int, machine: Machine, judged: Mapping[int, Judged]) -> int:
    """One transaction: the next events, as far as they are judged; one that came between ends it."""
    with transaction.atomic():
        agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
        if agent.archived_at is not None:  # its event was under way meanwhile
            AgentEvent.objects.to_come().filter(agent=agent).delete()
            return 0
        now, state, taken, moves = clock.now(), agent.status, 0, agent.moves
        version, heard = agent.version, []
        hearing = Hearing.after(agent, machine, agent.version)
        for row in next_of(agent_id):
            if row.event_id not in judged or row.event.status == "accepted":
                break
            taken += 1
            if is_no_concern(row.event, machine):
                row.delete()
                continue
            speaks = hearing.state_of(row.event)
            verdict = verdict_of(machine, state, row.event, judged[row.event_id], hearing.hears(speaks))
            version += 1
            heard.append(row.event_id)
            write(row, version, state, verdict, machine, now)
            if verdict.outcome == MOVED:
                state, moves = verdict.end, moves + 1
                start_runs(row.event, verdict, now)
                let_go(hearing.runs_of(hearing.move(row.event, speaks)), now)
                if moves % SNAPSHOT == 0:
                    AgentSnapshot.objects.create(agent=agent, number=version, status=state, at=now)
        if version > agent.version:
            moved = {"moved_at": now} if moves > agent.moves else {}
            Agent.objects.filter(pk=agent_id).update(status=state, version=version, moves=moves, **moved)
            changed("agents", id=agent.slug)
            all_changed("events", heard)
    return taken


def is_no_concern(event: Event, machine: Machine) -> bool:
    """What the desk says of its runs and actions along the way, unless the machine has a move on it."""
    return event.source_slug in INNER and event.emitted_by is None and not machine.hears(event.type)


def verdict_of(machine: Machine, state: str, event: Event, judged: Judged, is_heard: bool) -> Verdict:
    if event.status == SUPPRESSED:
        return Verdict(SUPPRESSED, state, f"it was handed on {event.hops} times, or the desk did this itself")
    if event.type.startswith(RESERVED) and event.source_slug not in INNER:
        return Verdict(NO_MOVE, state, f"{event.type} counts only when the desk itself says it")
    if not is_heard:
        return Verdict(TOO_LATE, state, "another event had moved the agent on from the state whose run says this")
    return machine.answer(state, event.type, judged)


def write(row: AgentEvent, number: int, state: str, verdict: Verdict, machine: Machine, now: datetime) -> None:
    AgentEvent.objects.filter(pk=row.pk).update(
        number=number,
        outcome=verdict.outcome,
        start=state,
        end=verdict.end,
        detail=verdict.detail[:500],
        machine_version=machine.version[:64],
        at=now,
    )


def start_runs(event: Event, verdict: Verdict, now: datetime) -> None:
    """The move's action first, then what the new state starts; no trigger stands behind them."""
    asker = event.admitted_by() or event.requester_id
    for handler in verdict.starts:
        code = registry.HANDLERS.get(handler)
        run = Run.objects.create(
            event=event,
            handler=handler,
            handler_version=code.version if code else "",
            queued_at=now,
            due_at=now,
            rung_at=now,
            requester_id=asker,
        )
        bells.ring_on_commit([run.pk])
        changed("runs", id=run.pk)


def let_go(runs: list[int], now: datetime) -> None:
    """Nobody hears them any more: the next round ends them, a worker at its next step."""
    held = Run.objects.select_for_update(of=("self",), no_key=True).filter(pk__in=runs).order_by("pk")
    unasked = [run.pk for run in held if run.finished_at is None and run.cancel_requested_at is None]
    Run.objects.filter(pk__in=unasked).update(cancel_requested_at=now, cancel_reason=STATE_LEFT)
    for run in unasked:
        changed("runs", id=run)


def listens(run: Run, type: str) -> bool:
    """Whether a machine started `run` and has a move on events of this type, which tell of its end."""
    if run.trigger_id is not None or not run.event.correlationid:
        return False
    row = AgentEvent.objects.filter(event=run.event_id, outcome=MOVED).select_related("agent").first()
    machine = MACHINES.get(row.agent.machine) if row else None
    return machine is not None and machine.hears(type)
