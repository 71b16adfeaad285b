"""By which ways, and at which hours, the desk reaches a person."""

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint

from approvals.models.connection import Connection

if TYPE_CHECKING:
    from project.people.models import User


class ChannelQuerySet(models.QuerySet["Channel"]):
    def kept(self) -> "ChannelQuerySet":
        return self.filter(removed_at=None)

    def usable(self) -> "ChannelQuerySet":
        """A person has shown that it reaches them, and the way there is still open."""
        open_ways = self.kept().filter(connection__archived_at=None, connection__practice=False)
        return open_ways.filter(confirmed_at__isnull=False).select_related("connection")


class Channel(models.Model):
    """One way to reach one person. It is used once that person has typed the code that was sent over it.

    Where the far side signs who pressed a button, `identity` is how it calls that person there: nobody else's clicks
    are theirs."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="channels")
    connection = models.ForeignKey(Connection, models.PROTECT, related_name="channels")
    address = models.CharField(max_length=254, blank=True, default="")  # empty: the connection leads to one group
    identity = models.CharField(max_length=254, blank=True, default="")
    code = models.CharField(max_length=64, blank=True, default="")  # the hash of the one that was sent last
    code_sent_at = models.DateTimeField(null=True)
    misses = models.PositiveSmallIntegerField(default=0)  # wrong codes since
    created_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(null=True)
    pressed_at = models.DateTimeField(null=True)  # the button of a test message: clicks arrive
    removed_at = models.DateTimeField(null=True)

    objects = ChannelQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["person", "connection", "address"],
                condition=Q(removed_at=None),
                name="a_channel_is_set_up_once",
            ),
            UniqueConstraint(
                fields=["connection", "identity"],
                condition=Q(removed_at=None, confirmed_at__isnull=False) & ~Q(identity=""),
                name="an_identity_is_one_persons",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.person} by {self.connection}"


class Hours(models.Model):
    """When a person may be written to, in their own zone. Nobody's hours are anybody else's."""

    person = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="hours")
    windows = models.JSONField(default=list)  # [{days, from, to}]; none: at any time
    mornings = models.BooleanField(default=True, db_default=True)  # told each morning what was done without a nod

    def __str__(self) -> str:
        return f"hours of {self.person}"

    @classmethod
    def of(cls, person: "User") -> list[dict[str, object]]:
        kept = cls.objects.filter(person=person).first()
        return kept.windows if kept else []

    @classmethod
    def shown(cls, person: "User") -> dict[str, object]:
        """As the form shows it; who never said anything is written to at any time."""
        kept = cls.objects.filter(person=person).first() or cls()
        return {"windows": kept.windows, "mornings": kept.mornings}
