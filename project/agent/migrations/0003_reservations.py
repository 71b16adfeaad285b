import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agent', '0002_spendings_by_time'),
        ('triggers', '0016_agents_and_their_history'),
    ]

    operations = [
        migrations.CreateModel(
            name='Reservation',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='reservation', serialize=False, to='triggers.run')),
                ('trigger', models.BigIntegerField()),
                ('tokens', models.PositiveIntegerField()),
                ('micros', models.PositiveBigIntegerField()),
                ('until', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['trigger', 'until'], name='held_of_a_day')],
            },
        ),
    ]
