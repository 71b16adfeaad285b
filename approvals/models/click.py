"""What people pressed in a chat."""

from django.conf import settings
from django.db import models
from django.db.models import UniqueConstraint

from approvals.models.connection import Connection


class Click(models.Model):
    """What a chat said that somebody pressed, as it was proved, and what the desk made of it. Each counts once."""

    connection = models.ForeignKey(Connection, models.PROTECT, related_name="+")
    claim = models.CharField(max_length=255)  # the far side's own name of this click
    identity = models.CharField(max_length=254)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    action_id = models.BigIntegerField(null=True)
    digest = models.CharField(max_length=80, blank=True, default="")
    revision = models.PositiveIntegerField(null=True)
    message = models.JSONField(default=dict)  # which one it stands under
    outcome = models.CharField(max_length=32, blank=True, default="")  # approved, or the refusal's code
    remote = models.CharField(max_length=45, blank=True, default="")
    at = models.DateTimeField()

    class Meta:
        constraints = [UniqueConstraint(fields=["connection", "claim"], name="a_click_counts_once")]

    def __str__(self) -> str:
        return f"click {self.claim}"
