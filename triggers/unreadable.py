"""What a listener read and nobody can make sense of: stored as it came, as a dead letter, so that the next is read."""

from datetime import timedelta

from django.db import transaction

from project.lib import clock
from project.lib.live import changed
from project.lib.text import made_storable
from triggers.endings import open_letter
from triggers.envelope import LONGEST_NAME, key_of
from triggers.models import Event, Seen, Source


def bury(source: Source, place: str, raw: bytes, why: str) -> bool:
    """Keep what stood at `place` as an invalid event with its letter; False when that was done before."""
    now = clock.now()
    with transaction.atomic():
        held = {"event": 0, "until": now + timedelta(seconds=source.dedupe_window)}
        claim, is_new = Seen.objects.get_or_create(source_id=source.pk, key=key_of("at", place), defaults=held)
        if not is_new:
            return False
        why = made_storable(why)
        event = Event.objects.create(
            source=source,
            source_slug=source.slug,
            ce_id=made_storable(place)[:LONGEST_NAME],
            ce_source=f"/sources/{source.slug}",
            type=f"{source.slug}.unreadable",
            raw=raw,
            data_json="",
            received_at=now,
            status="invalid",
            outcomes=[{"trigger": "", "outcome": "invalid", "detail": why}],
        )
        Seen.objects.filter(pk=claim.pk).update(event=event.pk)
        open_letter(now, kind="event", event=event, error_type="Unreadable", message=why, place=source.slug)
        changed("events")
    return True
