"""One clock for everybody: the database's. A worker's own clock may be an hour off."""

import time
from datetime import UTC, datetime, timedelta

from django.db import connection
from django.http import HttpRequest

SQLITE = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
POSTGRES = "clock_timestamp()"

shift = timedelta(0)  # tests move time here; nothing else may


def now() -> datetime:
    """The database's time, aware UTC. Ask it after a lock is held, never before."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {question()}")
        return read(cursor.fetchone()[0])


def of(request: HttpRequest) -> datetime:
    """The time of one request, as `now()` told it when first asked: a page asks once, and all of it says the same."""
    told: datetime = vars(request).get("now") or now()
    vars(request)["now"] = told
    return told


def question() -> str:
    """The expression by which this database tells its time."""
    return POSTGRES if connection.vendor == "postgresql" else SQLITE


def read(told: str | datetime) -> datetime:
    """Its answer, as `now()` returns it."""
    at = told.astimezone(UTC) if isinstance(told, datetime) else datetime.fromisoformat(told).replace(tzinfo=UTC)
    return at + shift


class Reading:
    """The database's time as it was read once, and what has passed since then: for what is only told, and for a claim
    that its fence guards."""

    def __init__(self, at: datetime) -> None:
        self.at = at - shift
        self.read = time.monotonic()

    def now(self) -> datetime:
        return self.at + timedelta(seconds=time.monotonic() - self.read) + shift
