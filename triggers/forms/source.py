"""Which form a source of each kind has, and the form of its secret."""

from django import forms

from triggers.forms.door import DoorForm
from triggers.forms.fields import MONO, DeskForm
from triggers.forms.file import FileForm
from triggers.forms.listened import MODELS, ListenedForm
from triggers.forms.named import SourceForm
from triggers.forms.schedule import ScheduleForm

KINDS = {
    "webhook": ("webhook", "Webhook", "Somebody sends an HTTP request when something happens."),
    "schedule": ("calendar-clock", "Schedule", "The clock rings: by a cron line, every few minutes, or once."),
    "file": ("folder-open", "Files", "A file arrives in a folder, changes, moves or goes."),
    "email": ("mail", "Mail", "A mail arrives in a mailbox that is read over IMAP."),
    "redis_stream": ("waves", "Redis stream", "A program adds an entry to a stream of Redis or Valkey."),
    "database": ("database", "Database", "A row of a table is new or changed, or lies in an outbox."),
    "cloudevents": ("cloud", "CloudEvents", "A program sends CloudEvents 1.0 with a bearer secret."),
}


class SecretForm(DeskForm):
    """A new secret; it is written once and never shown again."""

    KEEP = (("day", "for a day"), ("week", "for a week"), ("on", "until it is ended by hand"), ("no", "not at all"))

    value = forms.CharField(
        label="New secret",
        min_length=8,
        max_length=1000,
        strip=True,
        help_text="Made up for you: copy it to the sender now, it is never shown again. Or paste the sender's own.",
        widget=forms.TextInput(attrs={**MONO, "autocomplete": "off"}),
    )
    keep = forms.ChoiceField(label="The one before stays valid", choices=KEEP)


def form_for(kind: str) -> type[SourceForm]:
    if kind in MODELS:
        return ListenedForm
    return {"schedule": ScheduleForm, "file": FileForm}.get(kind, DoorForm)
