"""What a trigger said in each of its versions."""

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import UniqueConstraint

from project.lib import clock
from triggers.models.trigger import Trigger

if TYPE_CHECKING:
    from project.people.models import User

TOLD = ("name", "source", "type_pattern", "filter", "handler", "config", "limits", "mode", "priority", "enabled")
MOST = 100  # versions kept of one trigger


class TriggerVersion(models.Model):
    """One version, written in the transaction that made it."""

    trigger = models.ForeignKey(Trigger, models.CASCADE, related_name="versions", db_index=False)
    version = models.PositiveIntegerField()
    facts = models.JSONField()  # by the names of TOLD
    at = models.DateTimeField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")

    class Meta:
        constraints = [UniqueConstraint(fields=["trigger", "version"], name="a_trigger_has_each_version_once")]

    def __str__(self) -> str:
        return f"{self.trigger_id} version {self.version}"

    @classmethod
    def note(cls, trigger: Trigger, *, by: "User | None") -> None:
        """Keep what the trigger says now; the oldest beyond MOST go."""
        cls.objects.create(trigger=trigger, version=trigger.version, facts=told_of(trigger), at=clock.now(), by=by)
        cls.objects.filter(trigger=trigger, version__lte=trigger.version - MOST).delete()


def told_of(trigger: Trigger) -> dict[str, Any]:
    return {name: getattr(trigger, name) for name in TOLD}
