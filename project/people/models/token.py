"""A bearer token: of a person, or of a service account."""

import secrets

from django.db import models, transaction
from django.db.models import CheckConstraint, Q

from project.lib import clock
from project.people.models.hashing import hashed
from project.people.models.user import User
from project.people.revoking import at_revocation

PREFIX = "nd_"
SCOPES = ("read", "ingest", "propose", "operate", "decide", "configure")
PEOPLE_ONLY = ("decide", "configure")  # a machine never nods and never changes the rules


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

    @property
    def answered_for_by(self) -> int | None:
        """The id of the person behind it: whose it is; of a service's, who made it."""
        return self.user_id or self.made_by_id

    @property
    def is_live(self) -> bool:
        """Does it open anything? Not once it is revoked, or its person has left."""
        return self.revoked_at is None and (self.user is None or self.user.is_active)

    def revoke(self, *, by: User | None = None) -> bool:
        """Out of use at once and for good, with what it asked for and has not begun; False when it was so already."""
        with transaction.atomic():
            is_first = bool(ApiToken.objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=clock.now()))
            for follow in at_revocation if is_first else ():
                follow(self, by)
        return is_first
