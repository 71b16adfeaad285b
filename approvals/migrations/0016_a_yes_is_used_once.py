from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0015_who_decides_what_is_high")]

    operations = [
        migrations.AddField("action", "used_at", models.DateTimeField(null=True)),
        migrations.AddField("action", "used_under", models.CharField(blank=True, db_default="", default="", max_length=64)),
    ]
