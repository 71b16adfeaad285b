"""One clock for everybody: the database's. A worker's own clock may be an hour off."""

from datetime import UTC, datetime, timedelta

from django.db import connection

SQLITE = "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')"
POSTGRES = "SELECT clock_timestamp()"

shift = timedelta(0)  # tests move time here; nothing else may


def now() -> datetime:
    """The database's time, aware UTC. Ask it after a lock is held, never before."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(POSTGRES)
            value: datetime = cursor.fetchone()[0]
            return value.astimezone(UTC) + shift
        cursor.execute(SQLITE)
        return datetime.fromisoformat(cursor.fetchone()[0]).replace(tzinfo=UTC) + shift
