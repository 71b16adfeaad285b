"""The history of an agent played again from its events, by the code of now: nothing is started, nothing is written."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from project.lib.schema import rfc3339
from triggers.errors import NotValid, PayloadGone
from triggers.hearing import Hearing
from triggers.machines import MACHINES, MOVED, Machine
from triggers.models import Agent, AgentEvent
from triggers.models.agent import AgentEventQuerySet
from triggers.moving import verdict_of

PIECE = 200  # events read at a time
MOST = 10_000  # events of one replay
SHOWN = 200  # of them, in the answer

PAYLOADS = ("event__raw", "event__data_json", "event__headers", "event__credentials")


@dataclass(frozen=True, slots=True)
class Played:
    """One event: what it did to the agent then, and what it does now."""

    row: AgentEvent
    outcome: str
    end: str

    @property
    def is_as_it_was(self) -> bool:
        return (self.outcome, self.end) == (self.row.outcome, self.row.end)


@dataclass(slots=True)
class Replay:
    """What came of it; `state` is where the replay ends, `lived` where the agent was at that moment."""

    began_at: int  # the number of the last event that the snapshot holds; 0: from the very beginning
    state: str
    lived: str
    count: int = 0
    differences: int = 0
    played: list[Played] = field(default_factory=list)  # since the moment asked for, the first SHOWN

    @property
    def is_equal(self) -> bool:
        return self.state == self.lived and not self.differences


def replay(agent: Agent, *, since: datetime | None = None, until: datetime | None = None) -> Replay:
    """Begin at the last snapshot before `since` (None: at the beginning) and take up every event again, to `until`.

    Raises NotValid when `until` is before `since`, its machine is not loaded or too many events came, PayloadGone when
    a guard would have to read what retention removed."""
    if since and until and until < since:
        raise NotValid("`until` is earlier than `since`: there is nothing between them to replay.", field="until")
    machine = MACHINES.get(agent.machine)
    if machine is None:
        raise NotValid(f"No code is loaded for the machine `{agent.machine}`.", field="machine")
    before = agent.snapshots.filter(at__lt=since).order_by("-number").first() if since else None
    number, state = (before.number, before.status) if before else (0, machine.initial)
    found = Replay(began_at=number, state=state, lived=state)
    rows = agent.history.taken_up().filter(number__gt=number)
    if until is not None:
        rows = rows.filter(at__lte=until)
    if rows.count() > MOST:
        raise NotValid(f"More than {MOST:,} events came; ask for a later moment.", field="since")
    hearing = Hearing.after(agent, machine, number)
    for row in in_order(rows):
        one = play(machine, found.state, row, hearing)
        found.state, found.lived = one.end, row.end
        found.count += 1
        found.differences += not one.is_as_it_was
        if len(found.played) < SHOWN and (since is None or (row.at and row.at >= since)):
            found.played.append(one)
    return found


def in_order(rows: AgentEventQuerySet) -> Iterator[AgentEvent]:
    """As they were taken up, with their events but without what only a guard reads."""
    whole, place = rows.select_related("event").defer(*PAYLOADS).order_by("number"), 0
    while piece := list(whole.filter(number__gt=place)[:PIECE]):
        yield from piece
        place = piece[-1].number or place


def play(machine: Machine, state: str, row: AgentEvent, hearing: Hearing) -> Played:
    event = row.event
    if event.pruned_at is not None and machine.looks_inside(event.type):
        words = f"The payload of E-{event.pk} was removed by the rule of retention, and a guard reads it"
        raise PayloadGone(f"{words}: ask for a moment after {row.at and rfc3339(row.at)}.", event=event.pk)
    speaks = hearing.state_of(event)
    verdict = verdict_of(machine, state, event, machine.judge(event), hearing.hears(speaks))
    if verdict.outcome == MOVED:
        hearing.move(event, speaks)
    return Played(row, verdict.outcome, verdict.end)
