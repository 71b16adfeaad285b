"""What a run remembers, and the fence that keeps a worker that lost its lease from writing into it."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Exists, OuterRef

from project.lib import clock, retrying
from project.lib.failpoints import failpoint
from triggers.errors import Blocked, CancelRequested, Fenced, GivenBack, NotJson, ResultTooLarge
from triggers.models import Run, Step, Switch
from triggers.models.run import Status

MAX_RESULT = 8 * 1024 * 1024  # bytes of JSON text
T = TypeVar("T")


class Journal:
    """The steps of one run, read once at the claim and written one by one under the fence."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.steps = {step.name: step for step in run.steps.order_by("seq")}
        self.asked: dict[str, int] = {}
        self.seq = max((step.seq for step in self.steps.values()), default=0)

    def take_name(self, name: str) -> str:
        """`name`, or `name#2` when this run asked for it before."""
        self.asked[name] = number = self.asked.get(name, 0) + 1
        return name if number == 1 else f"{name}#{number}"

    def recall(self, name: str, kind: str, input_hash: str = "") -> Step | None:
        """The remembered step; raises Blocked when the code asks for another thing under this name."""
        step = self.steps.get(name)
        if step is None:
            return None
        if step.kind != kind:
            raise Blocked(f"step “{name}” was a {step.kind}, the code now asks for a {kind}")
        if input_hash and step.input_hash and step.input_hash != input_hash:
            raise Blocked(f"step “{name}” is asked with other arguments than those it was computed from")
        return step

    def write(self, work: Callable[[datetime], T], *, ending: bool = False, stopping: bool = False) -> T:
        """What `work(now)` returns, done in a transaction of `fenced()`, and again while the database is away.

        Raises what `fenced()` raises, and GivenBack when the database stays away."""

        @retrying.retried
        def write() -> T:
            with self.fenced(ending=ending, stopping=stopping) as now:
                done = work(now)
                failpoint("before_journal_commit")
            return done

        try:
            done = write()
        except (OperationalError, InterfaceError) as error:
            if retrying.passes(error):
                raise GivenBack from error
            raise
        failpoint("after_journal")
        return done

    @contextmanager
    def fenced(self, *, ending: bool = False, stopping: bool = False) -> Iterator[datetime]:
        """A transaction that holds the run's row, if it is still ours; yields the database's time.

        Raises Fenced when another worker took the run, CancelRequested when a person asked for its end
        (unless it is `stopping` for that), and GivenBack when the desk was paused (unless it is `ending`)."""
        with transaction.atomic():
            self.look(lock=True, ending=ending, stopping=stopping)
            yield clock.now()

    def look(self, *, lock: bool = False, ending: bool = False, stopping: bool = False) -> None:
        """Read whether the run is still ours, wanted and open."""
        rows = Run.objects.select_for_update(of=("self",)) if lock else Run.objects.all()
        paused = Exists(Switch.objects.holding(handler=OuterRef("handler")))
        held = rows.filter(pk=self.run.pk, fence=self.run.fence, status=Status.RUNNING).annotate(paused=paused)
        state = held.values("cancel_requested_at", "paused").first()
        if state is None:
            raise Fenced
        if state["cancel_requested_at"] and not stopping:
            raise CancelRequested
        if state["paused"] and not (ending or stopping):
            raise GivenBack

    def remember(
        self,
        name: str,
        kind: str,
        result: Any,
        *,
        now: datetime,
        started_at: datetime | None = None,
        input_hash: str = "",
        error: dict[str, Any] | None = None,
        attempt: int = 1,
    ) -> Step:
        """Write one finished step inside `write()`."""
        if kept := self.kept(name):
            return kept
        if name not in self.steps:
            self.seq += 1
        step = Step.objects.create(
            run=self.run,
            name=name,
            kind=kind,
            seq=self.seq,
            status="failed" if error else "done",
            input_hash=input_hash,
            result_json=to_json(result, f"step “{name}”"),
            error=error,
            attempt=attempt,
            fence=self.run.fence,
            started_at=started_at or now,
            finished_at=now,
        )
        self.steps[name] = step
        return step

    def kept(self, name: str) -> Step | None:
        """The step as an earlier try of this transaction left it, when its commit went through unheard."""
        if name not in self.steps:
            return None  # this is the first try
        return Step.objects.filter(run=self.run, name=name, fence=self.run.fence).first()


def to_json(value: Any, whose: str) -> str:
    """The JSON text of a result; raises NotJson with the path of the culprit, or ResultTooLarge."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"{whose} returned something JSON cannot say: {culprit(value)}") from error
    if len(text) > MAX_RESULT:
        raise ResultTooLarge(f"{whose} returned {len(text):,} bytes; the most is {MAX_RESULT:,}")
    return text


def culprit(value: Any, path: str = "$", depth: int = 0) -> str:
    """Where in `value` the part is that JSON cannot say: `$.a[3]: datetime`."""
    if depth > 100:
        return f"{path}: nested too deeply"
    parts: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        if odd := next((key for key in value if not isinstance(key, str | int | float | bool | None)), None):
            return f"{path}: key {odd!r}"
        parts = [(f"{path}.{key}", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    elif isinstance(value, float) and not math.isfinite(value):
        return f"{path}: {value}"
    elif not isinstance(value, str | int | float | bool | None):
        return f"{path}: {type(value).__name__}"
    return next((found for where, item in parts if (found := culprit(item, where, depth + 1))), "")


def fingerprint_of(*arguments: Any) -> str:
    """A hash of a step's arguments; empty when they are not JSON, and then they are not compared."""
    try:
        text = json.dumps(arguments, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()
