"""What was counted so far: small rows that add up what would be too much to count anew at every look."""

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


class Counted(models.Model):
    """Up to which moment the rows of one kind were added to the tallies."""

    name = models.CharField(max_length=64, primary_key=True)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} until {self.until}"
