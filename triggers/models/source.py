"""Who may ring: sources, what was refused at their door, and the slots a schedule has fired."""

from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import CheckConstraint, F, Q, UniqueConstraint

from project.lib import clock, crypto
from project.lib.live import changed
from triggers.models.audit import Audit
from triggers.models.config import ConfigVersion

if TYPE_CHECKING:
    from project.people.models import User


class SourceQuerySet(models.QuerySet["Source"]):
    def kept(self) -> "SourceQuerySet":
        """All but the archived ones."""
        return self.filter(archived_at=None)

    def open(self) -> "SourceQuerySet":
        return self.kept().filter(enabled=True)

    def due_schedules(self, now: datetime) -> "SourceQuerySet":
        return self.open().filter(kind="schedule", next_fire_at__lte=now)


class Source(models.Model):
    """One sender: its address, how it proves itself, and what it may send."""

    CHATS = ("slack", "feishu", "dingtalk", "wecom")  # each its own provider
    DOORS = ("webhook", "cloudevents", *CHATS)  # others ring at their address
    LISTENED = ("file", "email", "redis_stream", "kafka", "database")  # the process `listen` asks, nobody rings
    KINDS = (*DOORS, "schedule", *LISTENED)

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=32)
    provider = models.CharField(max_length=64, blank=True, default="")
    enabled = models.BooleanField(default=True)
    config = models.JSONField(default=dict, blank=True)
    sealed_secrets = models.TextField(blank=True, default="")  # of [{value, ends_at?}]
    secret_usage = models.JSONField(default=dict, blank=True)  # mark -> {at, count}: fitted last, how many deliveries
    types = models.JSONField(default=list, blank=True)  # patterns it may send
    idempotency_key = models.TextField(blank=True, default="")  # CEL; empty: the provider's delivery id
    rate_limit = models.JSONField(null=True, blank=True)  # {limit, period} or none
    on_overload = models.CharField(max_length=8, default="refuse")
    dedupe_window = models.PositiveIntegerField(default=7 * 86400)  # seconds
    max_body = models.PositiveIntegerField(null=True, blank=True)  # bytes; None: MAX_BODY_BYTES
    expect_every = models.PositiveIntegerField(null=True, blank=True)  # seconds
    actor = models.CharField(max_length=200, blank=True, default="")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True, blank=True)
    connected_at = models.DateTimeField(null=True, blank=True)  # first handshake
    next_fire_at = models.DateTimeField(null=True, blank=True, db_index=True)
    fires = models.PositiveIntegerField(default=0)
    paced_at = models.DateTimeField(null=True, blank=True)  # up to when its rate is used up by what was kept
    misses = models.PositiveIntegerField(default=0)  # slots that passed while nobody was there

    objects = SourceQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(condition=Q(on_overload__in=["refuse", "accept"]), name="overload_is_refused_or_accepted")
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def secrets(self) -> list[dict[str, Any]]:
        """The secrets in clear, newest first; only the verifier, `password` and `ring` read them."""
        return crypto.unseal(self.sealed_secrets) or []

    @property
    def password(self) -> str:
        """With which the desk signs in where it listens; empty when nobody gave one."""
        return next((str(item["value"]) for item in self.secrets), "")

    @cached_property
    def _clear_secrets(self) -> list[dict[str, Any]]:
        return self.secrets

    def valid_secrets(self, now: float) -> list[dict[str, Any]]:
        """The secrets that count at Unix time `now`; unsealed once for each row object, since the door asks often."""
        return [item for item in self._clear_secrets if not item.get("ends_at") or ends(item["ends_at"]) > now]

    def greet(self) -> None:
        """Remember the first handshake: the far side reached us and proved itself."""
        Source.objects.filter(pk=self.pk, connected_at=None).update(connected_at=clock.now())
        changed("sources", id=self.slug)

    @property
    def is_listened(self) -> bool:
        """The desk goes there and listens, with an address and perhaps a password; files it watches."""
        return self.kind in self.LISTENED and self.kind != "file"

    @property
    def needs_secret(self) -> bool:
        """It lets nobody in, or is let in nowhere, before it has one."""
        if self.kind == "email":
            return not self.sealed_secrets
        return self.kind in self.DOORS and self.provider != "none" and not self.sealed_secrets

    @property
    def secret_hints(self) -> list[dict[str, Any]]:
        """What people may see of the secrets: `[{hint, ends_at, used, count}]`, or that they cannot be read."""
        try:
            secrets = [(str(item["value"]), item.get("ends_at")) for item in self.secrets]
        except crypto.Unreadable:
            return [{"hint": "unreadable", "ends_at": None, "used": None, "count": 0}]
        hints = [hint_of(value) for value, _ in secrets]
        used = [
            self.used(crypto.mark_of(value), hint if hints.count(hint) == 1 else "")
            for (value, _), hint in zip(secrets, hints, strict=True)
        ]
        return [
            {"hint": hint, "ends_at": end, "used": one["at"], "count": one["count"]}
            for hint, (_, end), one in zip(hints, secrets, used, strict=True)
        ]

    def used(self, mark: str, hint: str = "") -> dict[str, Any]:
        """When the secret of this mark last fitted, and how many deliveries it proved.

        They were counted by `hint` once, and a text was written before they were counted at all."""
        told: dict[str, Any] | str | None = self.secret_usage.get(mark, self.secret_usage.get(hint))
        return told if isinstance(told, dict) else {"at": told, "count": 0}

    def change(self, *, by: "User | None", verb: str = "change", reason: str = "", **fields: Any) -> None:
        """Write `fields`, a new version and the audit row in the caller's transaction."""
        secrets = fields.pop("secrets", None)
        if secrets is not None:
            fields["sealed_secrets"] = crypto.seal(secrets)
        if self.kind == "schedule" and fields.keys() & {"config", "enabled"}:
            fields.setdefault("next_fire_at", None)  # tick plans it anew: what passed while it was off is not caught up
        Source.objects.filter(pk=self.pk).update(**fields, version=F("version") + 1)
        ConfigVersion.bump()
        unsaid = {"sealed_secrets", "next_fire_at", "fires", "misses"}
        told = sorted(set(fields) - unsaid) + (["secrets"] if secrets is not None else [])
        self.refresh_from_db()
        Audit.write(verb, self, by=by, fields=told, reason=reason)

    def enable(self, *, by: "User | None", **fields: Any) -> None:
        self.change(by=by, verb="enable", enabled=True, **fields)

    def disable(self, *, by: "User | None", reason: str = "", **fields: Any) -> None:
        self.change(by=by, verb="disable", reason=reason, enabled=False, **fields)

    def archive(self, *, by: "User | None", **fields: Any) -> None:
        self.change(by=by, verb="archive", enabled=False, archived_at=clock.now(), **fields)


def hint_of(secret: str) -> str:
    """What people may see of a secret: its last four characters, or nothing of a short one."""
    return f"…{secret[-4:]}" if len(secret) > 8 else "…"


def ends(moment: str) -> float:
    """Unix time of an RFC 3339 text."""
    return datetime.fromisoformat(moment).timestamp()


class RefusalQuerySet(models.QuerySet["Refusal"]):
    def repeats(self) -> "RefusalQuerySet":
        """Of what was known already."""
        return self.filter(reason__in=Refusal.REPEATS)

    def turned_away(self) -> "RefusalQuerySet":
        """What is no repeat: the door would not have it."""
        return self.exclude(reason__in=Refusal.REPEATS)

    def standing(self) -> "RefusalQuerySet":
        """What was turned away and nobody has admitted since."""
        return self.turned_away().filter(admitted_at=None)


class Refusal(models.Model):
    """A delivery that became no event of its own, and why."""

    REPEATS = ("duplicate", "same_body")  # reasons of one that was known already

    source = models.ForeignKey(Source, models.CASCADE, null=True, related_name="refusals")
    slug = models.CharField(max_length=200, blank=True, default="")  # as it was asked for
    at = models.DateTimeField()
    reason = models.CharField(max_length=32)
    answered = models.PositiveSmallIntegerField()
    detail = models.TextField(blank=True, default="")
    headers = models.JSONField(default=dict)
    credentials = models.TextField(blank=True, default="")  # sealed; kept for a re-check
    body = models.BinaryField(null=True)
    digest = models.CharField(max_length=64, blank=True, default="")
    size = models.PositiveBigIntegerField(default=0)
    remote = models.CharField(max_length=64, blank=True, default="")
    event = models.BigIntegerField(null=True, db_index=True)  # of the first delivery, or of the admitted one
    admitted_at = models.DateTimeField(null=True, blank=True)

    objects = RefusalQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["source", "-id"], name="refusals_of_a_source"),
            models.Index(fields=["at"], name="refusals_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.slug}: {self.reason}"


class ScheduleFire(models.Model):
    """A slot that was taken; the constraint is what keeps two beats from firing it twice."""

    source = models.ForeignKey(Source, models.CASCADE, related_name="slots")
    fire_at = models.DateTimeField()  # the slot, not the moment
    fired_at = models.DateTimeField()
    outcome = models.CharField(max_length=16, default="fired")  # fired, missed
    event = models.BigIntegerField(null=True)

    class Meta:
        constraints = [UniqueConstraint(fields=["source", "fire_at"], name="a_slot_fires_once")]

    def __str__(self) -> str:
        return f"{self.source_id} {self.fire_at}"
