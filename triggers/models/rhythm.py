"""How often a source usually rings, and whether it has fallen silent."""

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q

from project.lib.language import phrase
from project.lib.text import span
from triggers.models.source import Source

SILENT_AFTER = 3  # times the usual distance
SHORTEST = 60  # seconds between two events of which silence can be told


class RhythmQuerySet(models.QuerySet["Rhythm"]):
    def silent(self) -> "RhythmQuerySet":
        """Of open sources that were said to be silent and have not rung since."""
        return self.filter(silent_at__isnull=False, source__enabled=True, source__archived_at=None)


class Rhythm(models.Model):
    """What was learnt of one source; `pauses` is the longest pause of each of the last days, by its date."""

    source = models.OneToOneField(Source, models.CASCADE, primary_key=True, related_name="rhythm")
    newest = models.BigIntegerField(default=0)  # the last event that was counted in
    last_at = models.DateTimeField(null=True)  # when that one came
    again_at = models.DateTimeField(null=True)  # when one that is known last came again: whoever sends it is there
    since = models.DateTimeField(null=True)  # what came before, or did not, no longer counts: it was off
    pauses = models.JSONField(default=dict)  # "2026-11-29" -> seconds
    usually = models.FloatField(null=True)  # seconds between two of the newest events
    every = models.FloatField(null=True)  # the longest pause of a usual day, in seconds; None: not learnt yet
    looked_at = models.DateTimeField(null=True)
    silent_at = models.DateTimeField(null=True)  # when it was said; None: it rings

    objects = RhythmQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["source"], condition=Q(silent_at__isnull=False), name="sources_that_are_silent")
        ]

    def __str__(self) -> str:
        return f"{self.source}: {self.words or 'not learnt'}"

    @property
    def words(self) -> str:
        """`about every 4 min`, and the pauses it usually makes when they are much longer."""
        if self.every is None or self.usually is None:
            return ""
        usual = phrase("about every {time}", time=span(max(self.usually, 1)))
        if self.every < 2 * self.usually:
            return usual
        return phrase("{usual}, with pauses up to {time}", usual=usual, time=span(self.every))

    def expects(self, expect_every: int | None) -> float | None:
        """Seconds after which it should have rung: what its admin said, else what was learnt."""
        return float(expect_every) if expect_every is not None else self.every

    def next_expected(self, expect_every: int | None) -> datetime | None:
        """When the next one should be here at the latest."""
        every, before = self.expects(expect_every), self.heard_at
        return before + timedelta(seconds=every) if every and before else None

    @property
    def heard_at(self) -> datetime | None:
        """From when silence counts."""
        return max(filter(None, (self.last_at, self.again_at, self.since)), default=None)
