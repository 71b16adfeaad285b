"""Low actions are done without a nod; some are drawn at random, and a person looks at them afterwards."""

import random
from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, Q

from approvals.models.action import Action
from approvals.tiers import Tier

FINE, WRONG = VERDICTS = ("fine", "wrong")


class ReviewQuerySet(models.QuerySet["Review"]):
    def waiting(self) -> "ReviewQuerySet":
        return self.filter(verdict="")

    def oldest_first(self) -> "ReviewQuerySet":
        return self.select_related("action", "action__run", "action__connection", "by").order_by("pk")

    def draw(self, action: Action, now: datetime) -> None:
        """Perhaps: REVIEW_SAMPLE of a hundred low actions. In the transaction that says it is done."""
        if action.tier == Tier.LOW and random.uniform(0, 100) < settings.REVIEW_SAMPLE:
            self.get_or_create(action=action, defaults={"drawn_at": now})


class Review(models.Model):
    """One action that was drawn, and what a person said of it; once said it stands."""

    action = models.OneToOneField(Action, models.PROTECT, related_name="review")
    drawn_at = models.DateTimeField()
    verdict = models.CharField(max_length=8, blank=True, default="")  # fine, wrong; empty: nobody has looked yet
    note = models.TextField(blank=True, default="")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    at = models.DateTimeField(null=True)

    objects = ReviewQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(
                condition=Q(verdict="", by=None, at=None) | Q(verdict__in=VERDICTS, by__isnull=False, at__isnull=False),
                name="who_looked_says_what_he_found",
            ),
        ]
        indexes = [models.Index(fields=["id"], condition=Q(verdict=""), name="reviews_that_wait")]

    def __str__(self) -> str:
        return f"review of A-{self.action_id}"
