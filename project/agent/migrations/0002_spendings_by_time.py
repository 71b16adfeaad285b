from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agent', '0001_first_tables'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='spending',
            index=models.Index(fields=['at'], name='spendings_by_time'),
        ),
    ]
