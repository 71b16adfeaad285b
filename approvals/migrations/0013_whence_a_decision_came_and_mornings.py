from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0012_noes_and_how_long_one_looked")]

    operations = [
        migrations.SeparateDatabaseAndState(  # the table keeps its first name: the code of before runs beside this one
            state_operations=[
                migrations.RenameModel("Digest", "Morning"),
                migrations.AlterModelTable("morning", "approvals_digest"),
            ]
        ),
        migrations.AddField("proposal", "number", models.PositiveIntegerField(null=True)),
        migrations.AddField("hours", "mornings", models.BooleanField(db_default=True, default=True)),
        migrations.AddField(
            "decision", "remote", models.CharField(blank=True, db_default="", default="", max_length=45)
        ),
        migrations.AddField(
            "decision", "browser", models.CharField(blank=True, db_default="", default="", max_length=200)
        ),
    ]
