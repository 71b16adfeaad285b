"""A fresh sign-in: good for five minutes and one decision."""

from datetime import timedelta

from django.db import models

from project.lib import clock
from project.people.models.hashing import hashed
from project.people.models.user import User

FRESH_FOR = timedelta(minutes=5)  # a proof is good for


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
