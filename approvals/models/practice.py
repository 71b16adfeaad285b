"""What practice connections delivered: a small world inside the desk."""

from typing import Any

from django.db import models
from django.db.models import UniqueConstraint

from approvals.models.connection import Connection


class PracticeItem(models.Model):
    """A comment, pull request, message or call that would have gone out."""

    connection = models.ForeignKey(Connection, models.PROTECT, related_name="practice_items")
    kind = models.CharField(max_length=64)
    key = models.CharField(max_length=300)
    title = models.CharField(max_length=300)
    arguments = models.JSONField(default=dict)
    result = models.JSONField(default=dict)
    action_id = models.BigIntegerField(null=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [UniqueConstraint(fields=["connection", "kind", "key"], name="practice_honours_keys")]

    def __str__(self) -> str:
        return self.title
