"""One clock for everybody: the database's. A worker's own clock may be an hour off."""

from datetime import UTC, datetime, timedelta

from django.db import connection

SQLITE = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
POSTGRES = "clock_timestamp()"

shift = timedelta(0)  # tests move time here; nothing else may


def now() -> datetime:
    """The database's time, aware UTC. Ask it after a lock is held, never before."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {question()}")
        return read(cursor.fetchone()[0])


def question() -> str:
    """The expression by which this database tells its time."""
    return POSTGRES if connection.vendor == "postgresql" else SQLITE


def read(told: str | datetime) -> datetime:
    """Its answer, as `now()` returns it."""
    at = told.astimezone(UTC) if isinstance(told, datetime) else datetime.fromisoformat(told).replace(tzinfo=UTC)
    return at + shift
