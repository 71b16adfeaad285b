"""What keeps a handler that fails every time from burning through its queue."""

from django.db import models


class BreakerQuerySet(models.QuerySet["Breaker"]):
    def open(self) -> "BreakerQuerySet":
        """Those that hold their handler's runs back, all but the one that tries."""
        return self.exclude(until=None)


class Breaker(models.Model):
    """The failures of one handler since its last success; open while `until` is set.

    When `until` has passed, one run (`probe`) may try: its success wipes the row, its failure opens it for longer."""

    handler = models.CharField(max_length=200, primary_key=True)
    failures = models.PositiveIntegerField(default=0)  # runs that died in a row
    opened = models.PositiveIntegerField(default=0)  # times in a row, for the back-off
    opened_at = models.DateTimeField(null=True)
    until = models.DateTimeField(null=True)
    probe = models.ForeignKey("triggers.Run", models.SET_NULL, null=True, related_name="+")

    objects = BreakerQuerySet.as_manager()

    def __str__(self) -> str:
        return self.handler
