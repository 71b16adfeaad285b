"""A database that comes from a backup: what it calls approved may have been sent after the backup was made."""

from django.db import transaction

from approvals.models import Action, Attempt
from approvals.models.action import Status
from approvals.outcomes import lose
from approvals.settle import lock
from project.lib import clock, gate

ERROR = {"type": "Restored", "message": "the database was restored; this may have been sent after the backup"}


def doubt_all() -> int:
    """Put every approved action in doubt: it is looked for, sent under its own key, or shown to a person.

    Returns how many. Each in its own transaction, so it may be called again after it was cut short."""
    approved = Action.objects.filter(status=Status.APPROVED).order_by("pk").values_list("pk", flat=True)
    return sum(doubt(action_id) for action_id in list(approved))


def doubt(action_id: int) -> bool:
    """As if a process had begun to send it when it was allowed to, and had died."""
    with transaction.atomic():
        gate.shared()
        action = lock(action_id)
        now = clock.now()
        if action.status != Status.APPROVED:
            return False
        Attempt.objects.create(
            action=action,
            number=action.tries + 1,
            revision=action.revision,
            key_sent=action.sent_key,
            started_at=action.decided_at or action.created_at,
            ended_at=now,
            outcome="unknown",
            error=ERROR,
        )
        action.move("start", tries=action.tries + 1, leased_until=now, not_before=None)
        lose(action, now, ERROR)
    return True
