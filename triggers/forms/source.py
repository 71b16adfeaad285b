"""Which form a source of each kind has, and the form of its secret."""

import secrets
from typing import Any

from django import forms

from triggers.forms.door import DoorForm
from triggers.forms.fields import MONO, DeskForm
from triggers.forms.file import FileForm
from triggers.forms.listened import MODELS, ListenedForm
from triggers.forms.named import SourceForm
from triggers.forms.schedule import ScheduleForm
from triggers.models import Source
from triggers.sources.verify import catalogue

KINDS = {
    "webhook": ("webhook", "Webhook", "Somebody sends an HTTP request when something happens."),
    "slack": ("hash", "Slack", "Somebody mentions the app, runs its command or presses its button."),
    "feishu": ("message-square", "Feishu or Lark", "Somebody writes to the bot, mentions it or presses a card."),
    "dingtalk": ("message-circle", "DingTalk", "Somebody mentions the robot, or something happens in the company."),
    "wecom": ("messages-square", "WeCom", "Somebody writes to the app, or something happens in it."),
    "schedule": ("calendar-clock", "Schedule", "The clock rings: by a cron line, every few minutes, or once."),
    "file": ("folder-open", "Files", "A file arrives in a folder, changes, moves or goes."),
    "email": ("mail", "Mail", "A mail arrives in a mailbox that is read over IMAP."),
    "redis_stream": ("logs", "Redis stream", "A program adds an entry to a stream of Redis or Valkey."),
    "kafka": ("workflow", "Kafka", "A program writes a record to a topic of Kafka."),
    "database": ("database", "Database", "A row of a table is new or changed, or lies in an outbox."),
    "cloudevents": ("cloud", "CloudEvents", "A program sends CloudEvents 1.0 with a bearer secret."),
}


class SecretForm(DeskForm):
    """A new secret; it is written once and never shown again."""

    KEEP = (("day", "for a day"), ("week", "for a week"), ("on", "until it is ended by hand"), ("no", "not at all"))

    value = forms.CharField(
        label="New secret",
        min_length=8,
        max_length=2000,
        strip=True,
        help_text="Made up for you: copy it to the sender now, it is never shown again. Or paste the sender's own.",
        widget=forms.TextInput(attrs={**MONO, "autocomplete": "off"}),
    )
    keep = forms.ChoiceField(label="The one before stays valid", choices=KEEP)

    def __init__(self, data: Any, source: Source) -> None:
        """A secret is made up where ours counts; elsewhere the sender shows what to paste."""
        theirs = catalogue().get(source.provider or source.kind, {}).get("secret", "")
        made_up = "" if theirs else secrets.token_urlsafe(32)
        super().__init__(data, initial={"value": made_up, "keep": "day"})
        if theirs:
            self.fields["value"].help_text = f"Paste what the sender shows: {theirs}. It is never shown again."


def form_for(kind: str) -> type[SourceForm]:
    if kind in MODELS:
        return ListenedForm
    return {"schedule": ScheduleForm, "file": FileForm}.get(kind, DoorForm)
