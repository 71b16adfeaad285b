"""What a program outside said when it asked for an action: under which key of its own, and whom to call back."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Q

from approvals.models.action import SETTLED, Action
from project.lib import crypto

if TYPE_CHECKING:
    from project.people.models import ApiToken

REMEMBERED = timedelta(hours=24)  # a key of a token; longer while its action has not ended


class ProposalQuerySet(models.QuerySet["Proposal"]):
    def under(self, token: "ApiToken", key: str) -> "ProposalQuerySet":
        """Whatever this token ever asked for under this key."""
        return self.filter(action__token=token, key=key)

    def remembered(self, now: datetime) -> "ProposalQuerySet":
        """Those of which a repetition gets the same action."""
        return self.filter(Q(action__created_at__gt=now - REMEMBERED) | ~Q(action__status__in=SETTLED))

    def settled_before(self, at: datetime) -> "ProposalQuerySet":
        return self.filter(action__settled_at__lt=at)


class Proposal(models.Model):
    """One request of a program outside, by its `Idempotency-Key`."""

    action = models.OneToOneField(Action, models.PROTECT, related_name="proposal")
    key = models.CharField(max_length=200, db_index=True)
    body_digest = models.CharField(max_length=80)  # of everything that was asked for
    number = models.PositiveIntegerField(null=True)  # of its token's requests under this key; None: nobody counted

    objects = ProposalQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.key} A-{self.action_id}"


class CallBackQuerySet(models.QuerySet["CallBack"]):
    def due(self, now: datetime) -> "CallBackQuerySet":
        """Of actions that have ended; nobody is called for a token that was revoked."""
        ended = self.filter(due_at__lte=now, action__status__in=SETTLED)
        return ended.filter(action__token__revoked_at=None)

    def settled_before(self, at: datetime) -> "CallBackQuerySet":
        return self.filter(action__settled_at__lt=at)


class CallBack(models.Model):
    """Who is told, once, that an action has ended. It carries no authority and causes nothing in the desk."""

    action = models.OneToOneField(Action, models.PROTECT, related_name="call_back")
    sealed_url = models.TextField()  # addresses of this kind carry secrets of their own
    due_at = models.DateTimeField(null=True)  # of the next try, once the action has ended; None: no more
    tries = models.PositiveSmallIntegerField(default=0)
    told_at = models.DateTimeField(null=True)  # the far side took it
    error = models.CharField(max_length=300, blank=True, default="")  # of the last try

    objects = CallBackQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="call_backs_due")]

    def __str__(self) -> str:
        return f"call back for A-{self.action_id}"

    @property
    def url(self) -> str:
        """Raises crypto.Unreadable."""
        url: Any = crypto.unseal(self.sealed_url)
        return str(url)
