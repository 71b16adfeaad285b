"""Large results of steps, kept once under the digest of their text."""

from django.db import models


class Blob(models.Model):
    """One JSON text. Steps point to it; a text that several of them gave is stored once."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    text = models.TextField()
    size = models.PositiveIntegerField()  # bytes in UTF-8
    stored_at = models.DateTimeField()  # by the step that gave it last
    kept_until = models.DateTimeField(null=True)  # of what an event came with, such as a mail's attachment

    def __str__(self) -> str:
        return self.sha256[:12]
