"""A sealed row of the audit log is not changed any more, whoever asks the database to; unsealed ones are found fast."""

from django.db import migrations, models

WORDS = "a sealed row of the audit log is never changed"
SQLITE = f"""
    CREATE TRIGGER sealed_rows_stay BEFORE UPDATE ON triggers_audit WHEN OLD.number IS NOT NULL
    BEGIN SELECT RAISE(ABORT, '{WORDS}'); END
"""
FUNCTION = f"""
    CREATE FUNCTION sealed_rows_stay() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION '{WORDS}' USING ERRCODE = 'integrity_constraint_violation'; END $$
"""
POSTGRES = """
    CREATE TRIGGER sealed_rows_stay BEFORE UPDATE ON triggers_audit FOR EACH ROW WHEN (OLD.number IS NOT NULL)
    EXECUTE FUNCTION sealed_rows_stay()
"""


def guard(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(FUNCTION)
        schema_editor.execute(POSTGRES)
    else:
        schema_editor.execute(SQLITE)


def unguard(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP TRIGGER sealed_rows_stay ON triggers_audit")
        schema_editor.execute("DROP FUNCTION sealed_rows_stay()")
    else:
        schema_editor.execute("DROP TRIGGER sealed_rows_stay")


class Migration(migrations.Migration):
    dependencies = [("triggers", "0004_untold_changes_of_files")]

    operations = [
        migrations.AddIndex(
            model_name="audit",
            index=models.Index(condition=models.Q(("number", None)), fields=["id"], name="audit_to_seal"),
        ),
        migrations.RunPython(guard, unguard),
    ]
