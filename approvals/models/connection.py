"""The way out: credentials for one far side."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import F

from project.lib import clock, crypto
from triggers.models import Audit, ConfigVersion

if TYPE_CHECKING:
    from project.people.models import User


class ConnectionQuerySet(models.QuerySet["Connection"]):
    def kept(self) -> "ConnectionQuerySet":
        return self.filter(archived_at=None)


class Connection(models.Model):
    """One account at one system; a practice connection delivers to the page `/practice` instead."""

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=200, blank=True, default="")
    system = models.CharField(max_length=32)  # github, http, notify
    config = models.JSONField(default=dict, blank=True)
    sealed_secrets = models.TextField(blank=True, default="")  # of {name: value}
    practice = models.BooleanField(default=False)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True, blank=True)

    objects = ConnectionQuerySet.as_manager()

    def __str__(self) -> str:
        return self.slug

    @property
    def secrets(self) -> dict[str, str]:
        """The secrets in clear; only a delivery reads them."""
        return crypto.unseal(self.sealed_secrets) or {}

    @property
    def secret_names(self) -> list[str]:
        """What people may see of the secrets."""
        return sorted(self.secrets)

    def change(self, *, by: "User | None", verb: str = "change", **fields: Any) -> None:
        """Write `fields`, a new version and the audit row in the caller's transaction."""
        secrets = fields.pop("secrets", None)
        if secrets is not None:
            fields["sealed_secrets"] = crypto.seal(secrets)
        Connection.objects.filter(pk=self.pk).update(**fields, version=F("version") + 1)
        ConfigVersion.bump()
        self.refresh_from_db()
        told = sorted(set(fields) - {"sealed_secrets"}) + (["secrets"] if secrets is not None else [])
        Audit.write(verb, self, by=by, fields=told)

    def archive(self, *, by: "User | None") -> None:
        self.change(by=by, verb="archive", archived_at=clock.now())
