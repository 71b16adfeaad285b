"""Which events are kept whatever their age."""

from django.conf import settings
from django.db import models

from triggers.models.event import Event


class Pin(models.Model):
    """A person wants this event kept whole, whatever its age."""

    event = models.OneToOneField(Event, models.CASCADE, primary_key=True, related_name="pin")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", db_index=False)
    at = models.DateTimeField()
    reason = models.TextField()

    def __str__(self) -> str:
        return self.reason
