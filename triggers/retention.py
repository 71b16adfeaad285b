"""What may go, in small pieces: claims whose window ended, old refusals, payloads past the keeping time."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.db.models import Q

from project.lib import clock
from triggers.models import Event, Gathered, Refusal, Run, ScheduleFire, Seen, Source

PIECE = 500  # rows a transaction
REFUSALS_FOR = timedelta(days=7)
REFUSALS_A_SOURCE = 200  # the newest that are kept
CREDENTIALS_FOR = timedelta(hours=24)  # sealed headers, kept for a re-check


def prune() -> dict[str, int]:
    """One round; returns how many rows of each kind were removed or emptied."""
    now = clock.now()
    return {
        "seen": remove(Seen.objects.filter(until__lt=now)),
        "refusals": remove(Refusal.objects.filter(at__lt=now - REFUSALS_FOR)) + prune_many_refusals(),
        "slots": remove(fired_slots(now)),
        "credentials": empty_credentials(now),
        "payloads": empty_payloads(now),
    }


def remove(rows: "models.QuerySet[models.Model]") -> int:
    removed = 0
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:PIECE]):
        rows.model._default_manager.filter(pk__in=ids).delete()
        removed += len(ids)
    return removed


def fired_slots(now: datetime) -> "models.QuerySet[ScheduleFire]":
    """Slots of schedules whose events are past the keeping time; what was cut short is still rung."""
    cut_short = models.Q(outcome="fired", event=None)
    return ScheduleFire.objects.filter(fired_at__lt=now - timedelta(days=settings.RETENTION_DAYS)).exclude(cut_short)


def prune_many_refusals() -> int:
    return sum(prune_refusals_of(source) for source in (*Source.objects.all(), None))


def prune_refusals_of(source: Source | None) -> int:
    """Keep only the newest refusals of a source; None: of addresses nobody has."""
    own = Refusal.objects.filter(source=source, event=None)
    newest = own.order_by("-pk").values_list("pk", flat=True)
    oldest = newest[REFUSALS_A_SOURCE : REFUSALS_A_SOURCE + 1].first()
    return remove(own.filter(pk__lte=oldest)) if oldest else 0


def empty_credentials(now: datetime) -> int:
    old = now - CREDENTIALS_FOR
    events = Event.objects.filter(received_at__lt=old).exclude(credentials="").update(credentials="")
    return events + Refusal.objects.filter(at__lt=old).exclude(credentials="").update(credentials="")


def empty_payloads(now: datetime) -> int:
    """Facts stay, payloads go; what is still at work or unresolved keeps its payload."""
    needed = Run.objects.live().values("event_id")
    gathered = Gathered.objects.filter(Q(run__finished_at=None) | Q(run__letters__status="open")).values("event_id")
    open_letters = Event.objects.filter(letters__status="open").values("pk")
    old = Event.objects.filter(received_at__lt=now - timedelta(days=settings.RETENTION_DAYS), pruned_at=None)
    emptied = 0
    free = old.exclude(pk__in=needed).exclude(pk__in=gathered).exclude(pk__in=open_letters)
    while ids := list(free.order_by("pk").values_list("pk", flat=True)[:PIECE]):
        Event.objects.filter(pk__in=ids).update(raw=None, data_json="", headers={}, credentials="", pruned_at=now)
        emptied += len(ids)
    return emptied
