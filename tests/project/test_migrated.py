"""Whether the database is as new as the code is asked at every start and every probe: cheaply, and never wrongly."""

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from project import health

pytestmark = pytest.mark.django_db


def test_what_the_code_needs_is_what_django_finds():
    assert health.migrations_of_the_code() == MigrationLoader(None).disk_migrations.keys()


def test_one_that_is_not_recorded_is_named_with_all_that_stands_on_it():
    assert health.unapplied_migrations() == []
    last = max(name for app, name in health.migrations_of_the_code() if app == "approvals")
    MigrationRecorder(connection).record_unapplied("approvals", last)
    assert health.unapplied_migrations() == [f"approvals.{last}"]
    assert health.database() == "1 migrations are not applied"
    with pytest.raises(SystemExit, match=f"lacks 1 migrations .first: approvals.{last}.; run: manage.py migrate"):
        health.require_migrated()


def test_a_record_of_a_newer_code_is_no_reason_to_refuse():
    MigrationRecorder(connection).record_applied("approvals", "9999_from_tomorrow")
    assert health.unapplied_migrations() == []


def test_an_empty_database_lacks_all_of_them(monkeypatch):
    monkeypatch.setattr(MigrationRecorder, "has_table", lambda _: False)
    assert len(health.unapplied_migrations()) == len(health.migrations_of_the_code())
