"""Who did what to which row: written in the transaction of the deed, never changed."""

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models

from project.lib import clock

if TYPE_CHECKING:
    from project.people.models import User


class Audit(models.Model):
    """One deed. `number` and `hash` are for the sealing of rows, which nothing does yet."""

    at = models.DateTimeField(db_index=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    verb = models.CharField(max_length=64)
    kind = models.CharField(max_length=32)
    ref = models.CharField(max_length=200)
    detail = models.JSONField(default=dict)
    number = models.BigIntegerField(null=True, unique=True)
    hash = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        indexes = [models.Index(fields=["kind", "ref", "id"], name="audit_of_a_row")]

    def __str__(self) -> str:
        return f"{self.verb} {self.kind} {self.ref}"

    @classmethod
    def write(cls, verb: str, row: models.Model, *, by: "User | None" = None, **detail: Any) -> "Audit":
        """Record `verb` on `row` by a person (None: the desk itself), inside the caller's transaction."""
        ref = str(getattr(row, "slug", "") or row.pk)
        kind = row._meta.model_name or ""
        return cls.objects.create(at=clock.now(), by=by, verb=verb, kind=kind, ref=ref, detail=detail)
