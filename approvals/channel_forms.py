"""How a person says by which way, and at which hours, they want to be told."""

from typing import Any

from django import forms

from approvals import channels
from approvals.models import Connection
from approvals.policy_forms import WindowsField
from triggers.forms.fields import MONO, DeskForm


class ChannelForm(DeskForm):
    """A new way to be reached."""

    connection = forms.ChoiceField(label="By")
    address = forms.CharField(
        label="Address",
        max_length=254,
        required=False,
        help_text="Mail: your address. Slack: your member id (U…). Telegram: your chat's id. Feishu: your mail address "
        "there, or your open id (ou_…). A group: nothing.",
        widget=forms.TextInput(attrs=MONO),
    )

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        self.ways = {row.slug: row for row in channels.open_ways()}
        named = [(slug, f"{channels.ways_of(row)[0].words}: {row.name or slug}") for slug, row in self.ways.items()]
        self.fields["connection"].choices = named  # type: ignore[attr-defined]

    @property
    def way(self) -> Connection:
        return self.ways[self.cleaned_data["connection"]]


class HoursForm(DeskForm):
    windows = WindowsField(
        label="Write to me only",
        required=False,
        help_text="One a line: mon-fri 09:00-17:00, in your own time zone. Empty: at any time.",
    )
    mornings = forms.BooleanField(
        label="Tell me each morning at eight what was done without a nod", required=False, initial=True
    )
