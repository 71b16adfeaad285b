"""What was counted so far: small rows that add up what would be too much to count anew at every look."""

from datetime import UTC, datetime

from django.db import models
from django.db.models import UniqueConstraint


class Tally(models.Model):
    """One number that only grows. `labels` is a JSON list of texts, in the order the name's meaning gives them."""

    name = models.CharField(max_length=64)
    labels = models.CharField(max_length=700, blank=True, default="[]")
    value = models.FloatField(default=0)

    class Meta:
        constraints = [UniqueConstraint(fields=["name", "labels"], name="a_number_is_counted_in_one_row")]

    def __str__(self) -> str:
        return f"{self.name} {self.labels}"


BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)  # before every row


class Counted(models.Model):
    """How far something has come that goes on by itself: tallies, retention, the index of words, alarms."""

    name = models.CharField(max_length=64, primary_key=True)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} until {self.until}"
