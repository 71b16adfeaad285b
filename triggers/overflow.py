"""What follows when a queue ran over: the desk says so, and the runs that had to give way end."""

from django.db import transaction
from django.db.models import Q

from project.lib import clock
from project.lib.apart import each
from triggers import endings
from triggers.ingest import store_internal
from triggers.models import Event, Run, Trigger
from triggers.models.run import Status

FULL = "nightdesk.queue.full"
ROUND = 500  # rows of each kind a round at most


def tell_full() -> int:
    """Say `nightdesk.queue.full` for each queue that ran over since the last round; called by tick."""
    return each(tell, Trigger.objects.exclude(full_at=None).order_by("pk")[:ROUND])


def tell(trigger: Trigger) -> bool:
    """False when it was said within the quiet time, or by another round."""
    with transaction.atomic():
        if not Trigger.objects.filter(pk=trigger.pk, full_at=trigger.full_at).update(full_at=None):
            return False
        subject = f"triggers/{trigger.slug}"
        quiet = Event.objects.filter(source_slug="/nightdesk", type=FULL, subject=subject)
        if quiet.filter(received_at__gt=clock.now() - endings.QUIET).exists():
            return False
        queue = trigger.limits.get("queue") or {}
        data = {"trigger": trigger.slug, "limit": queue.get("limit"), "when_full": queue.get("when_full")}
        link = {"link": f"/triggers/{trigger.slug}"}
        store_internal(source="/nightdesk", type=FULL, subject=subject, data=data | link, severity="warning")
    return True


def end_unwanted() -> int:
    """End the runs that were asked to go and that no worker holds; called by tick, a worker ends its own."""
    unwanted = Run.objects.filter(cancel_requested_at__isnull=False, finished_at=None).exclude(status=Status.RUNNING)
    return each(end, unwanted.order_by("cancel_requested_at").values_list("pk", flat=True)[:ROUND])


def end(run_id: int) -> bool:
    with transaction.atomic():
        asked = ~Q(status=Status.RUNNING) & Q(cancel_requested_at__isnull=False, finished_at=None)
        run = Run.objects.select_for_update(of=("self",)).select_related("event", "trigger").filter(asked, pk=run_id)
        if (held := run.first()) is None:
            return False
        endings.cancel_as_asked(held, clock.now())
    return True
