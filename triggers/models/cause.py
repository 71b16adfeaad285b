"""A cause of dead letters, as far as somebody looks after it."""

from django.conf import settings
from django.db import models


class Cause(models.Model):
    """What all letters of one fingerprint have in common; a row is made when the cause is first given to somebody."""

    fingerprint = models.CharField(max_length=16, primary_key=True)
    assignee = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")

    def __str__(self) -> str:
        return self.fingerprint
