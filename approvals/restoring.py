"""A database that comes from a backup knows nothing of what its runs asked for, and sent, after it was made."""

from datetime import datetime

from django.db import connection, transaction

from approvals.models import Action, Attempt
from approvals.models.action import Status
from approvals.outcomes import lose
from approvals.settle import lock, log
from project.lib import clock, gate
from triggers.models import Counted, Run

MARK = "restored"  # the row that says when
LOST = 1_000_000  # numbers no run gets: those that are lost had some of them, and the keys of their effects name them
ERROR = {"type": "Restored", "message": "the database was restored; this may have been sent after the backup"}


def doubt_all() -> int:
    """Put every approved action in doubt: it is looked for, sent under its own key, or shown to a person.

    So is, when its time comes, what a run of the backup asks for from now on. Returns how many are in doubt now.
    Each in its own transaction, so it may be called again after it was cut short."""
    skip_lost_numbers()
    Counted.objects.update_or_create(name=MARK, defaults={"until": clock.now()})
    approved = Action.objects.filter(status=Status.APPROVED).order_by("pk").values_list("pk", flat=True)
    return sum(doubt(action_id) for action_id in list(approved))


def skip_lost_numbers() -> None:
    """Else a new run gets the number of a lost one, and a far side that keeps keys takes its effect for done."""
    table = Run._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT setval(name, nextval(name) + %s) FROM pg_get_serial_sequence(%s, 'id') name", [LOST, table]
            )
            return
        cursor.execute("UPDATE sqlite_sequence SET seq = seq + %s WHERE name = %s", [LOST, table])
        if not cursor.rowcount:
            cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [table, LOST])


def may_have_been_sent(action: Action) -> bool:
    """Has it never been tried here, although its run may have asked for it, and done it, before the restore?"""
    if action.tries or action.status != Status.APPROVED or action.origin_run is None:
        return False
    began = Run.objects.filter(pk=action.origin_run).values("queued_at")
    return Counted.objects.filter(name=MARK, until__gt=began[:1]).exists()


def doubt(action_id: int) -> bool:
    """As if a process had begun to send it when it was allowed to, and had died."""
    with transaction.atomic():
        gate.shared()
        action = lock(action_id)
        now = clock.now()
        if action.status != Status.APPROVED:
            return False
        attempt = Attempt.objects.create(
            action=action,
            number=action.tries + 1,
            revision=action.revision,
            key_sent=action.sent_key,
            started_at=began(action),
            ended_at=now,
            outcome="unknown",
            error=ERROR,
        )
        action.move("start", tries=action.tries + 1, leased_until=now, not_before=None)
        log("start", action, number=attempt.number, key=attempt.key_sent)
        lose(action, now, ERROR)
    return True


def began(action: Action) -> datetime:
    """When it may have been sent first: so long its key counts at the far side."""
    first = action.decided_at or action.created_at
    if action.origin_run is None or not Counted.objects.filter(name=MARK, until__lt=first).exists():
        return first
    return min([first, *Run.objects.filter(pk=action.origin_run).values_list("queued_at", flat=True)])
