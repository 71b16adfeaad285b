import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0008_who_asked_for_an_undoing"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="policyrule",
            name="escalate_after",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.CreateModel(
            name="Asking",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("revision", models.PositiveIntegerField()),
                ("digest", models.CharField(max_length=80)),
                ("level", models.PositiveSmallIntegerField(default=0)),
                ("reminders", models.PositiveSmallIntegerField(default=0)),
                ("asked_at", models.DateTimeField()),
                ("next_at", models.DateTimeField(null=True)),
                ("unreached_at", models.DateTimeField(null=True)),
                ("closed_at", models.DateTimeField(null=True)),
                ("outcome", models.CharField(blank=True, default="", max_length=200)),
                (
                    "action",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="askings", to="approvals.action"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Channel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("address", models.CharField(blank=True, default="", max_length=254)),
                ("identity", models.CharField(blank=True, default="", max_length=254)),
                ("code", models.CharField(blank=True, default="", max_length=64)),
                ("code_sent_at", models.DateTimeField(null=True)),
                ("misses", models.PositiveSmallIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("confirmed_at", models.DateTimeField(null=True)),
                ("pressed_at", models.DateTimeField(null=True)),
                ("removed_at", models.DateTimeField(null=True)),
                (
                    "connection",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="channels", to="approvals.connection"
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="channels",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Click",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("claim", models.CharField(max_length=255)),
                ("identity", models.CharField(max_length=254)),
                ("action_id", models.BigIntegerField(null=True)),
                ("digest", models.CharField(blank=True, default="", max_length=80)),
                ("revision", models.PositiveIntegerField(null=True)),
                ("message", models.JSONField(default=dict)),
                ("outcome", models.CharField(blank=True, default="", max_length=32)),
                ("remote", models.CharField(blank=True, default="", max_length=45)),
                ("at", models.DateTimeField()),
                (
                    "connection",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="approvals.connection"
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Hours",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("windows", models.JSONField(default=list)),
                (
                    "person",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="hours", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("what", models.CharField(max_length=8)),
                ("number", models.PositiveSmallIntegerField(default=0)),
                ("status", models.CharField(default="due", max_length=8)),
                ("due_at", models.DateTimeField()),
                ("leased_until", models.DateTimeField(null=True)),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                ("ref", models.JSONField(default=dict)),
                ("error", models.CharField(blank=True, default="", max_length=300)),
                (
                    "asking",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="notices", to="approvals.asking"
                    ),
                ),
                (
                    "channel",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="notices", to="approvals.channel"
                    ),
                ),
                (
                    "follows",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="followed_by",
                        to="approvals.notice",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="asking",
            index=models.Index(condition=models.Q(("closed_at", None)), fields=["next_at"], name="askings_open"),
        ),
        migrations.AddConstraint(
            model_name="asking",
            constraint=models.UniqueConstraint(fields=("action", "revision"), name="a_revision_is_asked_about_once"),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.UniqueConstraint(
                condition=models.Q(("removed_at", None)),
                fields=("person", "connection", "address"),
                name="a_channel_is_set_up_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    ("confirmed_at__isnull", False), ("removed_at", None), models.Q(("identity", ""), _negated=True)
                ),
                fields=("connection", "identity"),
                name="an_identity_is_one_persons",
            ),
        ),
        migrations.AddConstraint(
            model_name="click",
            constraint=models.UniqueConstraint(fields=("connection", "claim"), name="a_click_counts_once"),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("status__in", ["due", "sending"])), fields=["due_at"], name="notices_to_send"
            ),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.UniqueConstraint(
                condition=models.Q(("what", "end"), _negated=True),
                fields=("asking", "channel", "what", "number"),
                name="a_person_is_asked_once_a_channel",
            ),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.UniqueConstraint(
                condition=models.Q(("what", "end")), fields=("follows",), name="a_message_is_brought_up_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status", "sent"), _negated=True), ("sent_at__isnull", False), _connector="OR"
                ),
                name="a_receipt_says_when",
            ),
        ),
    ]
