"""A small desk with something on every page: rows as the doors leave them, hostile texts among them."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from approvals.models import Connection
from project.lib import clock
from tests import builders
from triggers.models import DeadLetter, Event, Refusal, Run, Source, Step, Trigger, Wait

HOSTILE = "<img src=x onerror=window.__x=1>"
CLOSING = "</script><script>window.__x=1</script>"
DATA = f'{{"id":3544790567247868102,"n":9007199254740993,"s":"{CLOSING}","l":"\u2028<!--"}}'


@dataclass
class Desk:
    """The rows by the names the tests use."""

    source: Source
    clock: Source
    trigger: Trigger
    event: Event
    ignored: Event
    done: Run
    waiting: Run
    dead: Run
    letter: DeadLetter
    connection: Connection


def furnish() -> Desk:
    """One of everything."""
    source = builders.source("github")
    ticking = builders.source("daily", kind="schedule", provider="", secrets=(), config={"cron": "0 8 * * *"})
    trigger = builders.trigger("triage-issue", slug="triage-issue", type_pattern="github.issues.*")
    outcome = {"trigger": "triage-issue", "outcome": "matched"}
    event = builders.event(type="github.issues.opened", subject=HOSTILE, raw=DATA.encode(), outcomes=[outcome])
    Event.objects.filter(pk=event.pk).update(headers={"user-agent": HOSTILE}, ce_id=HOSTILE)
    missed = {
        "trigger": "triage-issue",
        "outcome": "not_matched",
        "clause": 'event.data.ref == "main"',
        "detail": HOSTILE,
    }
    ignored = builders.event(type="github.push", status="ignored", outcomes=[missed])
    done = finished(trigger, event)
    waiting = parked(trigger, builders.event(subject="issues/2"))
    dead, letter = buried(trigger, builders.event(subject="issues/3", data={"id": 3544790567247868102}))
    now = clock.now()
    refusal: dict[str, Any] = {"source": source, "slug": "github", "at": now, "answered": 401}
    Refusal.objects.create(reason="not_authentic", detail=HOSTILE, **refusal)
    Refusal.objects.create(reason="duplicate", event=event.pk, **refusal)
    connection = builders.connection("github")
    return Desk(source, ticking, trigger, event, ignored, done, waiting, dead, letter, connection)


def finished(trigger: Trigger, event: Event) -> Run:
    now = clock.now()
    times = {"started_at": now - timedelta(seconds=9), "finished_at": now, "queued_at": now - timedelta(seconds=10)}
    run = builders.run(
        "triage-issue", trigger=trigger, event=event, status="succeeded", result_json='{"ok":1}', **times
    )
    step(run, 1, "read the issue", "call", json.dumps({"title": HOSTILE}), 9, 8)
    step(run, 2, "log", "log", json.dumps({"message": HOSTILE, "facts": {"n": 1}}), 8, 8)
    step(run, 3, "diagnose", "call", "{}", 8, 5, attempt=2)
    step(run, 4, "open the fix", "act", '{"url":"x"}', 1, 1)
    Wait.objects.create(
        run=run,
        step="open the fix",
        type="approvals.action.settled",
        source="/approvals",
        since=now,
        registered_at=now - timedelta(seconds=5),
        ended_at=now - timedelta(seconds=1),
        status="resolved",
    )
    return run


def parked(trigger: Trigger, event: Event) -> Run:
    now = clock.now()
    run = builders.run("triage-issue", trigger=trigger, event=event, status="waiting", started_at=now)
    Wait.objects.create(
        run=run, step="open the fix", type="approvals.action.settled", source="/approvals", since=now, registered_at=now
    )
    builders.action(run=run, title=HOSTILE)
    return run


def buried(trigger: Trigger, event: Event) -> tuple[Run, DeadLetter]:
    now = clock.now()
    error = {"type": "KeyError", "message": HOSTILE, "traceback": f"Traceback\n  {HOSTILE}"}
    times = {"started_at": now, "finished_at": now}
    run = builders.run(
        "triage-issue", trigger=trigger, event=event, status="dead", reason="failed", error=error, **times
    )
    step(run, 1, "read the issue", "call", "{}", 1, 1)
    letter = DeadLetter.objects.create(
        kind="run",
        run=run,
        event=event,
        fingerprint="0123456789abcdef",
        handler="triage-issue",
        error_type="KeyError",
        place="triage_issue.py in diagnose",
        step="diagnose",
        message=HOSTILE,
        first_at=now,
        last_at=now,
    )
    return run, letter


def step(run: Run, seq: int, name: str, kind: str, result: str, began: int, ended: int, **more: Any) -> Step:
    """A finished step; `began` and `ended` are seconds before now."""
    now = clock.now()
    times = {"started_at": now - timedelta(seconds=began), "finished_at": now - timedelta(seconds=ended)}
    return Step.objects.create(run=run, seq=seq, name=name, kind=kind, result_json=result, fence=1, **times, **more)
