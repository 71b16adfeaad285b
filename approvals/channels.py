"""A person's channels: set up, shown to reach them by a code, tried out, removed."""

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.crypto import constant_time_compare, salted_hmac

from approvals.carriers import CARRIERS, TO_ONE, carrier_of
from approvals.carrying import Carrier, Letter
from approvals.errors import DeliveryError, NotValid
from approvals.models import Channel, Connection, Hours
from approvals.windows import checked_windows
from project.lib import clock
from project.lib.crypto import Unreadable
from project.people.models import User
from triggers.models import Audit

T = TypeVar("T")
GOOD_FOR = timedelta(minutes=10)
PAUSE = timedelta(seconds=30)  # between two codes
MOST_MISSES = 5
MOST_CHANNELS = 10  # of a person; and as many new ones an hour, since each writes to an address nobody has shown
HOUR = timedelta(hours=1)
TIMEOUT = timedelta(seconds=10)
HERE = "/settings/notifications"


def open_ways() -> list[Connection]:
    """Connections by which single people, or a group of ours, can be told."""
    rows = Connection.objects.kept().filter(practice=False, system__in=CARRIERS).order_by("slug")
    return [row for row in rows if ways_of(row)]


def ways_of(connection: Connection) -> list[Carrier]:
    """What a connection holds all for: to a group, to single people, or both."""
    both = (CARRIERS.get(connection.system), TO_ONE.get(connection.system))
    return [way for way in both if way and way.needs in ("", *connection.secret_names)]


def add(person: User, connection: Connection, address: str) -> Channel:
    """A new channel, or the one there is; a code goes out over it. Raises NotValid."""
    carrier = way_to(connection, address.strip())
    kept = carrier.check(address.strip())
    with transaction.atomic():
        rows = Channel.objects.kept().filter(person=person)
        channel = rows.filter(connection=connection, address=kept).first()
        if channel is None:
            now = clock.now()
            if rows.count() >= MOST_CHANNELS:
                raise NotValid(f"At most {MOST_CHANNELS} channels a person.", field="address")
            if Channel.objects.filter(person=person, created_at__gt=now - HOUR).count() >= MOST_CHANNELS:
                raise NotValid(f"At most {MOST_CHANNELS} new channels an hour.", field="address")
            given = {"person": person, "connection": connection, "address": kept}
            channel = Channel.objects.create(**given, created_at=now)
    if channel.confirmed_at is None:
        send_code(channel)
    return channel


def send_code(channel: Channel) -> None:
    """Raises NotValid when one went out just now, or, naming the channel, when the far side does not take it."""
    now, code = clock.now(), f"{secrets.randbelow(10**6):06}"
    rows, kept = Channel.objects.filter(pk=channel.pk), hashed(channel, code)
    if not rows.exclude(code_sent_at__gt=now - PAUSE).update(code=kept, code_sent_at=now, misses=0):
        raise NotValid("A code was sent, or tried, just now; wait half a minute.", field="address")
    lines = ("Type it under Settings, Notifications, within ten minutes.", "Did you not ask for it? Then do nothing.")
    letter = Letter(f"Your code for Nightdesk: {code}", lines, page(), key=f"code-{channel.pk}-{now.timestamp():.0f}")
    try:
        carry(channel, letter)
    except NotValid as refused:
        rows.filter(code=kept).update(code="")
        raise NotValid(refused.detail, field="address", channel=channel.pk) from refused
    if clicks := carrier_of(channel.connection.system, channel.address).clicks:
        was_sent_to(channel, over(lambda: clicks.identify(channel.connection.far(TIMEOUT), channel.address)))


def was_sent_to(channel: Channel, identity: str) -> None:
    """How the far side calls whoever got the code. A channel shown to reach somebody else there is to be shown
    anew: until then nobody's clicks are this person's by it, and nothing is sent there."""
    with transaction.atomic():
        held = Channel.objects.select_for_update(no_key=True).get(pk=channel.pk)
        if held.identity == identity:
            return
        if held.confirmed_at:
            Audit.write("unlink", held, by=held.person, connection=held.connection.slug, identity=held.identity)
        Channel.objects.filter(pk=held.pk).update(identity=identity, confirmed_at=None, pressed_at=None)


def confirm(channel: Channel, code: str) -> None:
    """The person has read it: the channel is theirs. Raises NotValid."""
    with transaction.atomic():
        held = Channel.objects.select_for_update(no_key=True).get(pk=channel.pk)
        now = clock.now()
        wrong = why_wrong(held, code.strip(), now)
        if wrong:
            Channel.objects.filter(pk=held.pk).update(misses=held.misses + 1)
        else:
            belongs(held, now)
    if wrong:
        raise NotValid(wrong, field="code")


def why_wrong(held: Channel, code: str, now: datetime) -> str:
    if not held.code or held.removed_at or held.code_sent_at is None or held.code_sent_at <= now - GOOD_FOR:
        return "This code is too old. Have a new one sent."
    if held.misses >= MOST_MISSES:
        return "Too many wrong codes. Have a new one sent."
    return "" if constant_time_compare(held.code, hashed(held, code)) else "That is not the code that was sent."


def belongs(held: Channel, now: datetime) -> None:
    try:
        with transaction.atomic():
            Channel.objects.filter(pk=held.pk).update(code="", confirmed_at=now)
    except IntegrityError:
        raise NotValid("This account is linked to somebody else here; they must remove it first.") from None
    Audit.write("link", held, by=held.person, connection=held.connection.slug, identity=held.identity)


def try_out(channel: Channel) -> None:
    """Send a message that asks for nothing; where clicks are signed, with a button. Raises NotValid."""
    button = ("test", str(channel.pk)) if channel.identity else None
    line = "Press the button: it shows that your clicks arrive." if button else "Nothing needs to be done."
    letter = Letter(
        "This is a test of Nightdesk",
        (line,),
        page(),
        button=button,
        key=f"test-{channel.pk}-{clock.now().timestamp():.3f}",
    )
    carry(channel, letter)


def remove(channel: Channel) -> None:
    with transaction.atomic():
        if Channel.objects.filter(pk=channel.pk, removed_at=None).update(removed_at=clock.now()):
            Audit.write("unlink", channel, by=channel.person, connection=channel.connection.slug)


def set_hours(person: User, windows: Any, *, mornings: bool = True) -> None:
    """When they may be written to, and whether each morning about what was done without a nod. Raises NotValid."""
    Hours.objects.update_or_create(person=person, defaults={"windows": checked_windows(windows), "mornings": mornings})


def carry(channel: Channel, letter: Letter) -> None:
    carrier = carrier_of(channel.connection.system, channel.address)
    over(lambda: carrier.send(channel.connection.far(TIMEOUT), channel.address, letter))


def over(call: Callable[[], T]) -> T:
    """What a far side said; its no, or its silence, in words for the page. Raises NotValid."""
    try:
        return call()
    except (DeliveryError, Unreadable) as error:
        raise NotValid(f"It was not taken: {error}", field="address") from None


def way_to(connection: Connection, address: str) -> Carrier:
    """Raises NotValid when this connection leads nowhere, or not to single people."""
    ways = ways_of(connection)
    if not ways:
        raise NotValid("Nobody can be told by this connection.", field="connection")
    wanted = carrier_of(connection.system, address)
    return wanted if wanted in ways else ways[0]


def hashed(channel: Channel, code: str) -> str:
    return salted_hmac("nightdesk.channel", f"{channel.pk}/{code}", algorithm="sha256").hexdigest()


def page() -> str:
    return f"{settings.BASE_URL}{HERE}"
