"""Whose word moves an agent: what the run of a state says counts until another event has moved the agent on."""

from dataclasses import dataclass
from typing import Any

from triggers.machines import MOVED, Machine
from triggers.models import Agent, Event, Run

OF_RUN = "nightdesk.run."  # the desk's own words of how a run ended
STATE_LEFT = "state_left"  # the reason of a run that is asked to go, since nobody hears it any more


@dataclass(slots=True)
class Hearing:
    """Of one agent at one moment of its history. A state is known here by the event that entered it.

    `last` is the event of its last move, and `by` the one whose state's run said that event. The runs of these two are
    heard; None: there is no such."""

    agent: Agent
    machine: Machine
    last: int | None
    by: int | None

    @classmethod
    def after(cls, agent: Agent, machine: Machine, number: int) -> "Hearing":
        """As it was when the agent had taken up this many events."""
        moves = agent.history.filter(outcome=MOVED, number__lte=number).select_related("event")
        row = moves.defer("event__raw", "event__data_json", "event__headers", "event__credentials")
        last = row.order_by("-number").first()
        said = cls(agent, machine, None, None)
        return cls(agent, machine, last.event_id, said.state_of(last.event)) if last else said

    def hears(self, state: int | None) -> bool:
        """Whether what a run of this state says counts; whoever is none of an agent's own is always heard."""
        return state is None or state in (self.last, self.by)

    def move(self, event: Event, state: int | None) -> list[int]:
        """The event, said by a run of `state`, moved the agent; the states whose runs are heard no more."""
        heard = {self.last, self.by}
        self.last, self.by = event.pk, state
        return sorted(one for one in heard - {self.last, self.by} if one is not None)

    def state_of(self, event: Event) -> int | None:
        """The state whose run said this event, or ended by it; None for whoever else did."""
        run = speaker_of(event)
        return next((state for _, state in self.runs(pk=run)), None) if run is not None else None

    def runs_of(self, states: list[int]) -> list[int]:
        """Those that these states started and that have not ended; a move's `action` goes on whatever becomes of it."""
        return [run for run, _ in self.runs(finished_at=None, event__in=states)]

    def runs(self, **which: Any) -> list[tuple[int, int]]:
        """Of states of this agent, each with the state that started it."""
        moved = {"trigger": None, "event__moved__agent": self.agent, "event__moved__outcome": MOVED}
        found = Run.objects.filter(**moved, **which).order_by("pk")
        rows = found.values_list("pk", "event", "handler", "event__moved__end")
        return [(run, event) for run, event, handler, state in rows if self.machine.on_enter.get(state) == handler]


def speaker_of(event: Event) -> int | None:
    """The run that emitted it, or of whose end the desk tells by it."""
    if event.emitted_by is not None:
        return event.emitted_by
    if event.source_slug == "/nightdesk" and event.type.startswith(OF_RUN):
        number = event.subject.removeprefix("runs/")
        return int(number) if number.isdecimal() else None
    return None
