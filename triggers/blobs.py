"""Large results, stored once under their digest and gone when no step points to them any more."""

import base64
import hashlib
from datetime import datetime, timedelta

from django.db import models, transaction

from project.lib import clock
from triggers.models import Blob

KEPT_FOR = timedelta(days=1)  # after a step gave it last, also when none points to it
PIECE = 50  # blobs a transaction; each may have 8 MiB


def keep(text: str, size: int, now: datetime) -> Blob:
    """The blob of this text, inside the transaction that writes the step: both are there, or none."""
    blob = Blob(sha256=hashlib.sha256(text.encode()).hexdigest(), text=text, size=size, stored_at=now)
    Blob.objects.bulk_create([blob], update_conflicts=True, unique_fields=["sha256"], update_fields=["stored_at"])
    return blob


def keep_bytes(content: bytes, until: datetime) -> str:
    """Keep what an event came with, at least until then; returns the name by which `content` finds it."""
    text = base64.b64encode(content).decode()
    digest = hashlib.sha256(text.encode()).hexdigest()
    with transaction.atomic():
        blob, is_new = Blob.objects.select_for_update(of=("self",)).get_or_create(
            sha256=digest,
            defaults={"text": text, "size": len(text), "stored_at": clock.now(), "kept_until": until},
        )
        if not is_new:
            Blob.objects.filter(pk=blob.pk).update(kept_until=max(until, blob.kept_until or until))
    return digest


def content(name: str) -> bytes:
    """The bytes that an event came with, such as an attachment by its `blob`. Raises LookupError once they are gone."""
    blob = Blob.objects.filter(pk=name).first()
    if blob is None:
        raise LookupError(f"the blob {name[:12]} was removed by the rule of retention")
    return base64.b64decode(blob.text)


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
