"""An index for a big table is made beside its writers, and again where the making of it was broken off."""

import pytest
from django.db import connection, models
from django.db.migrations.loader import MigrationLoader
from django.test.utils import CaptureQueriesContext

from project.lib.indexing import AddIndexBeside

pytestmark = pytest.mark.django_db(transaction=True)
NAME = "events_as_a_test_has_them"


def names() -> list[str]:
    with connection.cursor() as cursor:
        return [name for name in connection.introspection.get_constraints(cursor, "triggers_event") if name == NAME]


def test_it_is_made_beside_the_writers_and_found_there_made_anew() -> None:
    before = MigrationLoader(connection).project_state()
    after = before.clone()
    add = AddIndexBeside("event", models.Index(fields=["severity"], name=NAME))
    add.state_forwards("triggers", after)
    table = after.apps.get_model("triggers", "event")
    try:
        with connection.schema_editor(atomic=False) as editor, CaptureQueriesContext(connection) as asked:
            add.database_forwards("triggers", editor, before, after)
            if connection.vendor == "postgresql":
                add.database_forwards("triggers", editor, before, after)
        texts = [one["sql"] for one in asked if "CREATE INDEX" in one["sql"]]
        assert names() == [NAME]
        assert all(("CONCURRENTLY" in text) == (connection.vendor == "postgresql") for text in texts)
        assert texts
    finally:
        with connection.schema_editor(atomic=False) as editor:
            editor.remove_index(table, add.index)
    assert names() == []
