"""The test's own database, emptied at once where a test has no transaction to take back."""

from django.core.management.color import no_style
from django.db import connection

KEEP = ("django_migrations", "django_content_type", "auth_permission")


def empty_the_database() -> None:
    """No row is left and numbers begin at one; what migrations and Django itself wrote stays."""
    tables = [name for name in connection.introspection.django_table_names(only_existing=True) if name not in KEEP]
    connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), tables, reset_sequences=True))
