"""Who may do what: people, their tokens, and the service accounts that act for machines."""

import base64
import hashlib
import secrets
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import CheckConstraint, Q
from django_otp.oath import TOTP

from project.lib import clock, crypto

PREFIX = "nd_"
SCOPES = ("read", "ingest", "propose", "operate", "decide", "configure")
FRESH_FOR = timedelta(minutes=5)  # a proof is good for
CLOCKS_DIFFER = 1  # steps of thirty seconds that a phone may be ahead or behind
RECOVERY_CODES = 10  # of 80 random bits each
PEOPLE_ONLY = ("decide", "configure")  # a machine never nods and never changes the rules


def hashed(token: str) -> str:
    """What is stored of a token: its SHA-256 in hex. The token itself is 256 random bits, so no salt is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


class User(AbstractUser):
    """A person who signs in."""

    time_zone = models.CharField(max_length=64, blank=True, default="")
    theme = models.CharField(max_length=8, blank=True, default="")
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

    @property
    def enrolled(self) -> "Authenticator | None":
        """The app whose codes prove who this is; None as long as no code of it was given."""
        return Authenticator.objects.filter(user=self).exclude(confirmed_at=None).first()


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def live(self) -> "ApiTokenQuerySet":
        """Not revoked, and nobody's who left."""
        return self.filter(Q(user=None) | Q(user__is_active=True), revoked_at=None)

    def issue(
        self, *, user: User | None, service: str, name: str, scopes: list[str], made_by: User | None = None
    ) -> tuple["ApiToken", str]:
        """Make a token; returns the row and the secret text, which is never stored or shown again."""
        secret = PREFIX + secrets.token_urlsafe(32)
        told = {"user": user, "made_by": made_by or user, "service": service, "name": name, "scopes": scopes}
        row = self.create(**told, hash=hashed(secret), hint=secret[-4:])
        return row, secret

    def named(self, secret: str) -> "ApiToken | None":
        """The live token with this secret text."""
        return self.live().select_related("user").filter(hash=hashed(secret)).first()


class ApiToken(models.Model):
    """A bearer token of a person, or of a service account (which has a slug and no person)."""

    user = models.ForeignKey(User, models.CASCADE, null=True, blank=True, related_name="tokens")
    made_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")  # of a service: who answers for it
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


class Authenticator(models.Model):
    """An app on a person's phone that shows another code every thirty seconds (RFC 6238); each is taken once."""

    user = models.OneToOneField(User, models.CASCADE, related_name="authenticator")
    sealed_key = models.TextField()
    confirmed_at = models.DateTimeField(null=True)  # None: its picture was shown, but no code of it came yet
    used_step = models.BigIntegerField(default=0)  # of the newest code that was taken; older ones are too

    def __str__(self) -> str:
        return f"authenticator of {self.user}"

    @classmethod
    def begin(cls, user: User) -> "Authenticator":
        """A new secret in place of one that was never confirmed; one that counts already stays."""
        key = base64.b32encode(secrets.token_bytes(20)).decode()
        cls.objects.filter(user=user, confirmed_at=None).delete()
        return cls.objects.get_or_create(user=user, defaults={"sealed_key": crypto.seal(key)})[0]

    @property
    def key(self) -> str:
        """Base32, as apps take it. Raises Unreadable."""
        return str(crypto.unseal(self.sealed_key))

    def address(self, desk: str) -> str:
        """What the picture says to the app: `otpauth://totp/…`."""
        label = quote(f"Nightdesk {desk}:{self.user.get_username()}", safe=":")
        return (
            f"otpauth://totp/{label}?{urlencode({'secret': self.key, 'issuer': f'Nightdesk {desk}'}, quote_via=quote)}"
        )

    def take(self, code: str) -> bool:
        """Whether it is a code of now, of which nobody else, also at the same moment, has taken this or a later one.

        Spaces do not matter: apps show it in two halves."""
        code = code.replace(" ", "")
        if not (code.isascii() and code.isdigit() and len(code) == 6):
            return False
        app = TOTP(base64.b32decode(self.key))
        app.time = clock.now().timestamp()
        if not app.verify(int(code), tolerance=CLOCKS_DIFFER, min_t=self.used_step + 1):
            return False
        return bool(Authenticator.objects.filter(pk=self.pk, used_step__lt=app.t()).update(used_step=app.t()))

    def confirm(self, code: str) -> bool:
        """Whether it is a code of now, so that the app counts from here on."""
        return self.take(code) and bool(Authenticator.objects.filter(pk=self.pk).update(confirmed_at=clock.now()))

    def new_recovery_codes(self) -> list[str]:
        """In place of all older ones; they are stored hashed and never shown again."""
        texts = [base64.b32encode(secrets.token_bytes(10)).decode().lower() for _ in range(RECOVERY_CODES)]
        self.recovery_codes.all().delete()
        RecoveryCode.objects.bulk_create(RecoveryCode(authenticator=self, hash=hashed(text)) for text in texts)
        return ["-".join(text[at : at + 4] for at in range(0, 16, 4)) for text in texts]

    def use_recovery_code(self, code: str) -> bool:
        """Whoever deletes it has it; upper case, spaces and dashes do not matter."""
        text = "".join(code.lower().replace("-", " ").split())
        return bool(self.recovery_codes.filter(hash=hashed(text)).delete()[0])


class RecoveryCode(models.Model):
    """For the day on which the phone is lost: good once."""

    authenticator = models.ForeignKey(Authenticator, models.CASCADE, related_name="recovery_codes")
    hash = models.CharField(max_length=64, unique=True)

    def __str__(self) -> str:
        return f"recovery code of {self.authenticator.user}"
