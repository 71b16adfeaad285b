"""How an action ends, and what that sets off: shared by the doors that decide and that deliver."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from approvals.models import Action
from approvals.models.action import Status
from project.lib import canonical, spans
from project.lib.live import changed
from triggers.endings import open_letter
from triggers.envelope import APPROVALS
from triggers.errors import BuriedAlready
from triggers.ingest import store_internal
from triggers.models import Audit, DeadLetter, Run
from triggers.models.dead_letter import LATE_TRUTH

if TYPE_CHECKING:
    from project.people.models import User

DENIED = "policy_denied"


def settle(action: Action, verb: str, now: datetime, *, by: "User | None" = None, **fields: Any) -> None:
    """Make the last move inside the caller's transaction, say so once, write the audit row. Raises IllegalMove."""
    was_awaiting = action.status == Status.AWAITING
    gone = {"leased_until": None, "not_before": None, "sealed_arguments": ""}  # nothing is sent any more
    action.move(verb, settled_at=now, **gone, **fields)
    if was_awaiting:
        say(action, "decided")
    if not action.announced:
        Action.objects.filter(pk=action.pk).update(announced=True)
        action.refresh_from_db(fields=["announced"])
        say(action, "settled")
    log(verb, action, by=by, reason=action.cancel_reason or action.reason_code)
    show(action)


def log(verb: str, action: Action, *, by: "User | None" = None, **more: Any) -> None:
    """The audit row of a move: which bytes it was about, and what the action is now."""
    seen = {"digest": action.digest, "revision": action.revision}
    Audit.write(verb, action, by=by, status=action.status, **more, **seen)


def shown_of(action: Action) -> dict[str, Any]:
    """What stood above the buttons; the digest beside it binds the rest."""
    rules = [said["rule"] for said in action.ruled_by]
    counted = {"needed": action.needed, "given": action.given}
    return {"title": action.title, "tier": action.tier, "rules": rules or [action.policy], **counted}


def forbid(action: Action, rule: str, now: datetime, **fields: Any) -> None:
    """A rule of the policy denies it: it ends rejected at once, and nobody is asked."""
    error = {"type": "DeniedByRule", "message": f"the rule `{rule}` of the policy forbids it"}
    settle(action, "reject", now, reason_code=DENIED, error=error, **fields)


def reopen(action: Action, *, by: "User | None", expires_at: datetime, why: str, **fields: Any) -> None:
    """Back to waiting, one revision on: votes of the old one no longer count."""
    cleared = {"given": 0, "decided_at": None, "not_before": None, "execute_by": None, "frozen_until": None}
    action.move("reopen", revision=action.revision + 1, expires_at=expires_at, **{**cleared, **fields})
    Audit.write(why, action, by=by, revision=action.revision, digest=action.digest)
    show(action)


def refreeze(action: Action) -> None:
    """The stored text of a waiting action is not the one that was shown: what is there now is a new revision."""
    fresh = canonical.digest_of_text(action.canonical)
    action.move("edit", revision=action.revision + 1, digest=fresh, given=0, reason_code="changed")
    Audit.write("changed outside the desk", action, revision=action.revision, digest=fresh)
    show(action)


def say(action: Action, what: str) -> None:
    """Ingest `approvals.action.decided` or `.settled`: it wakes whoever waits, and proves nothing."""
    origin = action.run.event if action.run else None
    store_internal(
        source=APPROVALS,
        type=f"approvals.action.{what}",
        subject=f"actions/{action.pk}",
        data=action.facts,
        correlationid=origin.correlationid if origin else "",
        traceparent=spans.traceparent(origin) if origin else "",
        hops=origin.hops + 1 if origin else 0,
    )


def show(action: Action) -> None:
    """Tell open pages, after the commit."""
    changed("actions", id=action.pk, version=action.revision)
    changed("approvals", id=action.pk, version=action.revision)
    if action.run_id:
        changed("runs", id=action.run_id)


def bury(action: Action, now: datetime, *, error: dict[str, str], place: str = "") -> DeadLetter:
    """Open the action's dead letter, or the same one again."""
    return open_letter(
        now,
        kind="action",
        action_id=action.pk,
        error_type=error["type"],
        message=error["message"],
        place=place or action.kind,
        step=action.step,
        attempts=max(1, action.tries),
        **facts_of(action.run),
    )


def facts_of(run: Run | None) -> dict[str, Any]:
    return {"run": run, "event": run.event if run else None, "handler": run.handler if run else ""}


def unbury(action: Action, now: datetime) -> None:
    """A late truth: it had happened after all, so its letter closes; a run that died of it gets one of its own."""
    letters = DeadLetter.objects.select_for_update(of=("self",), no_key=True)
    letter = letters.filter(kind="action", action_id=action.pk).first()
    if letter is not None and letter.status == "open":
        letter.move("close", settled_at=now, reason=LATE_TRUTH)
        changed("dead_letters", id=letter.pk)
        died = Run.objects.filter(letters=letter, status="dead", reason=BuriedAlready.reason, reruns=None)
        if (run := died.select_related("event").first()) is not None:
            mourn(run, action, now)


def mourn(run: Run, action: Action, now: datetime) -> None:
    """Open the letter of a run that died of `action` for nothing."""
    said = f"A-{action.pk} had been delivered after all, but the run had died of it: run it again to go on"
    facts = {"place": action.kind, "step": action.step, "attempts": run.attempt, **facts_of(run)}
    open_letter(now, kind="run", error_type="DeliveredAfterAll", message=said, **facts)


def lock(action_id: int) -> Action:
    """The action's row, held until the transaction ends; ask the clock after this, not before."""
    held = Action.objects.select_for_update(of=("self",), no_key=True).select_related("connection", "run", "run__event")
    return held.get(pk=action_id)
