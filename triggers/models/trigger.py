"""Which events start which handler."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import Case, CheckConstraint, Count, F, IntegerField, OuterRef, Q, Subquery, When
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce
from django.db.models.lookups import GreaterThanOrEqual

from project.lib import clock
from triggers.errors import NotValid
from triggers.limits import Limits
from triggers.models.audit import Audit
from triggers.models.config import ConfigVersion

if TYPE_CHECKING:
    from project.people.models import User


TOLD = ("name", "source", "type_pattern", "filter", "handler", "config", "limits", "mode", "priority", "enabled")
MOST_VERSIONS = 100  # kept of one trigger


class TriggerQuerySet(models.QuerySet["Trigger"]):
    def kept(self) -> "TriggerQuerySet":
        return self.filter(archived_at=None)

    def armed(self) -> "TriggerQuerySet":
        return self.kept().filter(enabled=True)

    def named(self, slugs: Collection[str]) -> "list[Trigger]":
        """Those with these slugs, each once. Raises NotValid for the first that is not there, or is archived."""
        there = {trigger.slug: trigger for trigger in self.kept().filter(slug__in=slugs)}
        missing = next((slug for slug in slugs if slug not in there), None)
        if missing is not None:
            raise NotValid(f"There is no trigger `{missing}`.", field="triggers")
        return [there[slug] for slug in sorted(there)]

    def with_room(self) -> "TriggerQuerySet":
        """Without those of which no run can start, because all slots are taken and none is kept over a wait."""
        slots = self.model.slots.rel.related_model.objects.filter(trigger=OuterRef("pk")).order_by()  # type: ignore[attr-defined]
        taken = Coalesce(Subquery(slots.values("trigger").annotate(n=Count("pk")).values("n")), 0)
        limit = Cast(KT("limits__concurrency__limit"), IntegerField())
        plain = Q(limits__concurrency__key="", limits__concurrency__waiting_counts=False)
        return self.alias(
            full=Case(When(plain & Q(GreaterThanOrEqual(taken, limit)), then=True), default=False)
        ).filter(full=False)


class Trigger(models.Model):
    """A rule: events of this source and type, that pass this filter, start this handler."""

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=200)
    enabled = models.BooleanField(default=True)
    source = models.CharField(max_length=64)  # a slug, /approvals, /nightdesk or *
    type_pattern = models.CharField(max_length=255, default="**")
    filter = models.TextField(blank=True, default="")  # CEL over event and headers
    filter_plan = models.JSONField(null=True, blank=True)  # clauses and the paths they read
    handler = models.CharField(max_length=200)
    config = models.JSONField(default=dict, blank=True)
    limits = models.JSONField(default=dict, blank=True)
    mode = models.CharField(max_length=8, default="live")
    priority = models.PositiveSmallIntegerField(default=5)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True, blank=True)
    full_at = models.DateTimeField(null=True)  # its queue ran over; tick says so and takes this away

    objects = TriggerQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(condition=Q(mode__in=["live", "paused"]), name="a_trigger_is_live_or_paused"),
            CheckConstraint(condition=Q(priority__lte=9), name="priority_is_0_to_9"),
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def flow(self) -> Limits:
        """Its `limits`, with the usual value of whatever they do not say."""
        return Limits.model_validate(self.limits)

    def change(self, *, by: "User | None", verb: str = "change", reason: str = "", **fields: Any) -> None:
        """Write `fields`, a new version and the audit row in the caller's transaction."""
        if not self.versions.exists():
            self.note_version(by=self.changed_by)  # what it said before anybody changed it
        stamp = {"changed_by": by, "changed_at": clock.now()}
        Trigger.objects.filter(pk=self.pk).update(**fields, **stamp, version=F("version") + 1)
        ConfigVersion.bump()
        self.refresh_from_db()
        self.note_version(by=by)
        Audit.write(verb, self, by=by, fields=sorted(fields), reason=reason)

    def note_version(self, *, by: "User | None") -> None:
        """Keep what it says now; the oldest beyond MOST_VERSIONS go."""
        self.versions.create(version=self.version, facts=self.told, at=clock.now(), by=by)
        self.versions.filter(version__lte=self.version - MOST_VERSIONS).delete()

    @property
    def told(self) -> dict[str, Any]:
        """What it says, by the names of TOLD."""
        return {name: getattr(self, name) for name in TOLD}

    def enable(self, *, by: "User | None") -> None:
        self.change(by=by, verb="enable", enabled=True)

    def disable(self, *, by: "User | None", reason: str = "") -> None:
        self.change(by=by, verb="disable", reason=reason, enabled=False)

    def archive(self, *, by: "User | None") -> None:
        """What it has at work is not held back any more: nobody could let it go on later."""
        self.change(by=by, verb="archive", enabled=False, mode="live", archived_at=clock.now())
