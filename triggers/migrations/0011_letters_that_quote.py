from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('triggers', '0010_refusals_by_time'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='deadletter',
            index=models.Index(condition=models.Q(models.Q(('status', 'open'), _negated=True), models.Q(('message', ''), _negated=True)), fields=['settled_at'], name='letters_that_quote'),
        ),
    ]
