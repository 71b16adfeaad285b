"""Keep one event whole, whatever its age: who wants it and why stands beside it."""

from typing import TYPE_CHECKING

from django.db import transaction

from project.lib import clock
from project.lib.live import changed
from project.lib.text import reason_of
from triggers.errors import NotValid, PayloadGone
from triggers.models import Audit, Event, Pin

if TYPE_CHECKING:
    from project.people.models import User


def pin(event: Event, *, by: "User | None", reason: str) -> None:
    """Retention leaves it, its payload and its runs alone from now on; a second pin changes nothing.

    Raises NotValid without a reason, PayloadGone when there is nothing left to keep."""
    reason = reason_of(reason, NotValid)
    if not reason:
        raise NotValid("Say why it must be kept.", field="reason")
    with transaction.atomic():
        held = Event.objects.select_for_update(of=("self",), no_key=True).get(pk=event.pk)
        if held.pruned_at is not None:
            raise PayloadGone(f"The payload of E-{held.pk} was removed by the rule of retention already.")
        facts = {"by": by, "at": clock.now(), "reason": reason}
        _, is_new = Pin.objects.get_or_create(event=held, defaults=facts)
        if is_new:
            Audit.write("pin", held, by=by, reason=reason)
            changed("events", id=held.pk)


def unpin(event: Event, *, by: "User | None") -> None:
    """Let retention have it in its turn; nothing happens when it is not pinned."""
    with transaction.atomic():
        if Pin.objects.filter(event=event).delete()[0]:
            Audit.write("unpin", event, by=by)
            changed("events", id=event.pk)
