"""A person who signs in."""

from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models


class User(AbstractUser):
    """A person who signs in."""

    time_zone = models.CharField(max_length=64, blank=True, default="")
    language = models.CharField(max_length=16, blank=True, default="", db_default="")  # empty: as the browser asks
    theme = models.CharField(max_length=8, blank=True, default="")
    density = models.CharField(max_length=8, blank=True, default="", db_default="")  # compact: more rows on a screen
    keys = models.BooleanField(default=True, db_default=True)  # single keys do something
    sound = models.BooleanField(default=False, db_default=False)  # a tone when another approval waits
    must_change_password = models.BooleanField(default=False)

    def __str__(self) -> str:
        return self.get_full_name() or self.username

    def change(self, **fields: Any) -> None:
        """Write these fields and no others: what another page wrote meanwhile stays."""
        User.objects.filter(pk=self.pk).update(**fields)

    @property
    def zone(self) -> ZoneInfo:
        """Where this person reads clocks; the desk's own zone when none is set, or one that is gone."""
        try:
            return ZoneInfo(self.time_zone or settings.TIME_ZONE)
        except (ZoneInfoNotFoundError, ValueError):
            return ZoneInfo(settings.TIME_ZONE)
