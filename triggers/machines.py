"""Machines by name: the states of an agent, the moves between them, and what each starts. Pure: no database, no clock.

A machine's class says its table; python-statemachine checks it and makes the moves."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import new_class
from typing import TYPE_CHECKING, Any, TypeVar

from statemachine import Event as Arrow
from statemachine import State, StateMachine
from statemachine.exceptions import TransitionNotAllowed

if TYPE_CHECKING:
    from triggers.models import Event

STATE = re.compile(r"[a-z][a-z0-9_]{0,63}")
LONGEST_NAME = 64  # characters of a machine's name

Guard = Callable[["Event"], bool]
Class = TypeVar("Class", bound=type)
MOVED, NO_MOVE, GUARDED, BROKEN_GUARD = "moved", "no_move", "guarded", "could_not_evaluate"
UNKNOWN_STATE, TOO_LATE = "unknown_state", "too_late"


class BadMachine(Exception):
    """The table of a machine makes no sense."""


@dataclass(frozen=True, slots=True)
class Move:
    """From `start` (one state, or several) to `end` on an event of the type `on`, if `guard(event)` says so.

    `action` names the handler that is started as a run. A guard looks at nothing but the event."""

    start: str | tuple[str, ...]
    end: str
    on: str
    guard: Guard | None = None
    action: str = ""

    @property
    def starts(self) -> tuple[str, ...]:
        return (self.start,) if isinstance(self.start, str) else self.start

    @property
    def guard_name(self) -> str:
        return getattr(self.guard, "__name__", "guard") if self.guard else ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an event does to an agent: how it ends, why in words, and the handlers to start."""

    outcome: str
    end: str
    detail: str = ""
    starts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """What the guards said of one event, by the place of their move; a guard that broke said the words in `faults`."""

    passes: Mapping[int, bool]
    faults: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A named table. The first state is where an agent begins."""

    name: str
    states: tuple[str, ...]
    moves: tuple[Move, ...]
    on_enter: Mapping[str, str]
    version: str
    doc: str
    place: str
    chart: type[StateMachine] = field(repr=False)

    @property
    def initial(self) -> str:
        return self.states[0]

    def hears(self, type: str) -> bool:
        return any(move.on == type for move in self.moves)

    def looks_inside(self, type: str) -> bool:
        """Whether a guard reads the data of events of this type."""
        return any(move.guard and move.on == type for move in self.moves)

    def judge(self, event: "Event") -> Judged:
        """Ask every guard of the event's type, whatever the state: user code runs before the transaction."""
        passes, faults = {}, {}
        for at, move in enumerate(self.moves):
            if move.on != event.type:
                continue
            try:
                passes[at] = move.guard is None or bool(move.guard(event))
            except Exception as error:  # a guard is user code; what it quotes of the payload is not kept
                passes[at], faults[at] = False, f"guard {move.guard_name} raised {type(error).__name__}"
        return Judged(passes, faults)

    def answer(self, state: str, type: str, judged: Judged) -> Verdict:
        """Which move an event of `type` makes from `state`: the first whose guard passes."""
        if state not in self.states:
            return Verdict(UNKNOWN_STATE, state, f"{self.name} has no state {state} any more")
        if fault := self.fault_before_a_yes(state, type, judged):
            return Verdict(BROKEN_GUARD, state, fault)
        made: list[int] = []
        try:
            self.chart(start_value=state).send(type, passes=judged.passes, made=made)
        except TransitionNotAllowed:
            return self.refusal(state, type, judged)
        move = self.moves[made[0]]
        starts = filter(None, (move.action, self.on_enter.get(move.end, "")))
        return Verdict(MOVED, move.end, move.guard_name, tuple(starts))

    def places(self, state: str, type: str) -> list[int]:
        return [at for at, move in enumerate(self.moves) if move.on == type and state in move.starts]

    def fault_before_a_yes(self, state: str, type: str, judged: Judged) -> str:
        """A guard that broke may have said yes: no later one speaks in its place."""
        for at in self.places(state, type):
            if at in judged.faults or judged.passes.get(at):
                return judged.faults.get(at, "")
        return ""

    def refusal(self, state: str, type: str, judged: Judged) -> Verdict:
        asked = self.places(state, type)
        if not asked:
            return Verdict(NO_MOVE, state, f"{state} has no move on {type}")
        names = ", ".join(self.moves[at].guard_name for at in asked)
        return Verdict(GUARDED, state, f"{names} said no")


MACHINES: dict[str, Machine] = {}


class DuplicateMachine(Exception):
    """Two classes claim one name."""


def machine(name: str, *, version: str = "1") -> Callable[[Class], Class]:
    """Register the class below under `name`: its `states`, `moves` and `on_enter` (state -> handler).

    Raises DuplicateMachine when the name is taken, BadMachine when the table makes no sense."""

    def register(table: Class) -> Class:
        place = f"{table.__module__}.{table.__qualname__}"
        if name in MACHINES and MACHINES[name].place != place:
            raise DuplicateMachine(f"machine {name!r} is registered by {MACHINES[name].place} already")
        MACHINES[name] = read(name, table, version=version, place=place)
        return table

    return register


def read(name: str, table: type, *, version: str, place: str) -> Machine:
    """The machine that a class says. Raises BadMachine in words."""
    said: Any = table
    states, moves = tuple(getattr(said, "states", ())), tuple(map(move_of, getattr(said, "moves", ())))
    on_enter = dict(getattr(said, "on_enter", {}))
    check(name, states, moves, on_enter)
    return Machine(
        name=name,
        states=states,
        moves=moves,
        on_enter=on_enter,
        version=version,
        doc=(table.__doc__ or "").strip(),
        place=place,
        chart=chart_of(name, states, moves),
    )


def move_of(given: Move | Sequence[Any]) -> Move:
    return given if isinstance(given, Move) else Move(*given)


def check(name: str, states: Sequence[str], moves: Iterable[Move], on_enter: Mapping[str, str]) -> None:
    if not 0 < len(name) <= LONGEST_NAME:
        raise BadMachine(f"a machine is called by 1 to {LONGEST_NAME} characters")
    if len(states) < 2 or len(set(states)) < len(states):
        raise BadMachine(f"machine {name}: `states` are two or more different names, the first is where it begins")
    for state in states:
        if not STATE.fullmatch(state):
            raise BadMachine(f"machine {name}: a state is called by small letters, digits and `_`, not {state!r}")
    named = {state for move in moves for state in (*move.starts, move.end)} | set(on_enter)
    if unknown := sorted(named - set(states)):
        raise BadMachine(f"machine {name}: there is no state {unknown[0]!r}")
    if nameless := [move for move in moves if not move.on]:
        raise BadMachine(f"machine {name}: the move to {nameless[0].end!r} names no type of event")


def chart_of(name: str, states: Sequence[str], moves: Sequence[Move]) -> type[StateMachine]:
    """The same table as python-statemachine has it. Raises its InvalidDefinition for a state that no move reaches."""
    leaves = {state for move in moves for state in move.starts}
    rows = {state: State(state, value=state, initial=state == states[0], final=state not in leaves) for state in states}
    arrows: dict[str, Any] = {}
    for at, move in enumerate(moves):
        for start in move.starts:
            arrow = rows[start].to(rows[move.end], cond=passed(at), on=noted(at))
            arrows[move.on] = arrows[move.on] | arrow if move.on in arrows else arrow
    events = {f"on_{at}": Arrow(arrow, id=on, name=on) for at, (on, arrow) in enumerate(arrows.items())}
    attributes = {**rows, **events, "validate_final_reachability": False}
    chart: type[StateMachine] = new_class(name, (StateMachine,), exec_body=lambda body: body.update(attributes))
    return chart


def passed(at: int) -> Callable[[Mapping[int, bool]], bool]:
    def says(passes: Mapping[int, bool]) -> bool:
        return passes.get(at, False)  # the library also tries the moves of a type that this one only begins with

    return says


def noted(at: int) -> Callable[[list[int]], None]:
    def note(made: list[int]) -> None:
        made.append(at)

    return note
