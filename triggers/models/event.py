"""What happened: a CloudEvents envelope, stored once, and the keys that make it once."""

import json
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import UniqueConstraint

from triggers.envelope import LONGEST_NAME
from triggers.errors import PayloadGone
from triggers.models.source import Source


class EventQuerySet(models.QuerySet["Event"]):
    def unmatched(self) -> "EventQuerySet":
        """Stored, but no trigger was asked yet."""
        return self.filter(status="accepted")

    def without_payload(self) -> "EventQuerySet":
        """For lists: payloads stay in the database."""
        return self.defer("raw", "data_json", "headers", "credentials")


class Event(models.Model):
    """One thing that happened. `id` is the number people say (`E-17`, `/events/17`); it orders pages, nothing more."""

    STATUSES = ("accepted", "routed", "ignored", "suppressed", "stopped", "invalid")

    # None: the desk itself. Not indexed, like `requester`: every index is paid for at the door; the slug's serves.
    source = models.ForeignKey(Source, models.PROTECT, null=True, related_name="events", db_index=False)
    source_slug = models.CharField(max_length=64)  # the slug, or /approvals, /nightdesk
    ce_id = models.CharField(max_length=LONGEST_NAME)
    ce_source = models.CharField(max_length=LONGEST_NAME)
    type = models.CharField(max_length=255)
    subject = models.CharField(max_length=LONGEST_NAME, blank=True, default="")
    time = models.DateTimeField(null=True)
    datacontenttype = models.CharField(max_length=200, blank=True, default="")
    dataschema = models.CharField(max_length=512, blank=True, default="")
    severity = models.CharField(max_length=8, default="info")
    traceparent = models.CharField(max_length=200, blank=True, default="")
    correlationid = models.CharField(max_length=255, blank=True, default="")
    idempotencykey = models.CharField(max_length=512, blank=True, default="")
    hops = models.PositiveSmallIntegerField(default=0)

    raw = models.BinaryField(null=True)  # the exact bytes
    data_json = models.TextField(null=True)  # noqa: DJ001 -- None: the raw bytes are clean JSON; "": no data
    headers = models.JSONField(default=dict)
    credentials = models.TextField(blank=True, default="")  # sealed headers that prove the sender
    sanitized = models.PositiveIntegerField(default=0)  # characters replaced by U+FFFD
    remote = models.CharField(max_length=64, blank=True, default="")

    received_at = models.DateTimeField(db_index=True)
    status = models.CharField(max_length=12, default="accepted")
    outcomes = models.JSONField(default=list)  # per trigger [{trigger, outcome, clause?, detail?, run?}]
    duplicates = models.PositiveIntegerField(default=0)
    requester = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", db_index=False)
    pruned_at = models.DateTimeField(null=True)  # its payload went by the rule of RETENTION_DAYS
    emitted_by = models.BigIntegerField(null=True)  # the run that emitted it

    objects = EventQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["status", "id"], condition=models.Q(status="accepted"), name="events_to_match"),
            models.Index(fields=["status", "-id"], condition=~models.Q(status="routed"), name="events_not_routed"),
            models.Index(fields=["source_slug", "-id"], name="events_of_a_source"),
            models.Index(fields=["type", "-id"], name="events_of_a_type"),
            models.Index(fields=["subject", "type"], name="events_about_a_subject"),
        ]

    def __str__(self) -> str:
        return f"E-{self.pk} {self.type}"

    @cached_property
    def data(self) -> Any:
        """The payload as Python values; integers of any size stay exact. None: null, or no data.

        Raises PayloadGone when it was removed: nobody is to take that for no data."""
        text = self.data_text
        if self.is_emptied:
            raise PayloadGone(f"The payload of E-{self.pk} was removed by the rule of retention.")
        return json.loads(text) if text else None

    @property
    def data_text(self) -> str:
        """The payload as JSON text; empty when the event carries none."""
        if self.data_json is not None:
            return self.data_json
        return bytes(self.raw).decode("utf-8-sig") if self.raw else ""

    @property
    def is_emptied(self) -> bool:
        """Its payload went by the rule of retention, and nobody put another one in its place."""
        return self.pruned_at is not None and not self.data_text

    @property
    def has_data(self) -> bool:
        return bool(self.data_text)

    def admitted_by(self) -> int | None:
        """Who let it in after it had been refused: he counts as one who asked for what follows."""
        if self.source_id is None:
            return None
        return self.letters.filter(kind="event", status="redriven").values_list("settled_by", flat=True).first()


class Seen(models.Model):
    """A key that was claimed: until the window ends, whoever brings it again is a duplicate."""

    source_id = models.BigIntegerField()
    key = models.CharField(max_length=520)
    event = models.BigIntegerField()  # a number, not a foreign key: pruning the event frees nothing
    until = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [UniqueConstraint(fields=["source_id", "key"], name="a_key_is_claimed_once")]

    def __str__(self) -> str:
        return self.key
