"""Once a day each person is told what was done without a nod: in the morning of their own zone, over one of their ways.

It is told at least once, like every message to our own people; what no way takes is told with the next day's."""

import logging
from datetime import datetime, time, timedelta

from django.conf import settings
from django.db import transaction

from approvals.carriers import carrier_of
from approvals.carrying import Letter
from approvals.done import Group, done
from approvals.errors import DeliveryError, NotValid
from approvals.models import Channel, Hours, Morning, Review
from project.lib import clock
from project.lib.apart import each
from project.lib.crypto import Unreadable
from project.lib.visible import plain
from project.people.models import User
from project.people.roles import can

logger = logging.getLogger("nightdesk.telling")
MORNING = time(8)
AGAIN = timedelta(hours=1)  # after which a message that no way took is tried again
SEEN = timedelta(minutes=1)  # after which what ended is visible to everybody; younger ends are told the next day
TIMEOUT = timedelta(seconds=5)  # of one call
SHOWN = 20  # handlers and kinds in one message
ROUND = 20


def tick() -> int:
    begin()
    due = Morning.objects.filter(next_at__lte=clock.now()).order_by("next_at").values_list("pk", flat=True)
    return each(send, list(due[:ROUND]))


def begin() -> None:
    """Whoever can be reached is told from now on."""
    now = clock.now()
    told = Morning.objects.values("person")
    reached = User.objects.filter(is_active=True, channels__in=Channel.objects.usable()).distinct()
    for person in reached.exclude(pk__in=told):
        Morning.objects.get_or_create(person=person, defaults={"until": now, "next_at": next_morning(person, now)})


def next_morning(person: User, after: datetime) -> datetime:
    """The next eight o'clock where the person is."""
    local = after.astimezone(person.zone)
    today = local.replace(hour=MORNING.hour, minute=0, second=0, microsecond=0)
    return today if today > local else today + timedelta(days=1)


def send(morning_id: int) -> bool:
    """Tell one person what ended since they were told last; nothing is said of nothing."""
    with transaction.atomic():
        held = Morning.objects.select_for_update(no_key=True, of=("self",)).select_related("person").get(pk=morning_id)
        now = clock.now()
        if held.next_at > now:
            return False
        Morning.objects.filter(pk=held.pk).update(next_at=now + AGAIN)
    until = max(held.until, now - SEEN)
    groups = done(held.until, until) if wants(held.person) else []
    if groups and not carried(held.person, letter_of(groups, held)):
        return False
    Morning.objects.filter(pk=held.pk).update(until=until, next_at=next_morning(held.person, now))
    return bool(groups)


def wants(person: User) -> bool:
    """Who opted out is told nothing, and nothing of these days later on."""
    return can(person, "view") and not Hours.objects.filter(person=person, mornings=False).exists()


def letter_of(groups: list[Group], told: Morning) -> Letter:
    total, drawn = sum(group.done for group in groups), Review.objects.waiting().count()
    lines = [plain(group.words) for group in groups[:SHOWN]]
    lines += [f"and {len(groups) - SHOWN} more handlers and kinds"] if len(groups) > SHOWN else []
    lines += [f"{drawn} drawn at random wait to be looked at."] if drawn else []
    title = f"{total} done without a nod since {told.until.astimezone(told.person.zone):%d %B, %H:%M}"
    key = f"morning-{told.pk}-{int(told.until.timestamp())}"
    return Letter(title, tuple(lines), f"{settings.BASE_URL}/done", key=key)


def carried(person: User, letter: Letter) -> bool:
    """Over the first of the person's ways that takes it, mail before all others; True too when there is none."""
    ways = sorted(Channel.objects.usable().filter(person=person), key=lambda way: way.connection.system != "smtp")
    for way in ways:
        try:
            carrier = carrier_of(way.connection.system, way.address)
            carrier.send(way.connection.far(TIMEOUT), way.address, letter)
        except (DeliveryError, NotValid, Unreadable) as error:
            logger.warning(
                "what was done without a nod was not told %s by %s: %s", person.pk, way.connection.slug, error
            )
        else:
            return True
    return not ways
