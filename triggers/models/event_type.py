"""What kinds of events there are: made from what arrives, each with the shape its data usually has."""

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, F, Q, UniqueConstraint

from project.lib import clock
from triggers.models.audit import Audit
from triggers.models.config import ConfigVersion

if TYPE_CHECKING:
    from project.people.models import User


class EventType(models.Model):
    """One type. `schema` is what is kept and compared with; `shape` is what all events together looked like."""

    type = models.CharField(max_length=255, unique=True)
    description = models.TextField(blank=True, default="")
    schema = models.JSONField(default=dict)  # JSON schema of `data`; empty: nothing is known yet
    mode = models.CharField(max_length=8, default="warn")
    version = models.PositiveIntegerField(default=1)
    is_settled = models.BooleanField(default=False)  # enough was seen, or a person said so: it grows no more by itself
    shape = models.JSONField(default=dict)  # figures of everything seen (triggers/shapes.py)
    drift = models.JSONField(default=list)  # [{path, what, since, at, last, count}] since the schema was kept
    sources = models.JSONField(default=list)  # slugs it came from, the first few
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    count = models.PositiveBigIntegerField(default=0)
    sample = models.BigIntegerField()  # the newest event

    class Meta:
        constraints = [CheckConstraint(condition=Q(mode__in=["warn", "refuse"]), name="a_type_warns_or_refuses")]
        indexes = [models.Index(fields=["mode"], condition=Q(mode="refuse"), name="types_that_refuse")]

    def __str__(self) -> str:
        return self.type

    def keep(self, *, by: "User | None", **fields: Any) -> None:
        """Write `fields`, a new version and the audit row in the caller's transaction."""
        EventType.objects.filter(pk=self.pk).update(**fields, version=F("version") + 1)
        ConfigVersion.bump()
        self.refresh_from_db()
        self.note_version(by=by)
        Audit.objects.create(
            at=clock.now(),
            by=by,
            verb="change",
            kind="eventtype",
            ref=self.type[:200],
            detail={"fields": sorted(fields)},
        )

    def note_version(self, *, by: "User | None") -> None:
        """Keep what it says now beside what it said before."""
        facts = {"schema": self.schema, "mode": self.mode, "description": self.description}
        EventTypeVersion.objects.create(event_type=self, version=self.version, at=clock.now(), by=by, **facts)


class EventTypeVersion(models.Model):
    """What a type said in one version."""

    event_type = models.ForeignKey(EventType, models.CASCADE, related_name="versions", db_index=False)
    version = models.PositiveIntegerField()
    schema = models.JSONField(default=dict)
    mode = models.CharField(max_length=8)
    description = models.TextField(blank=True, default="")
    at = models.DateTimeField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")

    class Meta:
        constraints = [UniqueConstraint(fields=["event_type", "version"], name="a_type_has_each_version_once")]

    def __str__(self) -> str:
        return f"{self.event_type_id} version {self.version}"


class Learnt(models.Model):
    """Up to which event something has read; `event` only grows."""

    name = models.CharField(max_length=64, primary_key=True)
    event = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name} up to E-{self.event}"
