"""What follows when a queue ran over: the desk says so, and the runs that had to give way end."""

import json
from collections.abc import Iterable
from typing import Any, get_args

from django.db import transaction
from django.db.models import Q, Sum

from project.lib import clock
from project.lib.apart import each
from triggers import endings, rates, turns
from triggers.ingest import store_internal
from triggers.limits import WhenFull
from triggers.models import Event, Run, Tally, Trigger
from triggers.models.run import CLAIMABLE, ENDED, Status

FULL = "nightdesk.queue.full"
ROUND = 500  # rows of each kind a round at most
MOST_COUNTED = 10_000  # rows of one trigger that its health counts


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
        queue = trigger.flow.queue
        limit, when_full = (queue.limit, queue.when_full) if queue else (None, None)
        data = {"trigger": trigger.slug, "limit": limit, "when_full": when_full}
        link = {"link": f"/triggers/{trigger.slug}"}
        store_internal(source="/nightdesk", type=FULL, subject=subject, data=data | link, severity="warning")
    return True


def health_of(trigger: Trigger) -> dict[str, Any]:
    """`{queue_size, max_size, utilization, dropped, processed}`; counts stop at 10,000, no limit is None."""
    rows = trigger.runs.all()
    waiting = rows.filter(status__one_of=CLAIMABLE, cancel_requested_at=None)
    queued = waiting.order_by(*turns.ORDER)[:MOST_COUNTED].count()  # in the order of the index that SQLite shall take
    most = trigger.flow.queue.limit if trigger.flow.queue else None
    return {
        "queue_size": queued,
        "max_size": most,
        "utilization": round(queued / most, 3) if most else None,
        "dropped": dropped(trigger.slug),
        "processed": rows.filter(status__in=ENDED)[:MOST_COUNTED].count(),
    }


def dropped(slug: str) -> int:
    """Runs that found no place in this trigger's queue, since the trigger was made."""
    labels = [json.dumps([slug, strategy], ensure_ascii=False) for strategy in get_args(WhenFull)]
    found = Tally.objects.filter(name="dropped", labels__in=labels).aggregate(all=Sum("value"))
    return int(found["all"] or 0)


def skipped(slugs: Iterable[str]) -> int:
    """Runs that these triggers did not start because one was still at work, since they were made."""
    labels = [json.dumps([slug], ensure_ascii=False) for slug in slugs]
    found = Tally.objects.filter(name="skipped", labels__in=labels).aggregate(all=Sum("value"))
    return int(found["all"] or 0)


def end_unwanted() -> int:
    """End the runs that were asked to go and that no worker holds; called by tick, a worker ends its own."""
    unwanted = Run.objects.filter(cancel_requested_at__isnull=False, finished_at=None).exclude(status=Status.RUNNING)
    found = unwanted.order_by("cancel_requested_at").values_list("pk", "trigger", "rate_key", "started_at")[:ROUND]
    rows = list(found)
    ended = each(end, [pk for pk, *_ in rows])
    each(rates.move_up, {(trigger, key) for _, trigger, key, started in rows if key is not None and started is None})
    return ended


def end(run_id: int) -> bool:
    with transaction.atomic():
        asked = ~Q(status=Status.RUNNING) & Q(cancel_requested_at__isnull=False, finished_at=None)
        rows = Run.objects.select_for_update(of=("self",), no_key=True).select_related("event", "trigger")
        if (held := rows.filter(asked, pk=run_id).first()) is None:
            return False
        endings.cancel_as_asked(held, clock.now())
    return True
