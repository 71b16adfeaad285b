"""The rows of a run's timeline: its steps, its waits, and what it does outside of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from triggers.models import Run, Step, Wait
from triggers.models.run import Status
from triggers.views.story import PERSON, Facts
from triggers.views.timeline import Bar, Row

SMALL = ("log", "now", "random", "uuid")  # remembered, but nothing to look at on a timeline
NOTICEABLE = timedelta(milliseconds=250)


def rows_of(facts: Facts, steps: Sequence[Step]) -> list[Row]:
    """Every row, in the order things happened."""
    run = facts.run
    waits = {wait.step: wait for wait in facts.waits}
    shown = [step for step in steps if step.kind not in SMALL]
    rows = [queue_row(facts)] + [step_row(step, waits.pop(step.name, None), facts) for step in shown]
    rows += [wait_row(wait, facts) for wait in waits.values()]
    last = max([bar.end for row in rows for bar in row.bars], default=run.queued_at)
    rows += [row for row in (ending_row(facts, last),) if row is not None]
    return rows


def queue_row(facts: Facts) -> Row:
    run = facts.run
    end = run.started_at or run.finished_at or facts.now
    waits = end - run.queued_at
    status = "done" if run.started_at else ("cancelled" if run.has_ended else "queued")
    bar = Bar("queue", run.queued_at, max(end, run.queued_at), "In the queue")
    return Row("Wait for a worker", status, [bar], kind="queue", took=waits)


def step_row(step: Step, wait: Wait | None, facts: Facts) -> Row:
    end = step.finished_at or facts.now
    failed = step.status == "failed"
    bars: list[Bar] = []
    if wait is not None:
        bars.append(Bar("wait", wait.registered_at, wait.ended_at or facts.now, wait_words(wait)))
    if step.kind not in ("sleep", "wait") and (wait is None or step.kind != "act"):
        tone = "fail" if failed else ("run" if step.status == "started" else "ok")
        bars.append(Bar(tone, step.started_at, max(end, step.started_at), "At work"))
    if not bars:
        bars.append(Bar("ok", step.started_at, end, ""))
    took = max(bar.end for bar in bars) - min(bar.start for bar in bars)
    return Row(
        name=step.name,
        status="failed" if failed else step.status,
        bars=bars,
        kind=step.kind,
        note=note_of(step),
        link=step.name,
        took=took,
        is_problem=failed or step.attempt > 1,
    )


def note_of(step: Step) -> str:
    if step.status == "failed":
        return str((step.error or {}).get("type", "failed"))
    return f"worked at try {step.attempt}" if step.attempt > 1 else ""


def wait_row(wait: Wait, facts: Facts) -> Row:
    """A wait whose outcome the handler has not read yet, or never will."""
    status = {"pending": "waiting", "resolved": "done"}.get(wait.status, wait.status)
    if wait.status == "pending" and facts.waits_for_person:
        status = "awaiting"
    end = wait.ended_at or facts.now
    bar = Bar("wait", wait.registered_at, max(end, wait.registered_at), wait_words(wait))
    note = "now" if wait.status == "pending" else ""
    return Row(wait.step, status, [bar], kind="wait", note=note, took=end - wait.registered_at)


def wait_words(wait: Wait) -> str:
    if wait.type.startswith(PERSON):
        return "Waited for a person" if wait.ended_at else "Waits for a person"
    return f"Waits for {wait.type}" if wait.type else "Sleeps"


def ending_row(facts: Facts, last: datetime) -> Row | None:
    """What the run does outside of remembered steps: work under way, the pause before a try, the failure."""
    run = facts.run
    if run.status == Status.RUNNING:
        start = max(last, run.started_at or last)
        return Row(
            "At work",
            "running",
            [Bar("run", min(start, facts.now), facts.now, "A worker is on it")],
            took=facts.now - start,
        )
    if run.status == Status.RETRYING:
        bar = Bar("retry", last, max(run.due_at, last), "Pause before the next try")
        return Row(f"Try {run.attempt}", "retrying", [bar], note="starts by itself", is_problem=True)
    if run.status == Status.DEAD and run.finished_at:
        step = facts.letter.step if facts.letter else ""
        start = max(last, min(run.finished_at - NOTICEABLE, run.finished_at))
        bar = Bar("fail", min(start, run.finished_at), max(run.finished_at, last), "Failed")
        note = str((run.error or {}).get("type", ""))
        return Row(step or "Failed", "failed", [bar], note=note, took=None, is_problem=True)
    return None


@dataclass(frozen=True, slots=True)
class LogLine:
    """One `run.log(...)`."""

    at: datetime
    message: str
    facts: dict[str, Any]


def log_of(steps: Sequence[Step]) -> list[LogLine]:
    lines = []
    for step in steps:
        if step.kind == "log":
            value = step.result if isinstance(step.result, dict) else {"message": step.result}
            lines.append(LogLine(step.started_at, str(value.get("message", "")), value.get("facts") or {}))
    return lines


def chosen_of(steps: Sequence[Step], name: str, run: Run) -> Step | None:
    """The step of the side panel: the one asked for, else the one that failed, else the last that worked."""
    shown = [step for step in steps if step.kind not in SMALL]
    if name:
        return next((step for step in shown if step.name == name), None)
    failed = next((step for step in shown if step.status == "failed"), None)
    return failed or (shown[-1] if shown else None)
