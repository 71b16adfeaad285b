"""Whom the desk asks about an action, how far it has got with it, and what became of every message."""

from datetime import datetime
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, Exists, F, OuterRef, Q, UniqueConstraint

from approvals.models.action import Action, Status
from approvals.models.channel import Channel
from project.lib.states import Moves, Stateful


class AskingQuerySet(models.QuerySet["Asking"]):
    def due(self, now: datetime) -> "AskingQuerySet":
        return self.filter(closed_at=None, next_at__lte=now)

    def over(self) -> "AskingQuerySet":
        """Still open, though there is nothing left to ask: it was decided, it ended, or it became another revision."""
        waits = Q(action__status=Status.AWAITING, action__revision=F("revision"))
        return self.filter(closed_at=None).exclude(waits)

    def over_since(self, at: datetime) -> "AskingQuerySet":
        """Closed, and its action has ended, before that; no message of it is under way."""
        ended = self.filter(closed_at__lt=at, action__settled_at__lt=at)
        return ended.filter(~Exists(Notice.objects.open().filter(asking=OuterRef("pk"))))


class Asking(models.Model):
    """People are being asked about one revision of an action: how far the desk has got with it."""

    action = models.ForeignKey(Action, models.PROTECT, related_name="askings")
    revision = models.PositiveIntegerField()
    digest = models.CharField(max_length=80)  # of what is shown
    level = models.PositiveSmallIntegerField(default=0)  # how often it went on to the next group
    reminders = models.PositiveSmallIntegerField(default=0)
    asked_at = models.DateTimeField()
    next_at = models.DateTimeField(null=True)  # of the next step; None: there is none
    unreached_at = models.DateTimeField(null=True)  # the alarm: nobody had been told by then
    closed_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=200, blank=True, default="")  # in words, for messages that are brought up

    objects = AskingQuerySet.as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["action", "revision"], name="a_revision_is_asked_about_once")]
        indexes = [
            models.Index(fields=["next_at"], condition=Q(closed_at=None), name="askings_open"),
        ]

    def __str__(self) -> str:
        return f"asking about A-{self.action_id} revision {self.revision}"

    @classmethod
    def missing(cls) -> models.QuerySet[Action]:
        """Actions that wait while nobody was asked yet about what they are now."""
        asked = cls.objects.filter(action=OuterRef("pk"), revision=OuterRef("revision"))
        return Action.objects.filter(~Exists(asked), status=Status.AWAITING)


class NoticeQuerySet(models.QuerySet["Notice"]):
    def due(self, now: datetime) -> "NoticeQuerySet":
        """To be sent; or left behind by a process that is gone."""
        return self.filter(Q(status="due", due_at__lte=now) | Q(status="sending", leased_until__lt=now))

    def open(self) -> "NoticeQuerySet":
        return self.filter(status__in=["due", "sending"])

    def about(self, action: Action) -> "NoticeQuerySet":
        """Every message that asked somebody, oldest first, for the page of the request."""
        asking = self.filter(asking__action=action).exclude(what="end")
        return asking.select_related("channel__connection", "person").order_by("pk")

    def reached(self) -> "NoticeQuerySet":
        """Messages that ask, and that a far side has taken."""
        return self.filter(status="sent").exclude(what="end")


class Notice(Stateful):
    """One message to one person over one channel, and its receipt. An `end` brings an earlier one up to date."""

    MOVES: ClassVar[Moves] = Moves(
        take=(("due", "sending"), "sending"),
        send=(("sending",), "sent"),
        put_back=(("sending",), "due"),
        fail=(("sending",), "failed"),
        skip=(("due", "sending"), "skipped"),
    )

    asking = models.ForeignKey(Asking, models.PROTECT, related_name="notices")
    channel = models.ForeignKey(Channel, models.PROTECT, related_name="notices")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    what = models.CharField(max_length=8)  # ask, remind, end
    number = models.PositiveSmallIntegerField(default=0)  # of the reminder
    follows = models.ForeignKey("self", models.PROTECT, null=True, related_name="followed_by")
    status = models.CharField(max_length=8, default="due")
    due_at = models.DateTimeField()
    leased_until = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    ref = models.JSONField(default=dict)  # how the far side calls the message
    error = models.CharField(max_length=300, blank=True, default="")

    objects = NoticeQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["asking", "channel", "what", "number"],
                condition=~Q(what="end"),
                name="a_person_is_asked_once_a_channel",
            ),
            UniqueConstraint(fields=["follows"], condition=Q(what="end"), name="a_message_is_brought_up_once"),
            CheckConstraint(condition=~Q(status="sent") | Q(sent_at__isnull=False), name="a_receipt_says_when"),
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(status__in=["due", "sending"]), name="notices_to_send"),
        ]

    def __str__(self) -> str:
        return f"{self.what} {self.person_id} about {self.asking_id}"

    @property
    def way(self) -> str:
        """The channel by the name of its connection: `Slack`."""
        connection = self.channel.connection
        return connection.name or connection.slug
