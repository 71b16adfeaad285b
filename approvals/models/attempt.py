"""One try to deliver an action: which key was sent, and what is known of it."""

from datetime import timedelta

from django.db import models
from django.db.models import UniqueConstraint

from approvals.models.action import Action

LONGEST_PAUSE = timedelta(minutes=15)  # of what a far side may ask for by Retry-After


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

    @property
    def asked_pause(self) -> timedelta | None:
        """The pause the far side asked for."""
        return None if self.retry_after is None else timedelta(seconds=self.retry_after)

    @property
    def kept_pause(self) -> timedelta | None:
        """What of it the desk keeps."""
        return None if self.asked_pause is None else min(self.asked_pause, LONGEST_PAUSE)
