"""Large results, stored once under their digest and gone when no step points to them any more."""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import models, transaction

from project.lib import clock
from triggers.models import Blob, Event

KEPT_FOR = timedelta(days=1)  # after a step gave it last, also when none points to it
LATE = timedelta(hours=6)  # at most between keeping what an event comes with and storing the event, or a walk's stages
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
            longer = max(until, blob.kept_until or until)
            Blob.objects.filter(pk=blob.pk).update(kept_until=longer, stored_at=clock.now())
    return digest


def keep_longer(events: Iterable[Event], now: datetime) -> None:
    """What these events came with stays as long as they do: a round of retention has looked at them and left them."""
    names = {name for event in events for name in names_in(event)}
    Blob.objects.filter(pk__in=names, kept_until__lt=now).update(kept_until=now)


def names_in(event: Event) -> Iterator[str]:
    """The blobs that a mail's event names."""
    try:
        attachments = event.data["attachments"]
    except (ValueError, RecursionError, TypeError, KeyError):  # nobody can read it, or it is no mail that was taken
        return
    for one in attachments:
        if isinstance(one, dict) and isinstance(name := one.get("blob"), str):
            yield name


def content(name: str) -> bytes:
    """The bytes that an event came with, such as an attachment by its `blob`. Raises LookupError once they are gone."""
    blob = Blob.objects.filter(pk=name).first()
    if blob is None:
        raise LookupError(f"the blob {name[:12]} was removed by the rule of retention")
    return base64.b64decode(blob.text)


def remove_unused(now: datetime, walked_at: datetime | None = None) -> int:
    """Remove what no step points to; the lock and the age keep one that a step is giving again right now."""
    removed = 0
    while gone := remove_piece(now, walked_at):
        removed += gone
    return removed


def unused(now: datetime, walked_at: datetime | None = None) -> "models.QuerySet[Blob]":
    """What nobody needs any more. `walked_at`: when retention began its last walk over all old events; each that it
    left has kept what it came with at least until then. None: it has not walked yet, so nothing of events goes."""
    free = models.Q(kept_until=None)
    if walked_at is not None:
        came_before = walked_at - timedelta(days=settings.RETENTION_DAYS) - LATE
        free |= models.Q(kept_until__lt=walked_at, stored_at__lt=came_before)
    return Blob.objects.filter(free, stored_at__lt=now - KEPT_FOR, steps=None)


def remove_piece(now: datetime, walked_at: datetime | None) -> int:
    with transaction.atomic():
        digests = list(unused(now, walked_at).select_for_update(of=("self",)).values_list("pk", flat=True)[:PIECE])
        Blob.objects.filter(pk__in=digests).delete()
    return len(digests)
