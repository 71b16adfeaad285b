from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('people', '0005_keys_and_sound'),
    ]

    operations = [
        migrations.AddField(
            model_name='user',
            name='language',
            field=models.CharField(blank=True, db_default='', default='', max_length=16),
        ),
    ]
