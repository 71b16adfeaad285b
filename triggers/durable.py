"""What a handler is given: its event, and a memory that survives a crash."""

import random
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import tenacity

from project.lib import spans
from project.lib.failpoints import failpoint
from triggers import registry
from triggers.calls import call
from triggers.drift import Input
from triggers.errors import NotJson, NotValid, Permanent, ResultTooLarge, Retry, RunTooLarge, Suspended, TimedOut
from triggers.failures import raised_again, whole
from triggers.history import inside
from triggers.ingest import store_internal
from triggers.journal import Journal
from triggers.models import Event, Run, Step, Wait
from triggers.results import readable, shown, to_json

LOOK_BACK = timedelta(seconds=60)  # an event committed late may carry an earlier number than the run's own
RESERVED = ("nightdesk.", "approvals.")  # types only the desk itself may emit
LONGEST_PAUSE = 10  # seconds between two tries of one step
T = TypeVar("T")


class Durable:
    """The `run` a handler receives. Whatever passes through a named step is computed once and replayed after."""

    def __init__(self, row: Run, journal: Journal) -> None:
        self.row = row
        self.journal = journal
        self.current_step = ""
        self.patches: dict[str, bool] = {}  # what this run was told by id

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
        tried = before.attempt if before and before.error else 0
        tries = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(retries + 1),
            wait=tenacity.wait_random_exponential(max=LONGEST_PAUSE),
            retry=tenacity.retry_if_not_exception_type((Permanent, Retry)) & tenacity.retry_if_exception_type(),
            reraise=True,
        )
        began = time.monotonic()
        try:
            with self.journal.working(name, given), spans.span(f"step {name}"):
                result = tries(self.one_try, name, function, arguments, named, timeout)
        except Exception as error:
            self.keep(name, given, began, tried + tries.statistics["attempt_number"], error=whole(error))
            raise
        failpoint("after_step_call")
        tried += tries.statistics["attempt_number"]
        try:
            step = self.keep(name, given, began, tried, text=to_json(result, f"step “{name}”"))
        except (NotJson, ResultTooLarge, RunTooLarge) as error:
            self.keep(name, given, began, tried, error=whole(error) | {"returned": shown(result)})
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
        self.journal.look()
        with self.journal.within(name):
            return call(name, function, arguments, named, timeout)

    def keep(
        self,
        name: str,
        given: Input,
        began: float,
        attempt: int,
        *,
        text: str = "",
        error: dict[str, Any] | None = None,
    ) -> Step:
        """Write what came of a call, also when the run is to end or to pause: it has happened."""
        took = timedelta(seconds=time.monotonic() - began)
        told = error and {**error, "attempt": self.row.attempt}

        def record(now: datetime) -> Step:
            facts: dict[str, Any] = {
                "given": given,
                "error": told,
                "attempt": attempt,
                "started_at": now - took,
                "finished_at": now,
            }
            return self.journal.record(name, "call", text, now=now, **facts)

        return self.journal.write(record, ending=True, stopping=True)

    def patched(self, id: str) -> bool:
        """Whether the code after this place may be the new one: False for a run that went past it with the old one.

        The answer is remembered, and the same wherever this run asks for `id`."""
        if id not in self.patches:
            name = self.journal.take_name(f"patched {id}", alone=True)
            known = self.journal.recall(name, "patch") is not None
            self.patches[id] = known or not self.journal.ahead
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
        """Register the wait and park the run in one transaction, then leave the handler."""

        def park(now: datetime) -> None:
            held = wait or Wait.objects.create(
                run=self.row,
                step=name,
                type=type,
                source=source,
                subject=subject,
                since=self.row.event.received_at - LOOK_BACK,
                registered_at=now,
                expires_at=now + timeout if timeout is not None else None,
            )
            self.row.move(
                "wait",
                wake_at=held.expires_at,
                waiting_for=" ".join(filter(None, [type, subject])) or name,
                leased_until=None,
                lease_owner="",
            )
            failpoint("before_suspend_commit")

        self.write(park, ending=True)
        raise Suspended

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


def told(step: Step) -> Any:
    """The result of a step, or the error it failed with."""
    if step.error:
        raise raised_again(step.error)
    return step.result
