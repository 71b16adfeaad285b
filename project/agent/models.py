"""What answers of models cost: one row each, written as soon as the answer is there."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import models
from django.db.models import Count, Sum

from triggers.models import Run

MICRO = 1_000_000  # of a dollar


class SpendingQuerySet(models.QuerySet["Spending"]):
    def of_day(self, trigger_id: int | None, midnight: datetime) -> "SpendingQuerySet":
        """What a trigger's runs have spent since midnight."""
        return self.filter(trigger=trigger_id, at__gte=midnight)

    def total(self) -> "Total":
        return Total(**self.aggregate(**SUMS))


class Reservation(models.Model):
    """What a request under way may come to, held back from what its trigger has left for the day; one a run."""

    run = models.OneToOneField(Run, models.CASCADE, related_name="reservation", primary_key=True)
    trigger = models.BigIntegerField()
    tokens = models.PositiveIntegerField()
    micros = models.PositiveBigIntegerField()  # millionths of a dollar
    until = models.DateTimeField()  # then whoever asked is gone

    class Meta:
        indexes = [models.Index(fields=["trigger", "until"], name="held_of_a_day")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.tokens}"


class Spending(models.Model):
    """One answer of a model: how much text went in and out, and its price. None: nobody knows the price."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="spendings")
    trigger = models.BigIntegerField(null=True)
    step = models.CharField(max_length=200)
    model = models.CharField(max_length=200)
    tokens_in = models.PositiveIntegerField()
    tokens_out = models.PositiveIntegerField()
    micros = models.PositiveBigIntegerField(null=True)  # millionths of a dollar
    at = models.DateTimeField()

    objects = SpendingQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["trigger", "at"], name="spendings_of_a_day"),
            models.Index(fields=["at"], name="spendings_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.step}"


SUMS: dict[str, Any] = {
    "went_in": Sum("tokens_in", default=0),
    "came_out": Sum("tokens_out", default=0),
    "price": Sum("micros", default=0),
    "answers": Count("pk"),
    "priced": Count("micros"),
}


class Total:
    """Several answers together."""

    def __init__(self, *, went_in: int, came_out: int, price: int, answers: int, priced: int) -> None:
        self.tokens = went_in + came_out
        self.answers = answers
        self.cost = Decimal(price) / MICRO
        self.is_priced = priced == answers  # else the cost is only what is known of it
