"""The span of an event, told after its commit and after the answer: the door itself makes none."""

from collections.abc import Sequence

from project.lib import clock, spans
from triggers.models import Event


def tell(seqs: Sequence[int]) -> None:
    """Make the span of each of these events, if anybody collects spans."""
    if not (seqs and spans.on()):
        return
    now = clock.now()
    for event in Event.objects.without_payload().filter(pk__in=seqs):
        facts = {"event": event.pk, "source": event.source_slug, "type": event.type, "status": event.status}
        spans.receipt(f"event {event.type}", event, began=event.received_at, ended=now, **facts)
