"""A run stopped because the code changed under it: a person chooses how it goes on."""

from datetime import datetime
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Max

from project.lib import clock
from project.lib.live import changed
from triggers import bells, endings
from triggers.errors import NotBlocked, NotValid
from triggers.models import Audit, Run, Step, Wait
from triggers.models.run import Status
from triggers.redrive import again
from triggers.results import written

if TYPE_CHECKING:
    from project.people.models import User

CHOICES = ("continue", "restart", "cancel")


def unblock(run: Run, *, by: "User | None", choice: str) -> Run:
    """`continue` with the code as it is, `restart` as a new run, or `cancel`; returns the run that goes on.

    After *continue* what was done stays as it is: it gives its results where the code still asks for them by name,
    whatever it asks with, and is left aside where it does not. Raises NotBlocked, NotValid."""
    if choice not in CHOICES:
        raise NotValid("choose continue, restart or cancel", field="choice")
    with transaction.atomic():
        rows = Run.objects.select_for_update(of=("self",), no_key=True).select_related("event", "trigger")
        held = rows.get(pk=run.pk)
        now = clock.now()
        if held.status != Status.BLOCKED:
            raise NotBlocked(status=held.status)
        difference = (held.error or {}).get("message", "")
        if choice == "continue":
            accepted = accept(held, now)
            held.move(
                "unblock",
                accepted_seq=accepted,
                continued_at=now,
                due_at=now,
                reason="",
                error=None,
                rung_at=now,
            )
            bells.ring_on_commit([held.pk])
        else:
            endings.cancel_now(held, now, by=by, reason=f"blocked, {choice}")
        Audit.write(f"unblock: {choice}", held, by=by, difference=difference)
        result = again(held, by=by) if choice == "restart" else held
    changed("runs", id=held.pk)
    return result


def accept(run: Run, now: datetime) -> int:
    """The number of the last step that need not fit the code any more; waits that ended become steps for that."""
    last: int = run.steps.aggregate(last=Max("seq"))["last"] or 0
    read = run.steps.values_list("name", flat=True)
    ended = run.waits.exclude(step__in=read).exclude(status="pending").exclude(source="/approvals").order_by("pk")
    steps = [unread(wait, seq, now) for seq, wait in enumerate(ended, last + 1)]
    Step.objects.bulk_create(steps)
    return last + len(steps)


def unread(wait: Wait, seq: int, now: datetime) -> Step:
    """What the wait came to, as the handler would have remembered it."""
    over = bool(wait.type) and wait.event_id is None
    return Step(
        run_id=wait.run_id,
        name=wait.step,
        kind="wait" if wait.type else "sleep",
        seq=seq,
        status="failed" if over else "done",
        result_json=written({"event": wait.event_id} if wait.event_id else None),
        error={"type": "TimedOut", "message": f"no {wait.type} came in time"} if over else None,
        fence=wait.run.fence,
        started_at=wait.registered_at,
        finished_at=wait.ended_at or now,
    )
