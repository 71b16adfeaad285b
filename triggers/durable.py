"""What a handler is given: its event, and a memory that survives a crash."""

import random
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import tenacity

from project.lib import spans
from project.lib.failpoints import failpoint
from project.lib.text import is_storable
from triggers import registry, waking
from triggers.calls import call, outcome_of
from triggers.drift import Input
from triggers.envelope import LONGEST_NAME, LONGEST_TYPE, RESERVED, is_subject, is_type
from triggers.errors import NotJson, NotValid, Permanent, ResultTooLarge, Retry, RunTooLarge, Suspended, TimedOut
from triggers.failures import raised_again, whole
from triggers.history import branch, inside
from triggers.ingest import store_internal
from triggers.journal import FRESH, Journal
from triggers.models import Event, Run, Step, Wait
from triggers.results import readable, shown, to_json
from triggers.tries import Tries

LOOK_BACK = timedelta(seconds=60)  # an event committed late may carry an earlier number than the run's own
LONGEST_PAUSE = 10  # seconds between two tries of one step
LONGEST_SOURCE = 64  # characters of a slug
LONGEST_WAITING = 255  # characters that say what a run waits for
T = TypeVar("T")


@dataclass(frozen=True)
class Wanted:
    """A wait that a branch stopped at: the row it has, or what is to be registered."""

    step: str
    row: Wait | None
    timeout: timedelta | None
    facts: dict[str, Any]


class Durable:
    """The `run` a handler receives. Whatever passes through a named step is computed once and replayed after."""

    def __init__(self, row: Run, journal: Journal) -> None:
        self.row = row
        self.journal = journal
        self.current_step = ""
        self.patches: dict[str, bool] = {}  # what this run was told by id
        self.wanted: list[Wanted] = []  # what the branches wait for that stopped so far

    # What woke the run

    @cached_property
    def event(self) -> Event:
        """The event that started this run; `data` is the edited one when a person ran it again so."""
        event = self.row.event
        if self.row.data_json is not None:
            event.data_json = self.row.data_json
            event.__dict__.pop("data", None)
        return event

    @cached_property
    def events(self) -> list[Event]:
        """All events of this run, oldest first: one, or those that debouncing gathered; the newest is `event`."""
        rows = Event.objects.filter(gathered__run=self.row.origin_id).order_by("pk")
        gathered = list(rows) if self.row.trigger_id else []
        return [*(event for event in gathered if event.pk != self.event.pk), self.event] if gathered else [self.event]

    @cached_property
    def config(self) -> Any:
        """The trigger's config as the handler's pydantic model, or as a dict when it declares none."""
        given = self.row.trigger.config if self.row.trigger else {}
        model = registry.HANDLERS[self.row.handler].config
        return model.model_validate(given) if model else given

    # Memory

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        retries: int = 0,
        timeout: float | None = None,
        **named: Any,
    ) -> Any:
        """The remembered result of `function(*arguments, **named)`, computed the first time.

        `retries` more tries are made at once, with a short pause; `timeout` is in seconds a try, then TimeoutError.
        Raises what `function` raised, again on every replay of this attempt; NotJson, ResultTooLarge or RunTooLarge
        for a result that cannot be kept."""
        name = self.take_name(name)
        given = Input.of(arguments, named)
        before = self.journal.steps.get(name)
        if step := self.journal.recall(name, "call", given):
            return told(step)
        tries = Tries(before)
        began = time.monotonic()

        def one_try() -> Any:
            self.journal.look(trust=0.0 if tries.made else FRESH)  # between two tries much may have happened
            with tries.one():
                return self.one_try(name, function, arguments, named, timeout)

        try:
            with self.journal.working(name, given, tries), spans.span(f"step {name}"):
                result = several(retries)(one_try) if retries else one_try()
        except Exception as error:
            self.keep(name, given, began, tries, error=whole(error))
            raise
        failpoint("after_step_call")
        try:
            step = self.keep(name, given, began, tries, text=to_json(result, f"step “{name}”"))
        except (NotJson, ResultTooLarge, RunTooLarge) as error:
            self.keep(name, given, began, tries, error=whole(error) | {"returned": shown(result)})
            raise
        self.current_step = inside.get()
        return step.result

    def one_try(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        timeout: float | None,
    ) -> Any:
        with self.journal.within(name):
            return call(name, function, arguments, named, timeout)

    def keep(
        self,
        name: str,
        given: Input,
        began: float,
        tries: Tries,
        *,
        text: str = "",
        error: dict[str, Any] | None = None,
    ) -> Step:
        """Write what came of a call, also when the run is to end or to pause: it has happened."""
        took = timedelta(seconds=time.monotonic() - began)
        told = error and {**error, "attempt": self.row.attempt}

        def facts(now: datetime) -> dict[str, Any]:
            return {
                "given": given,
                "error": told,
                "attempt": tries.count,
                "tries": tries.told(now),
                "started_at": now - took,
                "finished_at": now,
            }

        return self.journal.finish(name, text, facts)

    def patched(self, id: str) -> bool:
        """Whether the code after this place may be the new one: False for a run that went past it with the old one.

        The answer is remembered, and the same wherever this run asks for `id`."""
        if id not in self.patches:
            name = self.journal.take_name(f"patched {id}", alone=True)
            known = self.journal.recall(name, "patch") is not None
            self.patches[id] = known or not self.journal.has_more()
            if self.patches[id] and not known:
                self.write(lambda now: self.journal.remember(name, "patch", True, now=now))
        return self.patches[id]

    def now(self) -> datetime:
        """The time, the same again on every replay."""
        return datetime.fromisoformat(self.once("now", lambda now: now.isoformat()))

    def random(self) -> float:
        """A number from 0 up to 1, the same again on every replay."""
        return float(self.once("random", lambda now: random.random()))

    def uuid(self) -> uuid.UUID:
        """A version 4 UUID, the same again on every replay."""
        return uuid.UUID(self.once("uuid", lambda now: str(uuid.uuid4())))

    def log(self, message: str, **facts: Any) -> None:
        """Write one line onto the run's page, once."""
        self.once("log", lambda now: {"message": str(message), "facts": readable(facts)})

    def emit(self, *, type: str, data: Any = None, subject: str = "") -> int:
        """Store an event other triggers may listen to, once; returns its number. The desk's own types are refused."""
        if type.startswith(RESERVED):
            raise NotValid(f"{type!r} is a type only the desk itself may emit")
        refuse_unfit(type, subject)
        own = self.event
        return int(
            self.once(
                "emit",
                lambda now: (
                    store_internal(
                        source="/nightdesk",
                        type=type,
                        data=data,
                        subject=subject,
                        correlationid=own.correlationid,
                        traceparent=spans.traceparent(own),
                        hops=own.hops + 1,
                        emitted_by=self.row.pk,
                    ).pk
                ),
            )
        )

    def once(self, kind: str, make: Callable[[datetime], Any]) -> Any:
        """The remembered value of the next `now`, `random`, `uuid`, `log` or `emit` of this run."""
        name = self.take_name(kind)
        if step := self.journal.recall(name, kind):
            return step.result
        step = self.write(lambda now: self.journal.kept(name) or self.journal.remember(name, kind, make(now), now=now))
        return step.result

    # Waiting

    def sleep(self, name: str, duration: timedelta) -> None:
        """Leave the worker and come back after `duration`; a year costs one row."""
        name = self.take_name(name)
        if self.journal.recall(name, "sleep"):
            return
        wait = self.pending(name)
        if wait is None or wait.status == "pending":
            self.suspend(name, wait, timeout=duration)
        began = wait.registered_at
        self.write(lambda now: self.journal.remember(name, "sleep", None, now=now, started_at=began))

    def wait_for(
        self, name: str, *, type: str, source: str, subject: str | None = None, timeout: timedelta | None = None
    ) -> Event:
        """Leave the worker until an event of this `source` (a slug, /approvals or "*"), `type` and `subject` came.

        The first event after the run's own counts, also one that came before this call. Raises TimedOut when
        `timeout` passed without one; that outcome is remembered too."""
        refuse_unfit(type, subject or "", source)
        name = self.take_name(name)
        step = self.journal.recall(name, "wait") or self.finished_wait(name, type, source, subject, timeout)
        if step.error:
            raise TimedOut(step.error["message"])
        return Event.objects.get(pk=step.result["event"])

    def finished_wait(self, name: str, type: str, source: str, subject: str | None, timeout: timedelta | None) -> Step:
        wait = self.pending(name)
        if wait is None or wait.status == "pending":
            self.suspend(name, wait, type=type, source=source, subject=subject, timeout=timeout)
        gone = {"type": "TimedOut", "message": f"no {type} came in time"} if wait.status == "expired" else None
        found = None if gone else {"event": wait.event_id}
        began = wait.registered_at
        return self.write(lambda now: self.journal.remember(name, "wait", found, now=now, started_at=began, error=gone))

    def pending(self, name: str) -> Wait | None:
        """The wait of this name as it was when a worker took the run up."""
        return self.journal.waits.get(name)

    def suspend(
        self,
        name: str,
        wait: Wait | None,
        *,
        type: str = "",
        source: str = "",
        subject: str | None = None,
        timeout: timedelta | None = None,
    ) -> NoReturn:
        """Leave the handler, and its worker as soon as no branch of it can go on."""
        facts = {"type": type, "source": source, "subject": subject}
        self.wanted.append(Wanted(name, wait, timeout, facts))
        if not branch.get().name:
            self.park()
        raise Suspended

    def park(self) -> None:
        """Register whatever is waited for and leave the worker, in one transaction.

        A wait of another branch may have ended since this worker read it: then the run is due again at once."""

        def write(now: datetime) -> None:
            waits = [one.row or self.register(one, now) for one in self.wanted]
            ends = [wait.expires_at for wait in waits if wait.expires_at is not None]
            names = [" ".join(filter(None, [wait.type, wait.subject])) or wait.step for wait in waits]
            self.row.move(
                "wait",
                wake_at=min(ends, default=None),
                waiting_for=", ".join(names)[:LONGEST_WAITING],
                leased_until=None,
                lease_owner="",
            )
            known = [one.row.pk for one in self.wanted if one.row is not None]
            if Wait.objects.filter(pk__in=known).exclude(status="pending").exists():
                waking.requeue(self.row, now)
            failpoint("before_suspend_commit")

        self.write(write, ending=True)

    def register(self, one: Wanted, now: datetime) -> Wait:
        return Wait.objects.create(
            run=self.row,
            step=one.step,
            since=self.row.event.received_at - LOOK_BACK,
            registered_at=now,
            expires_at=now + one.timeout if one.timeout is not None else None,
            **one.facts,
        )

    # Branches

    def parallel(self, branches: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """What each function returns, by the name of its branch; all wait at the same time.

        Whatever a branch asks for is named beneath it, so the order of branches may change under a waiting run. One
        that waits parks only itself; the run leaves its worker when none can go on, and returns when all have ended.
        Then the first error of theirs is raised. In one worker they take turns: waits overlap, computing does not."""
        places = {name: self.journal.take_name(checked(name)) for name in branches}
        ended: dict[str, Future[Any]] = {}
        stopped = False
        for name, function in branches.items():
            with self.journal.branching(places[name], [place for other, place in places.items() if other != name]):
                try:
                    ended[name] = outcome_of(function)
                except Suspended:
                    stopped = True
        if stopped:
            if not branch.get().name:
                self.park()
            raise Suspended
        return {name: ended[name].result() for name in branches}

    def graph(self, graph: Any, given: Any, *, name: str = "graph", limits: Mapping[str, Any] | None = None) -> Any:
        """Run a compiled LangGraph to its end, and return the values of its state; needs the package `langgraph`.

        Each superstep is a step of this run. What a node asks for by `interrupt()` is an action or a question, and
        what became of it the value that the node gets. `limits` bound what its chat models take, by the names and with
        the usual values of an agent's config; see docs/handlers.md."""
        return registry.graphs[0](self, graph, given, name, limits or {})

    def beneath_branch(self, name: str) -> str:
        """The name of what must be unique in the run, as an act: beneath the branch that asks, if one does. Of no name
        what all those beneath it begin with."""
        around = branch.get().name
        return f"{around}/{name}" if around else name

    # What the doors above this one use

    def take_name(self, name: str, *, alone: bool = False) -> str:
        self.current_step = self.journal.take_name(name, alone=alone)
        return self.current_step

    def recall(self, step: str, kind: str = "act") -> Step | None:
        """The remembered step of this exact name."""
        return self.journal.recall(step, kind)

    def write(self, work: Callable[[datetime], T], *, ending: bool = False) -> T:
        """What `work(now)` returns, done in a transaction under the run's fence. See Journal.write."""
        return self.journal.write(work, ending=ending)


def several(retries: int) -> tenacity.Retrying:
    """Calls again after an error, at most `retries` times, but for one that says when it wants to be tried again."""
    return tenacity.Retrying(
        stop=tenacity.stop_after_attempt(retries + 1),
        wait=tenacity.wait_random_exponential(max=LONGEST_PAUSE),
        retry=tenacity.retry_if_not_exception_type((Permanent, Retry)) & tenacity.retry_if_exception_type(),
        reraise=True,
    )


def told(step: Step) -> Any:
    """The result of a step, or the error it failed with."""
    if step.error:
        raise raised_again(step.error)
    return step.result


def checked(name: str) -> str:
    """The name of a branch: what stands beneath it begins with it and a slash."""
    if not name or "/" in name or "#" in name:
        raise Permanent(f"a branch is called by a word without / and #, not {name[:50]!r}")
    return name


def refuse_unfit(type: str, subject: str, source: str = "") -> None:
    """Raises NotValid for what no event can be."""
    if not is_type(type):
        raise NotValid(f"{shown(type)} is no type of an event: 1 to {LONGEST_TYPE} bytes in UTF-8, no NUL")
    if not is_subject(subject):
        raise NotValid(f"{shown(subject)} is no subject: at most {LONGEST_NAME} characters, no NUL")
    if len(source) > LONGEST_SOURCE or not is_storable(source):
        raise NotValid(f"{shown(source)} is no source: a slug of at most {LONGEST_SOURCE} characters")
