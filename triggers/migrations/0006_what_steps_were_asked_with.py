import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('triggers', '0005_sealed_rows_stay'),
    ]

    operations = [
        migrations.CreateModel(
            name='Blob',
            fields=[
                ('sha256', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('text', models.TextField()),
                ('size', models.PositiveIntegerField()),
                ('stored_at', models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name='run',
            name='accepted_seq',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='run',
            name='memory_mib',
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='step',
            name='blob',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='steps', to='triggers.blob'),
        ),
        migrations.AddField(
            model_name='step',
            name='input_text',
            field=models.TextField(blank=True, db_default='', default=''),
        ),
        migrations.AddField(
            model_name='step',
            name='inside',
            field=models.CharField(blank=True, db_default='', default='', max_length=200),
        ),
        migrations.AddField(
            model_name='step',
            name='size',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
    ]
