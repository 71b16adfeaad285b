"""The way out: credentials for one far side."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import F

from approvals.errors import NoConnection
from approvals.kinds import Far
from project.lib import clock, crypto
from triggers.models import Audit, ConfigVersion

if TYPE_CHECKING:
    from project.people.models import User


BUILT_IN = "default"  # the slug of the connection that NOTIFY_URLS makes
BUILT_IN_MAIL = "desk-mail"  # and of the one that EMAIL_URL makes


def no_connection(system: str) -> str:
    return f"no connection to {system} exists; add one under Settings before a handler acts on it"


class ConnectionQuerySet(models.QuerySet["Connection"]):
    def kept(self) -> "ConnectionQuerySet":
        return self.filter(archived_at=None)

    def named(self, system: str, slug: str = "") -> "Connection":
        """The connection with this slug, or the only one of its system (or the one called `default`).

        Raises NoConnection: before a person is asked, not after."""
        if system == "notify" and settings.NOTIFY_URLS:
            self.built_in()
        rows = self.kept().filter(system=system)
        if slug:
            found = rows.filter(slug=slug).first()
            if found is None:
                raise NoConnection(f"there is no connection {slug!r} to {system}")
            return found
        several = list(rows.order_by("pk")[:20])
        default = next((row for row in several if row.slug == BUILT_IN), None)
        if len(several) != 1 and default is None:
            names = ", ".join(row.slug for row in several)
            raise NoConnection(f"say which connection to {system}: {names}" if several else no_connection(system))
        return default or several[0]

    def built_in(self) -> None:
        """The row that stands for NOTIFY_URLS; the addresses stay in the environment."""
        given = {"system": "notify", "name": "NOTIFY_URLS", "config": {"from": "NOTIFY_URLS"}}
        row, _ = self.get_or_create(slug=BUILT_IN, defaults=given)
        if row.practice and row.config == given["config"]:  # made before there was an address
            self.filter(pk=row.pk, practice=True).update(practice=False, version=F("version") + 1)

    def built_in_mail(self) -> None:
        """The row that stands for EMAIL_URL, when there is one; server and password stay in the environment."""
        if settings.EMAIL_URL and settings.EMAIL_FROM:
            given = {"system": "smtp", "name": "EMAIL_URL", "config": {"from": "EMAIL_URL"}}
            self.get_or_create(slug=BUILT_IN_MAIL, defaults=given)


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
    busy_until = models.DateTimeField(null=True, blank=True)  # its far side asked for a pause; all actions keep it

    objects = ConnectionQuerySet.as_manager()

    def __str__(self) -> str:
        return self.slug

    @property
    def secrets(self) -> dict[str, str]:
        """The secrets in clear; only a delivery reads them."""
        return crypto.unseal(self.sealed_secrets) or {}

    def far(self, timeout: timedelta) -> Far:
        """What a connector is given. Raises crypto.Unreadable."""
        return Far(slug=self.slug, config=self.config, secrets=self.secrets, timeout=timeout)

    @property
    def secret_names(self) -> list[str]:
        """What people may see of the secrets: their names, or that they cannot be read."""
        try:
            return sorted(self.secrets)
        except crypto.Unreadable:
            return ["unreadable"]

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
