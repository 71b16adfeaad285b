"""An index for a table that may be big: PostgreSQL makes it beside its writers, who would wait for it otherwise."""

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import AddIndex
from django.db.migrations.state import ProjectState


class AddIndexBeside(AddIndex):
    """Of a migration that is not atomic. One that was broken off leaves a useless index, which is made anew.

    SQLite has one writer and takes a second or two for a million rows."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        if schema_editor.connection.vendor != "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            schema_editor.remove_index(model, self.index, concurrently=True)  # type: ignore[call-arg]  # PostgreSQL's own
            schema_editor.add_index(model, self.index, concurrently=True)  # type: ignore[call-arg]
