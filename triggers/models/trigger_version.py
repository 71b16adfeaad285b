"""What a trigger said in each of its versions."""

from django.conf import settings
from django.db import models
from django.db.models import UniqueConstraint

from triggers.models.trigger import Trigger


class TriggerVersion(models.Model):
    """One version, written in the transaction that made it; `facts` by the names of triggers.models.trigger.TOLD."""

    trigger = models.ForeignKey(Trigger, models.CASCADE, related_name="versions", db_index=False)
    version = models.PositiveIntegerField()
    facts = models.JSONField()
    at = models.DateTimeField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")

    class Meta:
        constraints = [UniqueConstraint(fields=["trigger", "version"], name="a_trigger_has_each_version_once")]

    def __str__(self) -> str:
        return f"{self.trigger_id} version {self.version}"
