"""The test's own database: a copy of the prepared one, emptied where a test has no transaction to take back."""

import os
from functools import cache
from pathlib import Path

import psycopg
from django.conf import settings
from django.core.management.color import no_style
from django.db import connection, transaction

from tests import prepared

OWN = f"test_{os.getpid()}"  # on a PostgreSQL
KEEP = ("django_migrations", "django_content_type", "auth_permission")


def copy() -> None:
    """From now on Django's database is one of this process's own, empty and migrated."""
    if connection.vendor == "sqlite":
        prepared.sqlite(Path(settings.DATABASES["default"]["NAME"]))
        return
    settings.DATABASES["default"]["NAME"] = connection.settings_dict["NAME"] = OWN
    prepared.postgres(os.environ["DATABASE_URL"], OWN)


def drop() -> None:
    """The end of it, also for a thread of some test that still holds a connection."""
    connection.close()
    if connection.vendor == "postgresql":
        with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as other:
            other.execute(f"DROP DATABASE {OWN} WITH (FORCE)")  # type: ignore[call-overload]


@cache
def tables() -> list[str]:
    return [name for name in connection.introspection.django_table_names(only_existing=True) if name not in KEEP]


def empty_the_database() -> None:
    """No row is left and numbers begin at one; what migrations and Django itself wrote stays."""
    # All tables at once: SQLite need not ask for each row whether another one refers to it.
    with connection.constraint_checks_disabled():
        connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), tables(), reset_sequences=True))


def remove_rows() -> None:
    """No row is left. A test fills a few of the tables: to truncate all of them takes longer than most tests do."""
    looks = [f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM {name})" for name in tables()]
    with transaction.atomic(), connection.cursor() as cursor:  # foreign keys are looked at when it ends
        cursor.execute(" UNION ALL ".join(looks))
        for (name,) in cursor.fetchall():
            cursor.execute(f"DELETE FROM {name}")
