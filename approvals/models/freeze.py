"""The freeze calendar: times in which nothing of some kinds and tiers is carried out."""

from datetime import datetime
from fnmatch import fnmatchcase

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, F, Q

ALARM = "notify.send"


class FreezeQuerySet(models.QuerySet["Freeze"]):
    def kept(self) -> "FreezeQuerySet":
        """Not lifted."""
        return self.filter(lifted_at=None)

    def ahead(self, now: datetime) -> "FreezeQuerySet":
        """In force now, or to come."""
        return self.kept().filter(ends_at__gt=now)

    def thaws_at(self, kind: str, tier: str, at: datetime) -> datetime:
        """The first moment from `at` on in which none of them holds such an action back; `at` itself without one."""
        for each in self.ahead(at).order_by("starts_at"):
            at = each.ends_at if each.is_on(at) and each.means(kind, tier) else at
        return at


class Freeze(models.Model):
    """From one moment to another nothing it means is started. Decisions go on; what is approved waits for its end."""

    name = models.CharField(max_length=200)  # what people read: `Year's end`
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    kinds = models.JSONField(default=list)  # names, or `github.*`; none: every kind
    tiers = models.JSONField(default=list)  # none: every tier
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    at = models.DateTimeField()
    lifted_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    lifted_at = models.DateTimeField(null=True)

    objects = FreezeQuerySet.as_manager()

    class Meta:
        constraints = [CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="a_freeze_ends_after_it_starts")]
        indexes = [models.Index(fields=["ends_at"], condition=Q(lifted_at=None), name="freezes_ahead")]

    def __str__(self) -> str:
        return self.name

    def means(self, kind: str, tier: str) -> bool:
        """A freeze of every kind holds back no alarm: messages to our own people must be named."""
        named = any(fnmatchcase(kind, pattern) for pattern in self.kinds)
        return (not self.tiers or tier in self.tiers) and (named or (not self.kinds and kind != ALARM))

    def is_on(self, at: datetime) -> bool:
        return self.lifted_at is None and self.starts_at <= at < self.ends_at
