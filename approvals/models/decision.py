"""What one person said about one revision: yes, no, or an edit that made the next one. Never changed afterwards."""

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, Q, UniqueConstraint

from approvals.models.action import Action

IN_PERSON = "page"  # the one channel that knows a fresh sign-in: no token, batch or chat decides what is high


class Decision(models.Model):
    """What a person said, on which bytes, when, and how they had proved who they are."""

    action = models.ForeignKey(Action, models.PROTECT, related_name="decisions")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    verdict = models.CharField(max_length=8)  # approve, reject, edit
    digest = models.CharField(max_length=80)
    revision = models.PositiveIntegerField()
    reason = models.TextField(blank=True, default="")
    answer_json = models.TextField(null=True)  # noqa: DJ001 -- None: no question was answered
    before = models.TextField(blank=True, default="")  # of an edit: the canonical text that was on the screen
    after = models.TextField(blank=True, default="")  # and the one that was made of it
    channel = models.CharField(max_length=16, default="page")  # page, api, batch, or the chat it came by
    stepped_up = models.BooleanField(default=False)
    held = models.JSONField(null=True)  # roles and teams the person held in that moment
    on_high = models.BooleanField(default=False)
    looked_for = models.FloatField(null=True)  # seconds that it was on the screen; None: nobody knows
    remote = models.CharField(max_length=45, blank=True, default="", db_default="")  # the address it came from
    browser = models.CharField(max_length=200, blank=True, default="", db_default="")  # what it called itself
    at = models.DateTimeField()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["action", "revision", "by", "verdict"], name="one_say_per_person_and_revision"),
            CheckConstraint(
                condition=Q(verdict__in=["approve", "reject"]) | (Q(verdict="edit") & ~Q(before="") & ~Q(after="")),
                name="a_verdict_is_yes_no_or_an_edit",
            ),
            CheckConstraint(
                condition=~Q(verdict="approve", on_high=True) | Q(stepped_up=True),
                name="high_needs_a_fresh_sign_in",
            ),
            CheckConstraint(
                condition=Q(on_high=False) | Q(channel=IN_PERSON), name="high_is_decided_alone_and_in_person"
            ),
        ]
        indexes = [models.Index(fields=["at"], condition=Q(verdict="edit"), name="decisions_that_edit")]

    def __str__(self) -> str:
        return f"{self.verdict} A-{self.action_id}"
