"""Who did what to which row: written in the transaction of the deed, sealed soon after, never changed."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from project.lib import clock

if TYPE_CHECKING:
    from project.people.models import User

DESK = "/nightdesk"  # who did it when nobody did: no person can be called so
SPOKEN = {"A": "action", "R": "run", "E": "event", "D": "deadletter", "B": "bulk"}  # A-7 is action/7


class AuditQuerySet(models.QuerySet["Audit"]):
    def by_actors(self, names: Iterable[str]) -> "AuditQuerySet":
        """What any of these people did, or the desk itself."""
        wanted = list(names)
        people = Q(by__username__in=wanted)
        return self.filter(people | Q(by=None) if DESK in wanted else people)

    def unsealed(self) -> "AuditQuerySet":
        """Written, and not yet a part of the chain (triggers/sealing.py)."""
        return self.filter(number=None)

    def taken_back(self) -> "AuditQuerySet":
        """The approvals that somebody took back."""
        return self.filter(kind="action", verb="take back").select_related("by")

    def about(self, subjects: Iterable[str]) -> "AuditQuerySet":
        """What was done to any of these: `action/7`, `A-7`, or `action` for all of a kind."""
        found = Q(pk=None)
        for subject in subjects:
            kind, _, ref = subject.partition("/")
            letter, dash, number = subject.partition("-")
            if dash and letter.upper() in SPOKEN and number.isdecimal():
                kind, ref = SPOKEN[letter.upper()], number
            found |= Q(kind=kind, ref=ref) if ref else Q(kind=kind)
        return self.filter(found)


class Audit(models.Model):
    """One deed. `number` and `hash` are its seal: set by triggers/sealing.py, then the database refuses changes."""

    at = models.DateTimeField(db_index=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    verb = models.CharField(max_length=64)
    kind = models.CharField(max_length=32)
    ref = models.CharField(max_length=200)
    detail = models.JSONField(default=dict)
    number = models.BigIntegerField(null=True, unique=True)
    hash = models.CharField(max_length=64, blank=True, default="")

    objects = AuditQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["kind", "ref", "id"], name="audit_of_a_row"),
            models.Index(fields=["id"], condition=Q(number=None), name="audit_to_seal"),
            models.Index(  # begins with what is always the same: else SQLite takes `audit_of_a_row` and reads them all
                fields=["kind", "verb", "id"],
                condition=Q(kind="action", verb="take back"),
                name="audit_of_take_backs",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.kind} {self.ref}"

    @property
    def actor(self) -> str:
        return self.by.username if self.by else DESK

    @property
    def subject(self) -> str:
        return f"{self.kind}/{self.ref}"

    @classmethod
    def write(cls, verb: str, row: models.Model, *, by: "User | None" = None, **detail: Any) -> "Audit":
        """Record `verb` on `row` by a person (None: the desk itself), inside the caller's transaction."""
        ref = str(getattr(row, "slug", "") or row.pk)
        kind = row._meta.model_name or ""
        return cls.objects.create(at=clock.now(), by=by, verb=verb, kind=kind, ref=ref, detail=detail)
