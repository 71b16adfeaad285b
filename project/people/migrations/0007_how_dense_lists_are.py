from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("people", "0006_the_language_of_a_person")]

    operations = [
        migrations.AddField(
            model_name="user",
            name="density",
            field=models.CharField(blank=True, db_default="", default="", max_length=8),
        ),
    ]
