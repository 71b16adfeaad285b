"""Bulk jobs with the rows they take, events that are found by their words or pinned, and what retention notes."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# SQLite: an index over the table itself, kept by its triggers. PostgreSQL: an index over the same two texts.
SQLITE = (
    "CREATE VIRTUAL TABLE triggers_eventwords_index USING fts5("
    "facts, whole, content='triggers_eventwords', content_rowid='event_id', tokenize='unicode61 remove_diacritics 0')",
    "CREATE TRIGGER words_come AFTER INSERT ON triggers_eventwords BEGIN {add} END",
    "CREATE TRIGGER words_go AFTER DELETE ON triggers_eventwords BEGIN {remove} END",
    "CREATE TRIGGER words_change AFTER UPDATE ON triggers_eventwords BEGIN {remove} {add} END",
)
ADD = "INSERT INTO triggers_eventwords_index(rowid, facts, whole) VALUES (new.event_id, new.facts, new.whole);"
REMOVE = (
    "INSERT INTO triggers_eventwords_index(triggers_eventwords_index, rowid, facts, whole) "
    "VALUES ('delete', old.event_id, old.facts, old.whole);"
)
POSTGRES = (
    "CREATE INDEX words_of_facts ON triggers_eventwords USING gin (to_tsvector('simple', facts))",
    "CREATE INDEX words_of_all ON triggers_eventwords USING gin (to_tsvector('simple', whole))",
)


def build(apps, schema_editor):
    for sql in POSTGRES if schema_editor.connection.vendor == "postgresql" else SQLITE:
        schema_editor.execute(sql.replace("{add}", ADD).replace("{remove}", REMOVE))


def unbuild(apps, schema_editor):
    if schema_editor.connection.vendor != "postgresql":  # there the indexes go with their table
        schema_editor.execute("DROP TABLE triggers_eventwords_index")


class Migration(migrations.Migration):

    dependencies = [
        ('triggers', '0006_what_steps_were_asked_with'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Bulk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('verb', models.CharField(max_length=12)),
                ('status', models.CharField(default='running', max_length=10)),
                ('filter', models.JSONField(default=dict)),
                ('triggers', models.JSONField(default=list)),
                ('mark', models.CharField(max_length=64)),
                ('reason', models.TextField(blank=True, default='')),
                ('canary', models.PositiveSmallIntegerField(default=1)),
                ('rate', models.PositiveSmallIntegerField(default=10)),
                ('stop_after', models.PositiveSmallIntegerField(default=5)),
                ('total', models.PositiveIntegerField(default=0)),
                ('created_at', models.DateTimeField()),
                ('paced_at', models.DateTimeField()),
                ('canary_at', models.DateTimeField(null=True)),
                ('judged_at', models.DateTimeField(null=True)),
                ('resumed_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('said', models.TextField(blank=True, default='')),
                ('counts', models.JSONField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='BulkItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('ref', models.BigIntegerField()),
                ('status', models.CharField(default='waiting', max_length=8)),
                ('detail', models.CharField(blank=True, default='', max_length=300)),
                ('at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='EventWords',
            fields=[
                ('event', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='words', serialize=False, to='triggers.event')),
                ('facts', models.TextField()),
                ('whole', models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name='Pin',
            fields=[
                ('event', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='pin', serialize=False, to='triggers.event')),
                ('at', models.DateTimeField()),
                ('reason', models.TextField()),
            ],
        ),
        migrations.AddField(
            model_name='run',
            name='pruned_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddConstraint(
            model_name='deadletter',
            constraint=models.UniqueConstraint(condition=models.Q(('kind', 'event')), fields=('event',), name='an_event_makes_one_letter'),
        ),
        migrations.AddField(
            model_name='bulk',
            name='by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='bulkitem',
            name='job',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='items', to='triggers.bulk'),
        ),
        migrations.AddField(
            model_name='bulkitem',
            name='run',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='triggers.run'),
        ),
        migrations.AddField(
            model_name='bulkitem',
            name='trigger',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='triggers.trigger'),
        ),
        migrations.AddField(
            model_name='pin',
            name='by',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddIndex(
            model_name='bulk',
            index=models.Index(fields=['status', 'id'], name='bulk_by_status'),
        ),
        migrations.AddConstraint(
            model_name='bulk',
            constraint=models.UniqueConstraint(condition=models.Q(('status__in', ('running', 'paused', 'stopped'))), fields=('mark',), name='one_bulk_job_for_one_wish'),
        ),
        migrations.AddConstraint(
            model_name='bulk',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ('running', 'paused', 'stopped')), ('ended_at__isnull', False), _connector='OR'), name='an_ended_bulk_job_says_when'),
        ),
        migrations.AddIndex(
            model_name='bulkitem',
            index=models.Index(fields=['job', 'status', 'id'], name='items_of_a_bulk_job'),
        ),
        migrations.AddIndex(
            model_name='bulkitem',
            index=models.Index(condition=models.Q(('status', 'waiting')), fields=['ref'], name='items_to_come'),
        ),
        migrations.AddConstraint(
            model_name='bulkitem',
            constraint=models.UniqueConstraint(fields=('job', 'ref', 'trigger'), name='a_row_stands_once_in_a_bulk_job'),
        ),
        migrations.RunPython(build, unbuild),
    ]
