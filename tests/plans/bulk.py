"""A big table is filled without its indexes, which are made after: sorted once each, not kept in order a million times.

They are made in the order they had: between two that serve alike SQLite takes the one that was made last."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db import connection
from django.db.models import Model

OF_POSTGRES = """
    SELECT indexname, indexdef FROM pg_indexes
    WHERE schemaname = current_schema() AND tablename = ANY(%s)
      AND indexname NOT IN (SELECT conname FROM pg_constraint WHERE conname IS NOT NULL)
    ORDER BY to_regclass(quote_ident(indexname))::oid
"""
OF_SQLITE = """
    SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL
      AND tbl_name IN (SELECT value FROM json_each(%s)) ORDER BY rowid
"""
HASTE_OF_SQLITE = {"foreign_keys": "OFF", "synchronous": "OFF", "cache_size": "-500000"}  # KiB
HASTE_OF_POSTGRES = (  # foreign keys are triggers there, and only a superuser may leave them out
    "SELECT set_config('session_replication_role', 'replica', false) WHERE current_setting('is_superuser') = 'on'",
    "SET maintenance_work_mem = '512MB'",
)


@contextmanager
def filling(models: Sequence[type[Model]]) -> Iterator[None]:
    """The tables of `models` have no index but those of their constraints, and foreign keys are not asked.

    Not in a transaction. At the end all is as before, and nobody has looked whether the rows fit together."""
    with in_haste(), connection.cursor() as cursor:
        indexes = indexes_of([model._meta.db_table for model in models])
        for name in indexes:
            cursor.execute(f'DROP INDEX "{name}"')
        try:
            yield
        finally:
            for made_by in indexes.values():
                cursor.execute(made_by)


def indexes_of(tables: list[str]) -> dict[str, str]:
    """The statement that makes each index of these tables, by its name, the oldest first."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(OF_POSTGRES, [tables])
        else:
            cursor.execute(OF_SQLITE, [json.dumps(tables)])
        return dict(cursor.fetchall())


@contextmanager
def in_haste() -> Iterator[None]:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            for statement in HASTE_OF_POSTGRES:
                cursor.execute(statement)
        else:
            before = {name: value_of(name) for name in HASTE_OF_SQLITE}
            for name, value in HASTE_OF_SQLITE.items():
                cursor.execute(f"PRAGMA {name} = {value}")
        try:
            yield
        finally:
            if connection.vendor == "postgresql":
                cursor.execute("RESET session_replication_role; RESET maintenance_work_mem")
            else:
                for name, value in before.items():
                    cursor.execute(f"PRAGMA {name} = {value}")


def value_of(pragma: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA {pragma}")
        return int(cursor.fetchone()[0])
