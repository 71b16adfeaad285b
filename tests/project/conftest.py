"""A database of SQLite beside that of the tests, as a desk opens its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connections
from pytest_django import DjangoDbBlocker

from project.lib.sqlite.base import DatabaseWrapper


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "desk.sqlite3")


@pytest.fixture
def database(path: str, django_db_blocker: DjangoDbBlocker) -> Iterator[DatabaseWrapper]:
    """A connection of its own, which `transaction.atomic("other")` finds."""
    options = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"}
    given = {"NAME": path, "OPTIONS": options, "ENGINE": "project.lib.sqlite", "TEST": {}}
    made = DatabaseWrapper(connections["default"].settings_dict | given, "other")
    connections["other"] = made
    with django_db_blocker.unblock():
        made.cursor().execute("CREATE TABLE word (text)")
        yield made
        made.close()
    del connections["other"]
