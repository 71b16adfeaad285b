"""How the listening to a source goes, how far it has read, and of a file source each file as it was last told of."""

from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models import Q, UniqueConstraint

from project.lib import clock
from triggers.models.source import Source


class Watch(models.Model):
    """How one source that is listened to is doing; written by whoever listens to it.

    `held`: it is heard, and nothing more is read until a trigger's queue has room."""

    WATCHING, MISSING, FAILED, HELD = "watching", "missing", "failed", "held"

    source = models.OneToOneField(Source, models.CASCADE, primary_key=True, related_name="watch")
    scope = models.TextField(blank=True, default="")  # what the known files were looked for under; empty: never
    mounts = models.JSONField(null=True)  # of files: `root`, and the `places` where something is mounted around them
    status = models.CharField(max_length=16, default=WATCHING)
    mode = models.CharField(max_length=16, blank=True, default="")  # native, polling
    detail = models.TextField(blank=True, default="")  # what is wrong, and what helps
    files = models.PositiveIntegerField(default=0)
    recovered = models.PositiveIntegerField(default=0)  # changes nobody hinted at, found by looking
    since = models.DateTimeField(null=True)  # in this status
    looked_at = models.DateTimeField(null=True)
    facts = models.JSONField(null=True)  # figures of a kind, such as its lag, by the word people read

    def __str__(self) -> str:
        return f"{self.source}: {self.status}"

    @property
    def is_kept(self) -> bool:
        """Whether somebody listens to it now."""
        return self.looked_at is not None and clock.now() - self.looked_at < SILENT


class Position(models.Model):
    """How far one place of a source (a mailbox folder, a stream, a table) was read; written after what was read.

    It is a position of `where` it was read only: the same place at another address begins anew."""

    source = models.ForeignKey(Source, models.CASCADE, related_name="positions")
    place = models.CharField(max_length=255)
    value = models.JSONField(default=dict)  # what its listener keeps, and `where`

    class Meta:
        constraints = [UniqueConstraint(fields=["source", "place"], name="a_place_is_read_from_one_position")]

    def __str__(self) -> str:
        return f"{self.source_id} {self.place}"

    @classmethod
    def of(cls, source: Source, place: str, where: str) -> dict[str, Any]:
        """What was kept of it there; nothing of another address. What was kept without one is of this."""
        told = cls.objects.filter(source=source, place=place).values_list("value", flat=True).first() or {}
        return {} if told.pop("where", where) != where else told

    @classmethod
    def begin(cls, source: Source, place: str, where: str, **value: Any) -> bool:
        """Begin to read it there; False for whoever knows the source only as it was before a change."""
        if not Source.objects.filter(pk=source.pk, version=source.version).exists():
            return False
        cls.objects.update_or_create(source=source, place=place, defaults={"value": {**value, "where": where}})
        return True

    @classmethod
    def move(cls, source: Source, place: str, where: str, **value: Any) -> bool:
        """Go on there; False when somebody began to read this place at another address."""
        rows = cls.objects.filter(source=source, place=place)
        here = rows.filter(Q(value__where=where) | Q(value__where__isnull=True))
        if here.update(value={**value, "where": where}):
            return True
        return not rows.exists() and cls.begin(source, place, where, **value)


SILENT = timedelta(seconds=45)  # without a sign of its listener, after which nobody is there


class WatchedFileQuerySet(models.QuerySet["WatchedFile"]):
    def untold(self) -> "WatchedFileQuerySet":
        """Changes that were written down and, as far as anybody knows, not told."""
        return self.exclude(untold="")


class WatchedFile(models.Model):
    """One file as it was last seen; `generation` counts what happened to it, and is part of each event's key.

    A change is written here first and told after: `untold` names it until then. One that went stays, without looks,
    until its events' keys are free again."""

    source = models.ForeignKey(Source, models.CASCADE, related_name="files")
    key = models.CharField(max_length=64)  # SHA-256 of the name: a path may be longer than an index takes
    name = models.BinaryField()  # below the root, as the file system has it
    generation = models.PositiveIntegerField(default=1)
    size = models.BigIntegerField(default=0)
    mtime_ns = models.BigIntegerField(default=0)
    ctime_ns = models.BigIntegerField(default=0)
    inode = models.CharField(max_length=64, blank=True, default="")
    sha256 = models.CharField(max_length=64, blank=True, default="")
    gone_at = models.DateTimeField(null=True)
    untold = models.CharField(max_length=16, blank=True, default="")
    came_from = models.BinaryField(default=b"", blank=True)  # the name before, of an untold move

    objects = WatchedFileQuerySet.as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["source", "key"], name="a_file_is_known_once")]

    def __str__(self) -> str:
        return bytes(self.name).decode("utf-8", "backslashreplace")
