"""Small rows that everybody reads: the version of the configuration, the switches, the pulses."""

from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q, UniqueConstraint

from project.lib import clock


class ConfigVersion(models.Model):
    """One row; its number goes up in the transaction of every change of source, trigger, secret or switch."""

    version = models.BigIntegerField(default=1)

    def __str__(self) -> str:
        return str(self.version)

    @classmethod
    def bump(cls) -> None:
        if not cls.objects.filter(pk=1).update(version=F("version") + 1):
            cls.objects.create(pk=1, version=2)

    @classmethod
    def current(cls) -> int:
        return cls.objects.filter(pk=1).values_list("version", flat=True).first() or 1


class SwitchQuerySet(models.QuerySet["Switch"]):
    def off(self) -> "SwitchQuerySet":
        """The switches that hold something back now."""
        return self.filter(paused=True)

    def holding(self, **names: Any) -> "SwitchQuerySet":
        """Those that hold back everything, or a handler, kind or source by name: `holding(handler="notify")`.

        A name may be an OuterRef."""
        named = Q(scope="all")
        for scope, name in names.items():
            named |= Q(scope=scope, name=name)
        return self.off().filter(named)


class Switch(models.Model):
    """Paused or open, for everything or for one handler, kind or source."""

    SCOPES = ("all", "handler", "kind", "source")

    scope = models.CharField(max_length=16)
    name = models.CharField(max_length=200, blank=True, default="")
    paused = models.BooleanField(default=False)
    reason = models.TextField(blank=True, default="")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    at = models.DateTimeField()

    objects = SwitchQuerySet.as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["scope", "name"], name="one_switch_for_a_thing")]

    def __str__(self) -> str:
        return f"{self.scope} {self.name}".strip()


class Pulse(models.Model):
    """When a part of the desk last showed that it lives: `tick`, `web`, a listener."""

    name = models.CharField(max_length=100, primary_key=True)
    at = models.DateTimeField()
    detail = models.JSONField(default=dict)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def beat(cls, name: str, at: datetime, **detail: Any) -> None:
        cls.objects.update_or_create(name=name, defaults={"at": at, "detail": detail})

    @classmethod
    def age(cls, name: str) -> float | None:
        """Seconds since the last beat; None when there was none."""
        at = cls.objects.filter(name=name).values_list("at", flat=True).first()
        return (clock.now() - at).total_seconds() if at else None
