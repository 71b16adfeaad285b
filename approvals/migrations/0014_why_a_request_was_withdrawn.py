from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0013_whence_a_decision_came_and_mornings")]

    operations = [
        migrations.AddField("action", "cancel_reason", models.TextField(blank=True, db_default="", default="")),
    ]
