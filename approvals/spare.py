"""Which rows of the people's side may go with the payloads, once what they are about ended long ago.

Facts stay: actions, decisions, tries, and the clicks that decided something. What goes are receipts of messages, what
programs outside once asked for under which key, whom they wanted called back, and clicks that changed nothing."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from approvals.models import Asking, CallBack, Click, Notice, Proposal
from approvals.models.proposal import REMEMBERED


def rows(now: datetime) -> Iterator["QuerySet[Any]"]:
    """What is brought up to date goes before what it followed, and messages before what they asked."""
    old = now - max(timedelta(days=settings.RETENTION_DAYS), REMEMBERED)
    over = Asking.objects.over_since(old)
    notices = Notice.objects.filter(asking__in=over)
    yield notices.exclude(follows=None)
    yield notices.filter(follows=None)
    yield over
    yield Click.objects.filter(at__lt=old).exclude(outcome="approved")
    nobody_is_called = Q(action__token__revoked_at__isnull=False)
    told = Q(due_at=None) | Q(told_at__isnull=False) | nobody_is_called
    yield CallBack.objects.settled_before(old).filter(told)
    yield Proposal.objects.settled_before(old)
