"""One try to deliver an action: which key was sent, and what is known of it."""

from django.db import models
from django.db.models import UniqueConstraint

from approvals.models.action import Action


class Attempt(models.Model):
    """Committed as `sending` before the call, so that a crash leaves a trace."""

    action = models.ForeignKey(Action, models.PROTECT, related_name="attempts")
    number = models.PositiveIntegerField()
    revision = models.PositiveIntegerField(default=1)
    key_sent = models.CharField(max_length=300)
    outcome = models.CharField(max_length=10, default="sending")  # sending, delivered, failed, put_back, unknown
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    error = models.JSONField(null=True)
    retry_after = models.PositiveIntegerField(null=True)  # seconds the far side asked for
    key_used_up = models.BooleanField(default=False, db_default=False)  # the far side repeats a stored failure to it

    class Meta:
        constraints = [UniqueConstraint(fields=["action", "number"], name="tries_are_counted_once")]

    def __str__(self) -> str:
        return f"A-{self.action_id} try {self.number}"
