"""What a run writes down, and the fence that keeps a worker that lost its lease from writing into it."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Exists, QuerySet

from project.lib import clock, retrying
from project.lib.failpoints import failpoint
from project.lib.live import changed
from project.lib.prepared import Held, Insert, InsertHeld, Select, by_itself
from triggers import blobs
from triggers.calls import is_left_behind
from triggers.drift import Input
from triggers.errors import CancelRequested, Fenced, GivenBack, LeftBehind, RunTooLarge
from triggers.history import History, inside
from triggers.models import Run, Step
from triggers.models.run import LEASE, Status, switches_over_outer_run
from triggers.results import INLINE, MAX_RUN, size_of, to_json
from triggers.stopping import is_told_to_stop
from triggers.tries import Tries

LONG = 1.0  # seconds after which a step that is at work is written down, so that pages and a crash can name it
FRESH = 0.05  # seconds for which a worker trusts what it read last of whether it may go on
T = TypeVar("T")
NOTHING = Input()


def ours(pk: int, fence: int, *, lock: bool = False) -> QuerySet[Run, Any]:
    """The run while its worker holds it: is it asked to end, does a switch hold it back?"""
    rows = Run.objects.select_for_update(of=("self",), no_key=True) if lock else Run.objects.all()
    held = rows.filter(pk=pk, fence=fence, status=Status.RUNNING).annotate(paused=Exists(switches_over_outer_run()))
    return held.values_list("cancel_requested_at", "paused")


ADD = Insert(Step, *(field.attname for field in Step._meta.concrete_fields if not field.primary_key))
SEEN = Select(ours, pk=int, fence=int)
HELD = Held(partial(ours, lock=True), pk=int, fence=int)
ADD_HELD = InsertHeld(ADD, partial(ours, lock=True), pk=int, fence=int)


@dataclass(eq=False, slots=True)
class AtWork:
    """A step whose function is being called."""

    name: str
    given: Input
    inside: str
    tries: Tries
    began: float = field(default_factory=time.monotonic)
    noted: bool = False


class Journal(History):
    """The memory of one run: read once at the claim, written step by step under the fence."""

    def __init__(self, run: Run, *, is_new: bool = False) -> None:
        super().__init__(run, is_new=is_new)
        self.rows = set(self.steps)  # names that may have a row already
        self.written: set[str] = set()  # names this worker has finished, or is finishing
        self.at_work: list[AtWork] = []
        self.noting = threading.Lock()  # taken before any lock of the database
        self.seen: Sequence[Any] = (None, False)  # when a person asked for its end, whether it is paused: not so at
        self.seen_at = time.monotonic()  # its claim
        self.clock = clock.Reading(run.leased_until - LEASE) if run.leased_until else None  # as its claim read it

    # Under the fence

    def write(self, work: Callable[[datetime], T], *, ending: bool = False, stopping: bool = False) -> T:
        """What `work(now)` returns, done in a transaction of `fenced()`, and again while the database is away.

        Raises what `fenced()` raises, and GivenBack when the database stays away."""

        @retrying.retried
        def write() -> T:
            with self.fenced(ending=ending, stopping=stopping) as now:
                done = work(now)
                about_to_commit()
            return done

        try:
            done = write()
        except (OperationalError, InterfaceError) as error:
            if retrying.passes(error):
                raise GivenBack from error
            raise
        committed()
        return done

    @contextmanager
    def fenced(self, *, ending: bool = False, stopping: bool = False) -> Iterator[datetime]:
        """A transaction that holds the run's row, if it is still ours; yields the database's time.

        Raises Fenced when another worker took the run, CancelRequested when a person asked for its end
        (unless it is `stopping` for that), and GivenBack when the desk was paused (unless it is `ending`)."""
        with transaction.atomic():
            yield self.hold(ending=ending, stopping=stopping)

    def hold(self, *, ending: bool = False, stopping: bool = False) -> datetime:
        """Lock the run's row, if it is still ours, wanted and open; returns the database's time."""
        if is_left_behind():
            raise LeftBehind
        now = self.see(HELD(pk=self.run.pk, fence=self.run.fence))
        self.obey(ending=ending, stopping=stopping)
        return now

    def see(self, found: list[Any]) -> datetime:
        """Remember what a statement read of the run that it holds; returns the database's time."""
        if not found:
            raise Fenced
        now: datetime
        [(*self.seen, now)] = found
        self.seen_at = time.monotonic()
        return now

    def look(self, *, trust: float = FRESH) -> None:
        """Whether this worker may begin something now; what was read in the last `trust` seconds is not read again."""
        if is_left_behind():
            raise LeftBehind
        if time.monotonic() - self.seen_at >= trust:
            found = SEEN(pk=self.run.pk, fence=self.run.fence)
            if not found:
                raise Fenced
            [self.seen] = found
            self.seen_at = time.monotonic()
        self.obey()

    def obey(self, *, ending: bool = False, stopping: bool = False) -> None:
        """Do what was read of the run last, and what this worker was told."""
        asked_to_end, paused = self.seen
        if asked_to_end and not stopping:
            raise CancelRequested
        if (paused or is_told_to_stop()) and not (ending or stopping):
            raise GivenBack

    # Steps

    def remember(
        self,
        name: str,
        kind: str,
        result: Any,
        *,
        now: datetime,
        started_at: datetime | None = None,
        given: Input = NOTHING,
        error: dict[str, Any] | None = None,
        attempt: int = 1,
    ) -> Step:
        """Write one finished step inside `write()`; raises NotJson, ResultTooLarge, RunTooLarge."""
        text = to_json(result, f"step “{name}”")
        times = {"started_at": started_at or now, "finished_at": now}
        return self.record(name, kind, text, now=now, given=given, error=error, attempt=attempt, **times)

    def record(self, name: str, kind: str, text: str, *, now: datetime, given: Input = NOTHING, **facts: Any) -> Step:
        """The same with the result as JSON, none of a failure; over 64 KiB it becomes a blob in this transaction."""
        if kept := self.kept(name):
            return kept
        size = self.count(name, text)
        large = blobs.keep(text, size, now) if size > INLINE else None
        step = self.put(name, kind, self.seq, around=inside.get(), blob=large, **outcome(text, size, given, facts))
        if self.released:
            Step.objects.filter(run=self.run, name__in=self.released).update(inside=name)
            self.released = []
        self.steps[name] = step
        return step

    def count(self, name: str, text: str) -> int:
        """Make room for the result of this step; returns its bytes of JSON. Raises RunTooLarge."""
        size = size_of(text)
        if name not in self.written:
            if self.size + size > MAX_RUN:
                told = f"with step “{name}” this run's results are {self.size + size:,} bytes; {MAX_RUN:,} fit"
                raise RunTooLarge(told)
            self.written.add(name)
            self.seq += 1
            self.size += size
        return size

    def finish(self, name: str, text: str, facts: Callable[[datetime], dict[str, Any]]) -> Step:
        """Write what came of a call, with what `facts(now)` tells of it; also when the run is to end or to pause: it
        has happened. Raises what `record()` and `write()` raise."""
        is_one_row = name not in self.rows and not self.released and len(text) * 4 <= INLINE  # bytes of UTF-8
        if is_one_row and self.clock is not None:
            try:
                return self.append(name, text, facts(self.clock.now()))
            except (OperationalError, InterfaceError) as error:
                if not retrying.passes(error):
                    raise  # else all of it is done again, and what this may have written is looked for
        return self.write(
            lambda now: self.record(name, "call", text, now=now, **facts(now)), ending=True, stopping=True
        )

    def append(self, name: str, text: str, facts: dict[str, Any]) -> Step:
        """The row of a call, by one statement that writes it if the run is still ours."""
        if is_left_behind():
            raise LeftBehind
        size = self.count(name, text)
        told = outcome(text, size, facts.pop("given"), facts)
        step = Step(run=self.run, name=name, inside=inside.get(), seq=self.seq, fence=self.run.fence, **told)
        with by_itself():
            about_to_commit()
            self.add(step)
        committed()
        self.rows.add(name)
        self.steps[name] = step
        return step

    def add(self, step: Step) -> None:
        """Raises Fenced when another worker took the run."""
        self.see(ADD_HELD(step, pk=self.run.pk, fence=self.run.fence))

    def put(self, name: str, kind: str, seq: int, *, around: str, **facts: Any) -> Step:
        """The row of this step, new or in place of what it had when it began or failed."""
        facts |= {"kind": kind, "seq": seq, "fence": self.run.fence}
        if name in self.rows and Step.objects.filter(run=self.run, name=name).update(**facts):
            return Step(run=self.run, name=name, **facts)
        self.rows.add(name)
        step = Step(run=self.run, name=name, inside=around, **facts)
        ADD(step)
        return step

    def kept(self, name: str) -> Step | None:
        """The step as an earlier try of this transaction left it, when its commit went through unheard."""
        if name not in self.written:
            return None  # this is the first try
        own = Step.objects.filter(run=self.run, name=name, fence=self.run.fence)
        return own.exclude(status="started").first()

    # What is at work

    def begin(
        self,
        name: str,
        kind: str,
        now: datetime,
        *,
        given: Input = NOTHING,
        around: str | None = None,
        tries: list[dict[str, Any]] | None = None,
    ) -> None:
        """Write inside a fenced transaction that a step has begun: the last that is known if this worker dies."""
        around = inside.get() if around is None else around
        asked = {"input_hash": given.hash, "input_text": given.text}
        times = {"started_at": now, "finished_at": None}
        self.put(name, kind, self.seq + 1, around=around, status="started", error=None, tries=tries, **asked, **times)

    @contextmanager
    def working(self, name: str, given: Input, tries: Tries) -> Iterator[None]:
        """While the function of step `name` is called; afterwards nobody writes any more that it is at work."""
        place = len(self.at_work)
        self.at_work.append(AtWork(name, given, inside.get(), tries))
        try:
            yield
        finally:
            with self.noting:
                del self.at_work[place:]  # with what a function that is left behind is still at

    def note(self, memory: int | None) -> None:
        """Write down, from the heartbeat's thread, which steps are at work for long; most runs have none."""
        with self.noting:
            before = time.monotonic() - LONG
            long = [step for step in self.at_work if not step.noted and step.began <= before]
            if not long:
                return
            with transaction.atomic():
                held = Run.objects.filter(pk=self.run.pk, fence=self.run.fence, status=Status.RUNNING)
                if not held.update(memory_mib=memory):
                    return  # another worker has the run
                now = clock.now()
                for step in long:
                    began = now - timedelta(seconds=time.monotonic() - step.began)
                    failed = step.tries.told(now, so_far=True)
                    self.begin(step.name, "call", began, given=step.given, around=step.inside, tries=failed)
            for step in long:
                step.noted = True
        changed("runs", id=self.run.pk)


def outcome(text: str, size: int, given: Input, facts: dict[str, Any]) -> dict[str, Any]:
    """The fields of a finished step; its result is in its row up to 64 KiB."""
    return {
        "status": "failed" if facts.get("error") else "done",
        "input_hash": given.hash,
        "input_text": given.text,
        "result_json": text or None if size <= INLINE else None,
        "size": size,
        **facts,
    }


def about_to_commit() -> None:
    failpoint("before_journal_commit")


def committed() -> None:
    failpoint("after_journal")
