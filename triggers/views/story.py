"""A run told in words: what happened so far, what is happening now, and which button helps."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from project.lib.language import phrase, spoken, words
from triggers import registry
from triggers.models import DeadLetter, Run, Switch, Wait
from triggers.models.run import Status
from triggers.views.now import Now
from triggers.views.timeline import span

OPEN_ACTIONS = ("awaiting", "approved", "delivering", "unknown")
PERSON = "approvals."  # types of events that a person's click causes
ENDS = {
    "rejected": words("A reviewer said no."),
    "expired": words("Nobody decided in time."),
    "action_cancelled": words("The action it waited for was withdrawn."),
    "cancel_requested": words("A person asked for its end."),
    "cancelled": words("A person ended it."),
    "archived": words("Its trigger was archived before it started."),
    "state_left": words("Its agent left the state that had started it."),
    "replaced": words("A newer event of its trigger took its place."),
    "dropped": words("The queue of its trigger was full, and it had waited longest."),
    "limit_reached": "It used what its limits allow.",
    "crash_loop": words("Three workers were lost under it."),
    "undeliverable": words("An action could not be delivered."),
}
LOST = {
    "worker_lost": words("The worker that was on it died."),
    "timed_out": words("It took longer than it may, so its worker was ended."),
}


@dataclass(frozen=True)
class Facts:
    """What the page has read of one run."""

    run: Run
    waits: Sequence[Wait]
    actions: Sequence[Any]
    letter: DeadLetter | None
    paused: Switch | None
    hold: Now | None  # by its trigger's limits or the handler's breaker
    now: datetime
    payloads: bool  # may the reader see them?
    asked: tuple[str, int] | None = None  # who may decide what it waits for, and how many people were told
    gathered: Sequence[int] = ()  # numbers of the events a debounced run works on, the newest first

    @property
    def open_wait(self) -> Wait | None:
        return next((wait for wait in self.waits if wait.status == "pending"), None)

    @property
    def open_action(self) -> Any:
        """The action the run waits for, the one a person can do something about first."""
        opened = [action for action in self.actions if action.status in OPEN_ACTIONS]
        return min(opened, key=lambda action: OPEN_ACTIONS.index(action.status), default=None)

    @property
    def waits_for_person(self) -> bool:
        action = self.open_action
        return self.run.status == Status.WAITING and action is not None and action.status in ("awaiting", "unknown")


def waited(waits: Sequence[Wait], now: datetime) -> timedelta:
    """How long the run held no worker because it waited; waits that overlap count once."""
    total, last = timedelta(0), None
    for wait in sorted(waits, key=lambda wait: wait.registered_at):
        start, end = wait.registered_at, wait.ended_at or now
        start = max(start, last) if last else start
        if end > start:
            total, last = total + (end - start), end
    return total


def now_of(facts: Facts) -> Now | None:
    """The box on top of the page; None for a run that is simply done."""
    tell = {
        Status.QUEUED: queued,
        Status.RUNNING: running,
        Status.WAITING: waiting,
        Status.RETRYING: retrying,
        Status.BLOCKED: blocked,
        Status.DEAD: dead,
        Status.CANCELLED: cancelled,
    }.get(Status(facts.run.status))
    return tell(facts) if tell else None


def queued(facts: Facts) -> Now:
    run = facts.run
    if run.reason == "handler_missing" or run.handler not in registry.HANDLERS:
        said = phrase(
            "No code is loaded under the name “{handler}”. It goes on as soon as there is, with all it has done.",
            handler=run.handler,
        )
        return Now("bad", "file-x", "Cannot start.", said, link="handlers", button="See the handlers")
    if facts.paused is not None:
        return Now("warn", "circle-pause", "Paused.", "It starts when the switch is opened again.")
    if run.trigger and run.trigger.mode == "paused":
        said = "It starts when the trigger is set to live again."
        return Now("warn", "circle-pause", "Its trigger is paused.", said, link="trigger", button="Open the trigger")
    if facts.hold is not None:
        return facts.hold
    late = facts.now - run.due_at
    said = phrase("It has waited {time}.", time=span(late.total_seconds())) if late > timedelta(seconds=5) else ""
    if run.reason in LOST:
        lost = phrase(
            "{why} It goes on behind its last finished step; the third time it is given up.",
            why=spoken(LOST[run.reason]),
        )
        return Now(
            "warn",
            "heart-crack",
            phrase("Waits for another worker: {crashes} lost.", crashes=run.crashes),
            f"{lost} {said}".strip(),
        )
    return Now("", "clock", "Waits for a worker.", said)


def running(facts: Facts) -> Now:
    run = facts.run
    if run.cancel_requested_at:
        why = spoken(ENDS.get(run.cancel_reason, words("A person asked for it.")))
        said = phrase("{why} What it does now is finished first.", why=why)
        return Now("warn", "circle-slash", "Will end at its next step.", said)
    again = phrase("This is try {attempt}.", attempt=run.attempt) if run.attempt > 1 else ""
    lost = ""
    if run.crashes:
        many = run.crashes > 1
        told = (
            words("{n} workers were lost under it before.") if many else words("{n} worker was lost under it before.")
        )
        lost = phrase(told, n=run.crashes)
    return Now("", "loader-circle", "A worker is on it.", f"{again} {lost}".strip())


def waiting(facts: Facts) -> Now:
    action, wait = facts.open_action, facts.open_wait
    if action is not None:
        return waiting_for_action(action)
    if wait is not None and wait.type:
        about = phrase(" about {subject}", subject=wait.subject) if wait.subject else ""
        said = phrase("The next {type}{about} from {source} wakes it.", type=wait.type, about=about, source=wait.source)
        return Now("wait", "hourglass", "Waits for an event.", said, until=wait.expires_at)
    return Now("wait", "moon", "Sleeps.", "It holds no worker meanwhile.", until=facts.run.wake_at)


def waiting_for_action(action: Any) -> Now:
    title = f"“{action.title}”"
    if action.status == "awaiting":
        said = phrase("{title} is not done before a person says yes. If nobody decides, nothing is sent.", title=title)
        return Now("wait", "hand", "Waits for a person.", said, action.expires_at, "action", "Decide now", action.pk)
    if action.status == "unknown":
        said = phrase("{title} was sent, but no answer came. Look there, then say what happened.", title=title)
        return Now("warn", "triangle-alert", "Outcome unknown.", said, None, "action", "Settle it", action.pk)
    soon = action.status == "approved"
    told = words("{title} goes out shortly.") if soon else words("{title} is being sent.")
    return Now("wait", "send", "Approved.", phrase(told, title=title), None, "action", "See the action", action.pk)


def retrying(facts: Facts) -> Now:
    run = facts.run
    most = run.flow.retries.max + 1
    said = phrase("Try {attempt} of {most} failed: {error}", attempt=run.attempt - 1, most=most, error=error_of(facts))[
        :400
    ]
    return Now("warn", "rotate-ccw", "Will try again by itself.", said, until=run.due_at)


def error_of(facts: Facts) -> str:
    """Type and message; the message quotes values of the payload, so it is hidden with it."""
    error = facts.run.error or {}
    message = error.get("message", "") if facts.payloads else ""
    return f"{error.get('type') or phrase('It failed')}: {message}".rstrip(": ")


def blocked(facts: Facts) -> Now:
    said = (facts.run.error or {}).get("message", phrase("The code asks for other steps than this run remembers"))
    return Now(
        "bad",
        "octagon-x",
        "Blocked: the code changed under it.",
        phrase("{said}. A person must choose.", said=capital(said)),
    )


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def dead(facts: Facts) -> Now:
    said = error_of(facts)[:600]
    many = facts.run.attempt > 1
    lead = phrase("Gave up after {n} tries." if many else "Gave up after {n} try.", n=facts.run.attempt)
    letter = facts.letter
    if letter is None:
        return Now("bad", "skull", lead, said)
    return Now(
        "bad",
        "skull",
        lead,
        said,
        None,
        "dead-letter",
        f"D-{letter.pk}",
        letter_id=letter.pk,
    )


def cancelled(facts: Facts) -> Now:
    said = spoken(ENDS.get(facts.run.reason, facts.run.reason.replace("_", " ").capitalize()))
    return Now("", "circle-slash", "Ended without a result.", phrase("{said} No retry, no dead letter.", said=said))


def summary(facts: Facts) -> str:
    """The run in two or three sentences."""
    run = facts.run
    started = phrase(
        "{type} from {source_slug} woke {handler}.",
        type=run.event.type,
        source_slug=run.event.source_slug,
        handler=run.handler,
    )
    if run.rerun_of_id:
        started = phrase(
            "{requester} ran R-{rerun_of_id} again: {handler} for {type}.",
            requester=run.requester or phrase("Somebody"),
            rerun_of_id=run.rerun_of_id,
            handler=run.handler,
            type=run.event.type,
        )
    return " ".join(part for part in (started, effects(facts), progress(run)) if part)


def progress(run: Run) -> str:
    told = {
        Status.QUEUED: words("It has not started yet."),
        Status.SUCCEEDED: words("It is done."),
        Status.DEAD: words("It gave up."),
        Status.CANCELLED: words("It was ended early."),
    }
    return spoken(told.get(Status(run.status), ""))


def effects(facts: Facts) -> str:
    """What it did to the world, as far as is known."""
    done = [action.title for action in facts.actions if action.status == "delivered"]
    asked = [action.title for action in facts.actions if action.status in OPEN_ACTIONS]
    parts = []
    if done:
        parts.append(phrase("It did {done}.", done=listed(done)))
    if asked:
        parts.append(phrase("It asked for {asked}.", asked=listed(asked)))
    if facts.actions and not done and not any(action.status in ("unknown", "delivering") for action in facts.actions):
        parts.append(phrase("Nothing has been sent yet.") if asked else phrase("Nothing was sent."))
    return " ".join(parts)


def listed(titles: Sequence[str]) -> str:
    shown = ", ".join(f"“{title}”" for title in titles[:3])
    return phrase("{shown} and {titles} more", shown=shown, titles=len(titles) - 3) if len(titles) > 3 else shown
