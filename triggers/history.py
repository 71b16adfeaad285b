"""What a run has done, and whether the code still asks for it: the half of the journal that is read."""

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection
from django.db.models import QuerySet

from project.lib.text import is_storable
from triggers.calls import is_left_behind
from triggers.drift import Input, differences
from triggers.errors import AskedInTransaction, Blocked, HistoryTooLong, LeftBehind, Permanent
from triggers.models import Run, Step, Wait

LONGEST_NAME = 200  # characters, with what stands around it
MANY_STEPS = 1_000  # from here on the run's page warns
MOST_STEPS = 10_000
FREE = ("log", "now", "random", "uuid", "patch")  # kinds that may come and go with the code
NAMED = 20  # steps not asked for that a difference names

inside: contextvars.ContextVar[str] = contextvars.ContextVar("inside", default="")  # the step whose function is at work


@dataclass(frozen=True, slots=True)
class Branch:
    """One of several functions of a run that stop each for itself."""

    name: str = ""  # what all its names begin with; empty: the handler itself
    beside: tuple[str, ...] = ()  # the branches next to it, and next to those around it

    def hides(self, step: str) -> bool:
        """Whether `step` belongs to another branch: what that one asks for says nothing of this one."""
        return any(step.startswith(f"{other}/") for other in self.beside)


WHOLE = Branch()
branch: contextvars.ContextVar[Branch] = contextvars.ContextVar("branch", default=WHOLE)
beneath: contextvars.ContextVar[str] = contextvars.ContextVar("beneath", default="")  # the nearest of both around


def is_in_transaction() -> bool:
    """As `atomic(durable=True)` sees it: the one around a test is none."""
    blocks = connection.atomic_blocks
    return bool(blocks) and not getattr(blocks[-1], "_from_testcase", False)


class History:
    """The steps and waits of one run, read once at the claim, and which of them the code has asked for so far."""

    def __init__(self, run: Run, *, is_new: bool = False) -> None:
        """`is_new`: nobody has worked on it before, so there is nothing to read."""
        self.run = run
        self.steps: dict[str, Step] = {} if is_new else {step.name: step for step in steps_of(run)}
        self.waits = {wait.step: wait for wait in run.waits.order_by("pk")} if run.fence > 1 else {}
        self.seq = max((step.seq for step in self.steps.values()), default=0)
        self.size = sum(step.size for step in self.steps.values())  # bytes of all results
        self.counted: dict[str, int] = {}
        waited = {wait.step: wait for wait in self.waits.values() if self.is_plain(wait)}
        steps = {step.name: step for step in self.steps.values() if not (step.inside or self.is_open(step))}
        self.ahead = {name for name, step in steps.items() if step.kind not in ("log", "patch")} | set(waited)
        self.unmet = {name: step.seq for name, step in steps.items() if self.must_fit(step)}
        self.unmet |= dict.fromkeys(waited, self.seq)
        self.released: list[str] = []  # what a step's failure led to, now that it is computed again

    def must_fit(self, step: Step) -> bool:
        """Whether a code that does not ask for it is another one. What was kept from another run is only an offer."""
        return step.kind not in FREE and step.seq > self.run.accepted_seq and step.fence > 0

    def is_open(self, step: Step) -> bool:
        """Whether it failed in a try before this one: it is computed again, if the code asks for it.

        Not so one whose function ran to its end: only what it returned could not be kept."""
        failed = step.status == "failed" and step.kind == "call" and step.fence > 0
        error = step.error or {}
        return failed and error.get("attempt") != self.run.attempt and "returned" not in error

    def is_plain(self, wait: Wait) -> bool:
        """Whether it is a wait of the handler's own that no step tells of yet."""
        return wait.step not in self.steps and wait.source != "/approvals" and "/" not in wait.step

    # Names

    def take_name(self, name: str, *, alone: bool = False) -> str:
        """`name`, or `name#2` when this run asked for it before; beneath the step or branch that asks, unless `alone`.

        Raises Permanent for a name that cannot be stored, LeftBehind in a function whose time is over."""
        if is_left_behind():
            raise LeftBehind
        around = beneath.get()
        place = f"{around}/{name}" if around and not alone else name
        self.counted[place] = number = self.counted.get(place, 0) + 1
        taken = place if number == 1 else f"{place}#{number}"
        if not name or len(taken) > LONGEST_NAME or not is_storable(taken):
            raise Permanent(f"a step is called by 1 to {LONGEST_NAME} readable characters, not {taken[:100]!a}")
        return taken

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """While the function of step `name` is at work: what it asks for is named beneath it, anew at every try."""
        for place in [place for place in self.counted if place.startswith(f"{name}/")]:
            del self.counted[place]
        asks, names = inside.set(name), beneath.set(name)
        try:
            yield
        finally:
            inside.reset(asks)
            beneath.reset(names)

    @contextmanager
    def branching(self, name: str, others: list[str]) -> Iterator[None]:
        """While branch `name` of several is at work: its names stand beneath its own, whatever the others come to."""
        around = branch.get()
        at_work = branch.set(Branch(name, (*around.beside, *others)))
        names = beneath.set(name)
        try:
            yield
        finally:
            branch.reset(at_work)
            beneath.reset(names)

    # Replay

    def recall(self, name: str, kind: str, given: Input | None = None) -> Step | None:
        """The remembered step, done or failed; None when it is to be computed now.

        Raises Blocked when the code asks for something else than the run has done, HistoryTooLong, and
        AskedInTransaction for what is not remembered yet."""
        self.meet(name)
        step = self.steps.get(name)
        if step is not None and step.seq > self.run.accepted_seq:
            refuse_other(step, kind, None if self.is_open(step) else given)
        if step is not None and step.kind == kind and step.status != "started" and not self.is_open(step):
            return step
        if is_in_transaction():
            raise AskedInTransaction
        if step is None and len(self.steps) >= MOST_STEPS:
            raise HistoryTooLong(
                f"this run remembers {MOST_STEPS:,} steps; start another one for the rest, by an event"
            )
        if step is not None and self.is_open(step):
            self.release(step)
        if kind not in FREE and not inside.get():
            self.refuse_gap(f"the code now asks for “{name}”")
        return None

    def meet(self, name: str) -> None:
        self.ahead.discard(name)
        self.unmet.pop(name, None)

    def has_more(self) -> bool:
        """Whether this run has been further than here, in this branch of it."""
        here = branch.get()
        return any(not here.hides(name) for name in self.ahead)

    def release(self, failed: Step) -> None:
        """The code may take another way from here: what followed the failure need not be asked for any more."""
        here = branch.get()
        self.released = [name for name, seq in self.unmet.items() if seq >= failed.seq and not here.hides(name)]
        for name in self.released:
            del self.unmet[name]

    def refuse_gap(self, how: str) -> None:
        """Raise Blocked when something the run has done was not asked for before this point."""
        here = branch.get()
        names = [name for name in self.unmet if not here.hides(name)]
        if not names:
            return
        raise Blocked(f"{how} where this run went on with “{names[0]}”", reason="steps_changed", orphans=names[:NAMED])


def steps_of(run: Run) -> QuerySet[Step]:
    return run.steps.select_related("blob").defer("blob__text").order_by("seq")


def refuse_other(step: Step, kind: str, given: Input | None) -> None:
    """Raise Blocked when `step` was of another kind, or was asked with other arguments."""
    if step.kind != kind:
        difference = f"step “{step.name}” was a {step.kind}, the code now asks for a {kind}"
        raise Blocked(difference, reason="kind_changed", step=step.name)
    if given is None or not given.hash or not step.input_hash or given.hash == step.input_hash:
        return
    changed = differences(step.input_text, given.text)
    which = ", ".join(item["argument"] for item in changed)
    words = f"step “{step.name}” is asked with other arguments than those it was computed from"
    raise Blocked(words + (f": {which}" if which else ""), reason="input_changed", step=step.name, inputs=changed)
