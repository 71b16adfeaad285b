"""An app that shows codes, and the recovery codes for the day it is lost."""

import base64
import secrets
from urllib.parse import quote, urlencode

from django.db import models
from django_otp.oath import TOTP

from project.lib import clock, crypto
from project.people.models.hashing import hashed
from project.people.models.user import User

CLOCKS_DIFFER = 1  # steps of thirty seconds that a phone may be ahead or behind
RECOVERY_CODES = 10  # of 80 random bits each


class Authenticator(models.Model):
    """An app on a person's phone that shows another code every thirty seconds (RFC 6238); each is taken once."""

    user = models.OneToOneField(User, models.CASCADE, related_name="authenticator")
    sealed_key = models.TextField()
    confirmed_at = models.DateTimeField(null=True)  # None: its picture was shown, but no code of it came yet
    used_step = models.BigIntegerField(default=0)  # of the newest code that was taken; older ones are too

    def __str__(self) -> str:
        return f"authenticator of {self.user}"

    @classmethod
    def of(cls, user: User) -> "Authenticator | None":
        """The app whose codes prove who this is; None as long as no code of it was given."""
        return cls.objects.filter(user=user).exclude(confirmed_at=None).first()

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
