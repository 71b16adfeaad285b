"""Who may do what: people, their tokens, and the service accounts that act for machines."""

import hashlib
import secrets
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import CheckConstraint, Q

from project.lib import clock

PREFIX = "nd_"
SCOPES = ("read", "ingest", "propose", "operate", "decide", "configure")
FRESH_FOR = timedelta(minutes=5)  # a proof is good for
PEOPLE_ONLY = ("decide", "configure")  # a machine never nods and never changes the rules


def hashed(token: str) -> str:
    """What is stored of a token: its SHA-256 in hex. The token itself is 256 random bits, so no salt is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


class User(AbstractUser):
    """A person who signs in."""

    time_zone = models.CharField(max_length=64, blank=True, default="")
    theme = models.CharField(max_length=8, blank=True, default="")
    must_change_password = models.BooleanField(default=False)

    def __str__(self) -> str:
        return self.get_full_name() or self.username

    def change(self, **fields: Any) -> None:
        """Write these fields and no others: what another page wrote meanwhile stays."""
        User.objects.filter(pk=self.pk).update(**fields)


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def live(self) -> "ApiTokenQuerySet":
        """Not revoked, and nobody's who left."""
        return self.filter(Q(user=None) | Q(user__is_active=True), revoked_at=None)

    def issue(self, *, user: User | None, service: str, name: str, scopes: list[str]) -> tuple["ApiToken", str]:
        """Make a token; returns the row and the secret text, which is never stored or shown again."""
        secret = PREFIX + secrets.token_urlsafe(32)
        row = self.create(user=user, service=service, name=name, scopes=scopes, hash=hashed(secret), hint=secret[-4:])
        return row, secret

    def named(self, secret: str) -> "ApiToken | None":
        """The live token with this secret text."""
        return self.live().select_related("user").filter(hash=hashed(secret)).first()


class ApiToken(models.Model):
    """A bearer token of a person, or of a service account (which has a slug and no person)."""

    user = models.ForeignKey(User, models.CASCADE, null=True, blank=True, related_name="tokens")
    service = models.SlugField(max_length=64, blank=True, default="")
    name = models.CharField(max_length=100)
    scopes = models.JSONField(default=list)
    hash = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=4)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(
                condition=Q(user__isnull=False, service="") | (Q(user__isnull=True) & ~Q(service="")),
                name="a_token_has_one_owner",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} (…{self.hint})"

    def revoke(self) -> bool:
        """Out of use at once and for good; False when somebody had done it."""
        return bool(ApiToken.objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=clock.now()))


class ProofQuerySet(models.QuerySet["Proof"]):
    def fresh(self, user: User, session: str) -> "ProofQuerySet":
        """What this person proved in this browser, less than five minutes ago."""
        return self.filter(user=user, session=hashed(session), at__gt=clock.now() - FRESH_FOR)

    def give(self, user: User, session: str) -> None:
        """Note a proof in place of every older one of this browser, and forget those that are over."""
        now = clock.now()
        self.filter(user=user, at__lte=now - FRESH_FOR).delete()
        self.update_or_create(session=hashed(session), defaults={"user": user, "at": now})


class Proof(models.Model):
    """Somebody has just given the password again. It is a row of its own, so that of two decisions at once only one
    takes it: whoever deletes it has it. A session is written back whole, and could bring it back."""

    user = models.ForeignKey(User, models.CASCADE, related_name="+")
    session = models.CharField(max_length=64, unique=True)  # the hash of its key
    at = models.DateTimeField()

    objects = ProofQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.user} at {self.at:%H:%M:%S}"
