"""What of an event can be found by its words."""

from django.db import models

from triggers.models.event import Event


class EventWords(models.Model):
    """The words of one event, in order; the index of each database stands on this table (migration of the same name).

    `facts` are those of type, subject and id, `whole` those and the payload's: they go when the payload goes."""

    event = models.OneToOneField(Event, models.CASCADE, primary_key=True, related_name="words")
    facts = models.TextField()
    whole = models.TextField()

    def __str__(self) -> str:
        return self.facts
