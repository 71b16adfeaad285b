"""Messages to our own people leave here: claimed, sent, and their receipt written down.

They are told at least once: a process that dies while it sends leaves a message that is sent again, since one that
comes twice does less harm than one that never comes. They cause nothing, so no action stands behind them."""

import logging
from datetime import datetime, timedelta

from django.db import transaction

from approvals import asking, policy
from approvals.carriers import carrier_of
from approvals.carrying import Ref
from approvals.errors import NotSent, NotValid, OutcomeUnknown, Refused
from approvals.letters import letter_of
from approvals.models import Action, Asking, Notice
from approvals.rules import Ruling
from project.lib import clock
from project.lib.apart import each
from project.lib.crypto import Unreadable
from project.lib.live import changed

logger = logging.getLogger("nightdesk.telling")
TIMEOUT = timedelta(seconds=5)  # of one call
LEASE = timedelta(seconds=60)
PAUSES = (2, 10, 30, 60)  # seconds between tries; after the last there is no more
ROUND = 50


def tick() -> int:
    """One round: ask about what is new, go on where something is due, close what is over, send what waits."""
    done = each(asking.begin, asking.missing()) + each(asking.go_on, asking.due(clock.now()))
    return done + each(asking.close, asking.over()) + each(send, waiting())


def waiting() -> list[int]:
    return list(Notice.objects.due(clock.now()).order_by("due_at").values_list("pk", flat=True)[:ROUND])


def send(notice_id: int) -> bool:
    """One try at one message. False when somebody else has it, or nobody wants it any more."""
    notice = take(notice_id)
    if notice is None:
        return False
    try:
        ref = carry(notice)
    except (NotSent, OutcomeUnknown) as error:
        put_back(notice, str(error))
    except (Refused, NotValid, Unreadable) as error:
        give_up(notice, str(error))
    else:
        notice.move("send", sent_at=clock.now(), ref=ref, error="", leased_until=None)
    changed("actions", id=notice.asking.action_id)
    return True


def take(notice_id: int) -> Notice | None:
    """Claim it, if it is due and still wanted."""
    ruling = policy.ruling_of(Action.objects.for_pages().get(askings__notices=notice_id))
    with transaction.atomic():
        held = Notice.objects.select_for_update(of=("self",), no_key=True).get(pk=notice_id)
        now = clock.now()
        if not Notice.objects.due(now).filter(pk=notice_id).exists():
            return None
        if not is_wanted(held, ruling, now):
            held.move("skip", leased_until=None)
            Asking.objects.filter(pk=held.asking_id, closed_at=None).update(next_at=now)  # others may have to be told
            return None
        if held.tries > len(PAUSES):
            give_up(held, "whoever sent it never came back")
            return None
        return held.move("take", leased_until=now + LEASE, tries=held.tries + 1)


def is_wanted(notice: Notice, ruling: Ruling, now: datetime) -> bool:
    """Is it still asked, of somebody who is still here and may still decide, over a way that still stands?"""
    channel, person, action = notice.channel, notice.person, notice.asking.action
    if not person.is_active or channel.removed_at or channel.connection.archived_at:
        return False
    if notice.what == "end":
        return True
    step = asking.Step(notice.asking, action, ruling, now)
    return asking.still_asks(notice.asking, action) and asking.may_decide(step, person)


def carry(notice: Notice) -> Ref:
    """Send it, or bring the message it follows up to date; how the far side calls it."""
    channel, letter = notice.channel, letter_of(notice)
    carrier, far = carrier_of(channel.connection.system, channel.address), channel.connection.far(TIMEOUT)
    first = notice.follows
    if first is not None and carrier.replace is not None and first.ref:
        carrier.replace(far, first.ref, letter)
        return dict(first.ref)
    return carrier.send(far, channel.address, letter)


def put_back(notice: Notice, why: str) -> None:
    if notice.tries > len(PAUSES):
        return give_up(notice, why)
    pause = timedelta(seconds=PAUSES[notice.tries - 1])
    notice.move("put_back", due_at=clock.now() + pause, error=why[:300], leased_until=None)
    return None


def give_up(notice: Notice, why: str) -> None:
    logger.warning("%s: not told: %s", notice, why[:300])
    notice.move("fail", error=why[:300], leased_until=None)
