"""Which action stands for an `act()` of a run: its own, or one that another run proposed first."""

from django.db import models
from django.db.models import UniqueConstraint

from approvals.models.action import Action
from triggers.models import Run


class Act(models.Model):
    """A run's act by its name. Several runs may wait for one action; it is withdrawn with the last of them."""

    run = models.ForeignKey(Run, models.PROTECT, related_name="acts")
    name = models.CharField(max_length=200)
    action = models.ForeignKey(Action, models.PROTECT, related_name="acts")
    digest = models.CharField(max_length=80)  # of what this run proposed first
    drift = models.CharField(max_length=80, blank=True, default="")  # of what a replay asked for instead
    drifted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [UniqueConstraint(fields=["run", "name"], name="an_act_stands_for_one_action")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.name}"
