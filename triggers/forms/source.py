"""Which form a source of each kind has, and the form of its secret."""

import secrets
from typing import Any

from django import forms

from project.lib.language import later, words
from triggers.forms.door import DoorForm
from triggers.forms.fields import MONO, DeskForm
from triggers.forms.file import FileForm
from triggers.forms.listened import MODELS, ListenedForm
from triggers.forms.named import SourceForm
from triggers.forms.schedule import ScheduleForm
from triggers.models import Source
from triggers.sources.scheme import Scheme
from triggers.sources.verify import catalogue

KINDS = {
    "webhook": ("webhook", words("Webhook"), words("Somebody sends an HTTP request when something happens.")),
    "slack": ("hash", words("Slack"), words("Somebody mentions the app, runs its command or presses its button.")),
    "feishu": (
        "message-square",
        words("Feishu or Lark"),
        words("Somebody writes to the bot, mentions it or presses a card."),
    ),
    "dingtalk": (
        "message-circle",
        words("DingTalk"),
        words("Somebody mentions the robot, or something happens in the company."),
    ),
    "wecom": ("messages-square", words("WeCom"), words("Somebody writes to the app, or something happens in it.")),
    "schedule": (
        "calendar-clock",
        words("Schedule"),
        words("The clock rings: by a cron line, every few minutes, or once."),
    ),
    "file": ("folder-open", words("Files"), words("A file arrives in a folder, changes, moves or goes.")),
    "email": ("mail", words("Mail"), words("A mail arrives in a mailbox that is read over IMAP.")),
    "redis_stream": ("logs", words("Redis stream"), words("A program adds an entry to a stream of Redis or Valkey.")),
    "kafka": ("workflow", words("Kafka"), words("A program writes a record to a topic of Kafka.")),
    "database": ("database", words("Database"), words("A row of a table is new or changed, or lies in an outbox.")),
    "cloudevents": ("cloud", words("CloudEvents"), words("A program sends CloudEvents 1.0 with a bearer secret.")),
}


class SecretForm(DeskForm):
    """A new secret; it is written once and never shown again."""

    KEEP = (
        ("day", later("for a day")),
        ("week", later("for a week")),
        ("on", later("until it is ended by hand")),
        ("no", later("not at all")),
    )

    value = forms.CharField(
        label="New secret",
        min_length=8,
        max_length=2000,
        strip=True,
        help_text="Made up for you, and counts once it is saved. Copy it to the sender first: it is never shown again. "
        "Or paste the sender's own.",
        widget=forms.TextInput(attrs={**MONO, "autocomplete": "off"}),
    )
    keep = forms.ChoiceField(label="The one before stays valid", choices=KEEP)

    def __init__(self, data: Any, source: Source) -> None:
        """A secret is made up where ours counts; elsewhere the sender shows what to paste."""
        theirs = catalogue().get(source.provider or source.kind, Scheme()).get("secret", "")
        made_up = "" if theirs else secrets.token_urlsafe(32)
        super().__init__(data, initial={"value": made_up, "keep": "day"})
        if theirs:
            self.fields["value"].help_text = f"Paste what the sender shows: {theirs}. It is never shown again."


def form_for(kind: str) -> type[SourceForm]:
    if kind in MODELS:
        return ListenedForm
    return {"schedule": ScheduleForm, "file": FileForm}.get(kind, DoorForm)
