"""How a run ends, and what that sets off: waits close, hooks run, a dead letter opens, the desk says so."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F

from project.lib import clock
from project.lib.live import changed
from project.lib.prepared import Select, Update
from triggers import breakers, moving, registry
from triggers.errors import BuriedAlready, EndsRun
from triggers.ingest import store_internal
from triggers.matching import type_matches
from triggers.models import Audit, Counted, DeadLetter, Event, Run, Trigger, Wait
from triggers.models.dead_letter import fingerprint
from triggers.models.run import Status

if TYPE_CHECKING:
    from project.people.models import User

QUIET = timedelta(hours=1)  # between two alarms about one cause
OWN = "nightdesk."
ALARM = "alarm "  # before a cause: the row that says when it rang last
SOURCES = ("/nightdesk", "*")  # a trigger of one of these may hear what the desk itself says
LISTENED_TO = Select(lambda: Trigger.objects.armed().filter(source__in=SOURCES).values_list("type_pattern"))
CLOSE_WAITS = Update(lambda run, now: Wait.objects.filter(run=run).ending("cancel", now), run=int, now=datetime)
NOTHING_TO_COME = {"leased_until": None, "wake_at": None, "waiting_for": ""}
SUBJECTS = {"run": "run", "action": "action_id", "event": "event"}  # kind of letter -> what it is about


def end(run: Run, verb: str, now: datetime, *, reason: str = "", **fields: Any) -> None:
    """Move `run` to its end inside the caller's transaction, close its waits and call the hooks."""
    if run.started_at is None:
        fields["not_before"] = None  # its turn is free again
    may_wait = run.fence > 1 or run.status != Status.RUNNING  # while its first worker holds it, nothing has been asked
    run.move(verb, finished_at=now, reason=reason, **NOTHING_TO_COME, **fields)
    if may_wait:
        CLOSE_WAITS(run=run.pk, now=now)
    for hook in registry.at_run_end:
        hook(run)
    if verb == "succeed":
        breakers.succeeded(run)
    say(run)
    changed("runs", id=run.pk)


def bury(
    run: Run,
    now: datetime,
    *,
    error: dict[str, Any],
    place: str,
    step: str,
    reason: str = "failed",
    permanent: bool = False,
) -> DeadLetter:
    """End `run` as dead and open its letter (or the same letter again); `permanent`: it says nothing of other runs."""
    end(run, "die", now, reason=reason, error=error)
    if not permanent:
        breakers.gave_up(run, now)
    return open_letter(
        now,
        kind="run",
        run=run,
        event=run.event,
        handler=run.handler,
        error_type=error["type"],
        message=error["message"],
        place=place,
        step=step,
        attempts=run.attempt,
    )


def end_with(run: Run, error: EndsRun | BuriedAlready, now: datetime, story: dict[str, Any]) -> None:
    """End `run` with its action. The letter of an action names one run: another that joined it gets one of its own."""
    end(run, "die" if isinstance(error, BuriedAlready) else "cancel", now, reason=error.reason, error=story)
    if error.is_buried and not DeadLetter.objects.speaking().filter(run=run).exists():
        open_own(run, now)


def open_own(run: Run, now: datetime) -> None:
    """The letter of a run that ended and is spoken of by none."""
    error = run.error or {"type": "Lost", "message": "it died, and nobody wrote down of what"}
    facts = {"error_type": error["type"], "message": error["message"], "attempts": run.attempt}
    open_letter(now, kind="run", run=run, event=run.event, handler=run.handler, **facts)


def open_forgotten(run_id: int) -> bool:
    """Give a dead run the letter that it lacks; False when it has one, or was run again: that took it along."""
    with transaction.atomic():
        run = Run.objects.select_for_update(of=("self",), no_key=True).select_related("event").get(pk=run_id)
        if run.status != "dead" or DeadLetter.objects.speaking().filter(run=run).exists() or run.reruns.exists():
            return False
        open_own(run, clock.now())
    return True


def condemn(event: Event, why: dict[str, str]) -> None:
    """Open the letter of an event that its type's schema or a middleware refused; `{type, message, place, handler}`."""
    facts = {"handler": why["handler"], "error_type": why["type"], "message": why["message"], "place": why["place"]}
    open_letter(clock.now(), kind="event", event=event, **facts)


def open_letter(now: datetime, *, kind: str, **facts: Any) -> DeadLetter:
    """Open a dead letter, or the one of this subject again; inside the caller's transaction.

    What a letter was run again as and failed too is the same letter, with the failure of now."""
    mark = fingerprint(facts.get("handler", ""), facts["error_type"], facts.get("place", ""), facts.get("step", ""))
    told = {**facts, "kind": kind, "fingerprint": mark, "last_at": now, "message": facts["message"][:10_000]}
    letter, tries = held_letter(kind, facts)
    if letter is None:
        letter = DeadLetter.objects.create(first_at=now, **told)
    else:
        letter.fail_again(**{**told, "attempts": F("attempts") + tries})
    alarm(letter, now)
    changed("dead_letters", id=letter.pk)
    if letter.event_id:
        changed("events", id=letter.event_id)
    return letter


def held_letter(kind: str, facts: dict[str, Any]) -> tuple[DeadLetter | None, int]:
    """The letter of this subject, or of the run that was run again as this one, held; and how many tries are new."""
    letters = DeadLetter.objects.select_for_update(of=("self",), no_key=True)
    key = SUBJECTS[kind]
    if facts.get(key) is not None and (same := letters.filter(kind=kind, **{key: facts[key]}).first()):
        return same, 1
    run = facts.get("run")
    return (letters.filter(redriven_as=run, status="redriven").first() if run else None), facts.get("attempts", 1)


def alarm(letter: DeadLetter, now: datetime) -> None:
    """Say `dead_letter.opened` for the first of a cause, then at most once an hour with how many there were since.

    A letter of the desk's own alarm says nothing: it would call itself for ever."""
    if letter.event and is_own(letter.event):
        return
    same = DeadLetter.objects.filter(fingerprint=letter.fingerprint)
    is_due, since = ring_alarm(letter.fingerprint, now)
    if not is_due:
        return
    data = {
        "letter": letter.pk,
        "kind": letter.kind,
        "fingerprint": letter.fingerprint,
        "handler": letter.handler,
        "error": letter.error,
        "open": same.open().count(),
        "since": same.filter(last_at__gt=since).count() if since else 1,
        "run": letter.run_id,
        "action": letter.action_id,
        "link": f"/dead-letters/{letter.pk}",
    }
    store_internal(
        source="/nightdesk",
        type="nightdesk.dead_letter.opened",
        subject=f"dead-letters/g/{letter.fingerprint}",
        data=data,
        severity="error",
    )


def ring_alarm(mark: str, now: datetime) -> tuple[bool, datetime | None]:
    """Whether it is this letter that rings for its cause, and when one rang before; of two at once only one does."""
    name = f"{ALARM}{mark}"
    row, is_first = Counted.objects.get_or_create(name=name, defaults={"until": now})
    if is_first:
        return True, None
    quiet_over = Counted.objects.filter(name=name, until=row.until, until__lte=now - QUIET)
    return bool(quiet_over.update(until=now)), row.until


def say(run: Run) -> None:
    """Store `nightdesk.run.<status>` if a trigger listens, or the machine that started it; a run woken by such an
    event says nothing. To a machine it is one more link of the agent's chain, which must not go on for ever."""
    type = f"nightdesk.run.{run.status}"
    if is_own(run.event):
        return
    to_machine = moving.listens(run, type)
    if not (to_machine or is_listened_to(type)):
        return
    data = {"run": run.pk, "handler": run.handler, "event": run.event_id, "reason": run.reason, "status": run.status}
    store_internal(
        source="/nightdesk",
        type=type,
        subject=f"runs/{run.pk}",
        data=data,
        correlationid=run.event.correlationid if to_machine else "",
        hops=run.event.hops + 1 if to_machine else 0,
    )


def is_own(event: Event) -> bool:
    """Did the desk itself say it? A sender may call its events what it likes."""
    return event.source_slug == "/nightdesk" and event.type.startswith(OWN)


def is_listened_to(type: str) -> bool:
    return any(type_matches(pattern, type) for (pattern,) in LISTENED_TO())


def cancel_as_asked(run: Run, now: datetime) -> None:
    """End a run that was asked to go, with the reason that was given then; it may be newer than `run` was read."""
    reason = Run.objects.filter(pk=run.pk).values_list("cancel_reason", flat=True).get()
    cancel_now(run, now, by=None, reason=reason or "cancel_requested")


def cancel_now(run: Run, now: datetime, *, by: "User | None", reason: str) -> None:
    """End a run that no worker holds, or that noticed the request itself; whoever asked for it first has ended it."""
    ended = {} if by is None or run.ended_by_id else {"ended_by": by}
    end(run, "cancel", now, reason=reason, **ended)
    Audit.write("cancel", run, by=by, reason=reason)
