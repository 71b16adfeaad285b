"""Who is told each morning what was done without a nod, and up to when that was told."""

from django.conf import settings
from django.db import models


class Morning(models.Model):
    """Up to when a person was told what was done without a nod."""

    person = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    until = models.DateTimeField()
    next_at = models.DateTimeField(db_index=True)  # of the next message

    class Meta:
        db_table = "approvals_digest"  # its first name

    def __str__(self) -> str:
        return f"morning of {self.person}"
