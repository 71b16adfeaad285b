"""Large results, stored once under their digest and gone when no step points to them any more."""

import hashlib
from datetime import datetime, timedelta

from django.db import models, transaction

from triggers.models import Blob

KEPT_FOR = timedelta(days=1)  # after a step gave it last, also when none points to it
PIECE = 50  # blobs a transaction; each may have 8 MiB


def keep(text: str, size: int, now: datetime) -> Blob:
    """The blob of this text, inside the transaction that writes the step: both are there, or none."""
    blob = Blob(sha256=hashlib.sha256(text.encode()).hexdigest(), text=text, size=size, stored_at=now)
    Blob.objects.bulk_create([blob], update_conflicts=True, unique_fields=["sha256"], update_fields=["stored_at"])
    return blob


def remove_unused(now: datetime) -> int:
    """Remove what no step points to; the lock and the age keep one that a step is giving again right now."""
    removed = 0
    while gone := remove_piece(now):
        removed += gone
    return removed


def unused(now: datetime) -> "models.QuerySet[Blob]":
    kept = models.Q(kept_until=None) | models.Q(kept_until__lt=now)
    return Blob.objects.filter(kept, stored_at__lt=now - KEPT_FOR, steps=None)


def remove_piece(now: datetime) -> int:
    with transaction.atomic():
        digests = list(unused(now).select_for_update(of=("self",)).values_list("pk", flat=True)[:PIECE])
        Blob.objects.filter(pk__in=digests).delete()
    return len(digests)
