"""The minute and the hour of a time, told by the database itself: SQLite's and PostgreSQL's texts of a time begin alike
(UTC)."""

from django.db.models import CharField
from django.db.models.functions import Cast, Substr


def minute(field: str) -> Substr:
    """`2026-11-29 15:58`."""
    return Substr(Cast(field, CharField()), 1, 16)


def hour(field: str) -> Substr:
    """`2026-11-29 15`."""
    return Substr(Cast(field, CharField()), 1, 13)
