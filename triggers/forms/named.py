"""What the form of every source has: its name, its slug, and the version that was read."""

from typing import Any

from django import forms

from triggers.forms.fields import MONO, DeskForm, ShortNameField
from triggers.models import Source
from triggers.models.rhythm import SHORTEST

TYPED = forms.TextInput(attrs=MONO)  # Django copies it for each field


class SourceForm(DeskForm):
    """What every kind has; `version` is what was read."""

    name = forms.CharField(label="Name", max_length=200, required=False)
    slug = ShortNameField()
    expect_every = forms.IntegerField(
        label="Rings at least every",
        required=False,
        min_value=0,
        max_value=366 * 86400,
        help_text="Seconds. Silent three times as long: an alarm. Empty: learnt from what it does; 0: never.",
    )
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, data: Any = None, *, source: Source | None = None, kind: str = "") -> None:
        self.source = source
        self.kind = source.kind if source else kind
        super().__init__(data, initial=self.start())
        if source:
            del self.fields["slug"]
        if self.kind == "schedule":
            del self.fields["expect_every"]

    def start(self) -> dict[str, Any]:
        if self.source is None:
            return self.new()
        plain = {"expect_every": self.source.expect_every} if self.kind != "schedule" else {}
        return {**plain, "name": self.source.name, "version": self.source.version, **self.of_row(self.source)}

    def new(self) -> dict[str, Any]:
        return {}

    def of_row(self, source: Source) -> dict[str, Any]:
        return {}

    def clean_expect_every(self) -> int | None:
        every: int | None = self.cleaned_data["expect_every"]
        if every and every < SHORTEST:
            raise forms.ValidationError(f"At least {SHORTEST} seconds, 0 for never, or nothing.")
        return every

    def row_fields(self) -> dict[str, Any]:
        """The cleaned values as the row stores them."""
        fallback = self.source.slug if self.source else self.cleaned_data["slug"]
        expects = {"expect_every": self.cleaned_data["expect_every"]} if "expect_every" in self.fields else {}
        return {"name": self.cleaned_data["name"] or fallback, **expects}
