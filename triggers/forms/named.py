"""What the form of every source has: its name, its slug, and the version that was read."""

from typing import Any

from django import forms

from triggers.forms.fields import MONO, DeskForm, ShortNameField
from triggers.models import Source

TYPED = forms.TextInput(attrs=MONO)  # Django copies it for each field


class SourceForm(DeskForm):
    """What every kind has; `version` is what was read."""

    name = forms.CharField(label="Name", max_length=200, required=False)
    slug = ShortNameField()
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, data: Any = None, *, source: Source | None = None, kind: str = "") -> None:
        self.source = source
        self.kind = source.kind if source else kind
        super().__init__(data, initial=self.start())
        if source:
            del self.fields["slug"]

    def start(self) -> dict[str, Any]:
        if self.source is None:
            return self.new()
        return {"name": self.source.name, "version": self.source.version, **self.of_row(self.source)}

    def new(self) -> dict[str, Any]:
        return {}

    def of_row(self, source: Source) -> dict[str, Any]:
        return {}

    def row_fields(self) -> dict[str, Any]:
        """The cleaned values as the row stores them."""
        fallback = self.source.slug if self.source else self.cleaned_data["slug"]
        return {"name": self.cleaned_data["name"] or fallback}
