"""The freeze calendar is changed here: from its start to its end nothing that a freeze means is carried out.

Decisions go on, expiry of what waits for people too. What is approved waits until the freeze is over or lifted."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction

from approvals.errors import NotValid
from approvals.kinds import why_unknown
from approvals.models import Action, Freeze
from approvals.models.action import Status
from approvals.tiers import Tier
from project.lib import clock, gate
from project.lib.live import all_changed
from project.lib.text import is_storable
from triggers.models import Audit

if TYPE_CHECKING:
    from project.people.models import User

LONGEST = timedelta(days=366)
MOST_KINDS = 50
PATTERN = re.compile(r"[A-Za-z0-9_.-]{1,64}|[A-Za-z0-9_-]{1,60}\.\*")  # `stripe.refund`, or `github.*`


def freeze(
    name: str,
    starts_at: datetime,
    ends_at: datetime,
    *,
    kinds: Sequence[str] = (),
    tiers: Sequence[str] = (),
    by: "User | None",
) -> Freeze:
    """From the commit on it is in the calendar; without kinds or tiers it means all of them. Raises NotValid."""
    name = check_name(name)
    check_times(starts_at, ends_at)
    check_kinds(kinds)
    if unknown := [tier for tier in tiers if tier not in list(Tier)]:
        raise NotValid(f"There is no tier {unknown[0]!r}; there are {', '.join(Tier)}.", field="tiers")
    with transaction.atomic():
        gate.exclusive()
        fields = {"kinds": sorted(set(kinds)), "tiers": [tier for tier in Tier if tier in tiers]}
        row = Freeze.objects.create(name=name, starts_at=starts_at, ends_at=ends_at, by=by, at=clock.now(), **fields)
        Audit.write("freeze", row, by=by, name=name, starts_at=starts_at.isoformat(), ends_at=ends_at.isoformat())
    return row


def lift(row: Freeze, *, by: "User | None") -> Freeze:
    """It is over at once, or never begins; what waited for its end starts within a tick. Raises NotValid."""
    with transaction.atomic():
        gate.exclusive()
        now = clock.now()
        if not Freeze.objects.ahead(now).filter(pk=row.pk).update(lifted_by=by, lifted_at=now):
            raise NotValid("This freeze is over already.")
        row.refresh_from_db()
        Audit.write("lift", row, by=by, name=row.name)
        held = Action.objects.filter(status__in=[Status.APPROVED, Status.UNKNOWN], frozen_until__gt=now)
        cards = list(held.values_list("pk", flat=True))
        held.update(not_before=now, frozen_until=None)  # another one may hold it
        for topic in ("actions", "approvals"):
            all_changed(topic, cards)
    return row


def check_name(name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > 200 or not is_storable(name):
        raise NotValid("Say what it is for, in 1 to 200 characters.", field="name")
    return name


def check_times(starts_at: datetime, ends_at: datetime) -> None:
    if ends_at <= starts_at:
        raise NotValid("It ends after it starts.", field="ends_at")
    if ends_at <= clock.now():
        raise NotValid("It would be over already.", field="ends_at")
    if ends_at - starts_at > LONGEST:
        raise NotValid(f"A freeze lasts at most {LONGEST.days} days.", field="ends_at")


def check_kinds(kinds: Sequence[str]) -> None:
    if len(kinds) > MOST_KINDS:
        raise NotValid(f"A freeze names at most {MOST_KINDS} kinds.", field="kinds")
    for each in kinds:
        if not PATTERN.fullmatch(each):
            raise NotValid(f"{each!r} is no kind; write `stripe.refund`, or `github.*` for all of one.", field="kinds")
        if unknown := why_unknown(each):
            raise NotValid(unknown, field="kinds")
