"""The rows of a run's timeline: its steps, its waits, and what it does outside of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from project.lib.language import phrase, spoken
from triggers.drift import named
from triggers.models import Run, Step, Wait
from triggers.models.run import Status
from triggers.views.story import PERSON, Facts, capital
from triggers.views.timeline import Bar, Row

SMALL = ("log", "now", "random", "uuid", "patch")  # remembered, but nothing to look at on a timeline
DRAWN = 200_000  # bytes of a result that a page shows
NOTICEABLE = timedelta(milliseconds=250)


def rows_of(facts: Facts, steps: Sequence[Step]) -> list[Row]:
    """Every row, in the order things happened."""
    run = facts.run
    waits: dict[str, list[Wait]] = {}
    for wait in facts.waits:
        waits.setdefault(name_of(wait), []).append(wait)
    rows = [queue_row(facts)] + [step_row(step, waits.pop(step.name, []), facts) for step in steps]
    rows += [wait_row(name, left, facts) for name, left in waits.items()]
    last = max([bar.end for row in rows for bar in row.bars], default=run.queued_at)
    busy = any(step.status == "started" and step.kind == "call" for step in steps)
    rows += [row for row in (ending_row(facts, last, busy),) if row is not None]
    return rows


def name_of(wait: Wait) -> str:
    """The step a wait belongs to: an act numbers its own (`open the fix · settled 1`)."""
    return wait.step.rpartition(" · ")[0] if wait.subject and wait.subject.startswith("actions/") else wait.step


def action_of(name: str, facts: Facts) -> int | None:
    return next((action.pk for action in facts.actions if action.step == name), None)


def queue_row(facts: Facts) -> Row:
    run = facts.run
    end = run.started_at or run.finished_at or facts.now
    waits = end - run.queued_at
    status = "done" if run.started_at else ("cancelled" if run.has_ended else "queued")
    bar = Bar("queue", run.queued_at, max(end, run.queued_at), phrase("In the queue"))
    return Row(queue_words(facts), status, [bar], kind="queue", took=waits)


def queue_words(facts: Facts) -> str:
    """What it waits for before its first try, as the box on top says it; or did, where its row tells."""
    run = facts.run
    if run.started_at is None and facts.paused is not None:
        return phrase("Paused")
    if run.started_at is None and facts.hold is not None and facts.hold.brief:
        return capital(spoken(facts.hold.brief))
    return phrase("Wait for a worker")


def step_row(step: Step, waits: Sequence[Wait], facts: Facts) -> Row:
    end = max(step.finished_at or facts.now, step.started_at)
    bars = [wait_bar(wait, facts) for wait in waits]
    tries = tries_of(step)
    if tries and step.status != "started":
        bars += try_bars(tries)
    elif not bars or step.kind not in ("sleep", "wait", "act"):
        tone = {"failed": "fail", "started": "run"}.get(step.status, "ok")
        bars += [*try_bars(tries), Bar(tone, step.started_at, end, "At work")]
    return Row(
        name=step.name,
        status=status_of(step, waits, facts),
        bars=bars,
        kind=step.kind,
        note=note_of(step, waits, facts),
        link=step.name,
        action_id=action_of(step.name, facts) if step.kind == "act" else None,
        took=max(bar.end for bar in bars) - min(bar.start for bar in bars),
        is_problem=step.status == "failed" or step.attempt > 1,
    )


@dataclass(frozen=True, slots=True)
class Try:
    """One call of a step's function; `pause` is the time after it until the next."""

    n: int
    started_at: datetime
    finished_at: datetime
    error: dict[str, str] | None
    pause: timedelta | None

    @property
    def took(self) -> timedelta:
        return self.finished_at - self.started_at


def tries_of(step: Step) -> list[Try]:
    """Each of them, oldest first; none when there was but one, of which the step itself tells."""
    told = step.tries or []
    times = [[datetime.fromisoformat(one[name]) for name in ("started_at", "finished_at")] for one in told]
    pauses = [begins - ended for (_, ended), (begins, _) in pairwise(times)]
    return [
        Try(one["n"], began, ended, one["error"], pause)
        for one, (began, ended), pause in zip(told, times, [*pauses, None], strict=False)
    ]


def try_bars(tries: Sequence[Try]) -> list[Bar]:
    bars = []
    for one in tries:
        told = phrase("Try {n} failed", n=one.n) if one.error else phrase("Try {n} worked", n=one.n)
        bars.append(Bar("fail" if one.error else "ok", one.started_at, one.finished_at, told))
        if one.pause is not None:
            ended = one.finished_at + one.pause
            bars.append(Bar("retry", one.finished_at, ended, phrase("Pause before the next try")))
    return bars


def status_of(step: Step, waits: Sequence[Wait], facts: Facts) -> str:
    """Its own; one that began also says what became of that: at work, waiting, or cut short."""
    if step.status != "started":
        return step.status
    if any(wait.status == "pending" for wait in waits):
        return "awaiting" if facts.waits_for_person else "waiting"
    if facts.run.status in (Status.RUNNING, Status.BLOCKED):
        return "started" if facts.run.status == Status.RUNNING else "blocked"
    return "cancelled" if facts.run.has_ended else "queued"


def wait_bar(wait: Wait, facts: Facts) -> Bar:
    end = max(wait.ended_at or facts.now, wait.registered_at)
    return Bar("wait", wait.registered_at, end, wait_words(wait))


def note_of(step: Step, waits: Sequence[Wait], facts: Facts) -> str:
    if step.status == "failed":
        return str((step.error or {}).get("type", "failed"))
    if step.status == "started":
        return who_decides(facts) if status_of(step, waits, facts) == "awaiting" else ""
    return phrase("worked at try {n}", n=step.attempt) if step.attempt > 1 else ""


def who_decides(facts: Facts) -> str:
    """Whom the wait is for, and how many of them know: `payments-oncall, 3 told`."""
    if facts.asked is None:
        return phrase("a person decides")
    who, told = facts.asked
    return phrase("{who}, {told} told", who=who, told=told) if told else phrase("{who} decides", who=who)


def wait_row(name: str, waits: Sequence[Wait], facts: Facts) -> Row:
    """A wait whose outcome the handler has not read yet, or never will."""
    last = waits[-1]
    pending = last.status == "pending"
    status = {"pending": "waiting", "resolved": "done"}.get(last.status, last.status)
    bars = [wait_bar(wait, facts) for wait in waits]
    note = ""
    if pending and facts.waits_for_person:
        status, note = "awaiting", who_decides(facts)
    took = max(bar.end for bar in bars) - min(bar.start for bar in bars)
    return Row(name, status, bars, kind="wait", note=note, action_id=action_of(name, facts), took=took)


def wait_words(wait: Wait) -> str:
    if wait.type.startswith(PERSON):
        return phrase("Waited for a person") if wait.ended_at else phrase("Waits for a person")
    return phrase("Waits for {type}", type=wait.type) if wait.type else phrase("Sleeps")


def ending_row(facts: Facts, last: datetime, busy: bool) -> Row | None:
    """What the run does outside of remembered steps: work under way, the pause before a try, the failure."""
    run = facts.run
    if run.status == Status.RUNNING and not busy:
        start = max(last, run.started_at or last)
        return Row(
            phrase("At work"),
            "running",
            [Bar("run", min(start, facts.now), facts.now, phrase("A worker is on it"))],
            took=facts.now - start,
        )
    if run.status == Status.RETRYING:
        bar = Bar("retry", last, max(run.due_at, last), phrase("Pause before the next try"))
        return Row(
            phrase("Try {n}", n=run.attempt), "retrying", [bar], note=phrase("starts by itself"), is_problem=True
        )
    if run.status == Status.DEAD and run.finished_at:
        step = facts.letter.step if facts.letter else ""
        start = max(last, min(run.finished_at - NOTICEABLE, run.finished_at))
        bar = Bar("fail", min(start, run.finished_at), max(run.finished_at, last), phrase("Failed"))
        note = str((run.error or {}).get("type", ""))
        return Row(step or phrase("Failed"), "failed", [bar], note=note, took=None, is_problem=True)
    return None


def orphans_of(run: Run) -> list[tuple[str, list[str]]]:
    """What a blocked run remembers and its code has not asked for, by how far it came."""
    names: list[str] = (run.error or {}).get("orphans", [])
    begun = set(run.steps.filter(name__in=names, status="started").values_list("name", flat=True)) if names else set()
    told = [
        (phrase("Done"), [name for name in names if name not in begun]),
        (phrase("Begun, not ended,"), [name for name in names if name in begun]),
    ]
    return [(words, some) for words, some in told if some]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One `run.log(...)`."""

    at: datetime
    message: str
    facts: dict[str, Any]


def log_of(steps: Iterable[Step]) -> list[LogLine]:
    """The lines, oldest first."""
    lines = []
    for step in steps:
        value = step.result if isinstance(step.result, dict) else {"message": step.result}
        lines.append(LogLine(step.started_at, str(value.get("message", "")), value.get("facts") or {}))
    return lines[::-1]


def chosen_of(run: Run, steps: Sequence[Step], name: str) -> Step | None:
    """The step of the side panel: the one asked for, else the one that failed, else the last that worked.

    `output` is its result as JSON, as long as a page can draw it, `told_tries` each of its tries."""
    failed = next((step for step in steps if step.status == "failed"), None)
    chosen = name or (failed or steps[-1] if steps else None)
    if chosen is None:
        return None
    step = run.steps.filter(name=str(chosen)).select_related("blob").defer("blob__text").first()
    if step is not None:
        size = step.size or len(step.result_json or "")
        step.output = step.result_text if size < DRAWN else ""  # type: ignore[attr-defined]
        step.inputs = named(step.input_text)  # type: ignore[attr-defined]
        step.told_tries = tries_of(step)  # type: ignore[attr-defined]
        step.size = size
    return step
