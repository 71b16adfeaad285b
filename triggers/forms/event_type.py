"""The form of an event type: its description, its schema as JSON, and whether what does not fit is refused."""

from typing import Any

from django import forms

from project.lib.language import later
from triggers.forms.fields import DeskForm, ObjectField
from triggers.models import EventType

MODES = (
    ("warn", later("Warn: what differs is listed here, and goes on")),
    ("refuse", later("Refuse: what does not fit becomes a dead letter")),
)


class EventTypeForm(DeskForm):
    """`version` is what was read."""

    description = forms.CharField(
        label="What it means", required=False, max_length=2000, widget=forms.Textarea(attrs={"rows": 2})
    )
    mode = forms.ChoiceField(label="When data does not fit", choices=MODES)
    schema = ObjectField(
        label="Schema of the data",
        required=False,
        help_text="JSON schema, draft 2020-12. Nothing outside it is looked up.",
    )
    version = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, row: EventType, schema: dict[str, Any] | None = None) -> None:
        self.row = row
        facts = {name: getattr(row, name) for name in ("description", "mode", "version")}
        super().__init__(data, initial={**facts, "schema": row.schema if schema is None else schema})
        self.fields["schema"].widget.attrs["rows"] = 22

    def changes(self) -> dict[str, Any]:
        """What was changed; an untouched schema goes on learning."""
        clean = self.cleaned_data
        return {
            name: clean[name] for name in ("description", "mode", "schema") if clean[name] != getattr(self.row, name)
        }
