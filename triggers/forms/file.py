"""The form of a watched folder or file."""

from typing import Any

from django import forms
from django.conf import settings

from project.lib.language import later
from triggers.forms.named import TYPED, SourceForm
from triggers.models import Source
from triggers.sources.file import FileWatch, parse_watch

ON = (
    ("created", later("a file arrives")),
    ("modified", later("its content changes")),
    ("deleted", later("it goes")),
    ("moved", later("it is renamed inside the folder")),
)
MODES = (
    ("auto", later("By what the system tells, else by looking")),
    ("native", later("Only by what the system tells")),
    ("polling", later("By looking every 5 seconds, up to 10,000 files")),
)
NEW = FileWatch(path="/")


class FileForm(SourceForm):
    """A folder or a file as a source."""

    path = forms.CharField(label="Folder or file", max_length=4000, widget=TYPED)
    pattern = forms.CharField(
        label="Names",
        required=False,
        max_length=500,
        help_text="* for all, or *.csv; with a / the path below the folder is compared.",
        widget=TYPED,
    )
    recursive = forms.BooleanField(label="Folders below it as well", required=False)
    on = forms.MultipleChoiceField(label="Ring when", choices=ON, widget=forms.CheckboxSelectMultiple)
    settle_seconds = forms.FloatField(
        label="Wait until it is left alone for",
        required=False,
        min_value=0.1,
        max_value=3600,
        help_text="Seconds without a change; a file that is still written to rings when it is complete.",
    )
    mode = forms.ChoiceField(label="How it is noticed", choices=MODES)

    def __init__(self, data: Any = None, *, source: Source | None = None, kind: str = "") -> None:
        super().__init__(data, source=source, kind=kind)
        self.fields["path"].help_text = f"Inside {', '.join(settings.FILE_ROOTS)} (FILE_ROOTS)."

    def new(self) -> dict[str, Any]:
        return {**NEW.model_dump(exclude={"path"}), "path": settings.FILE_ROOTS[0] if settings.FILE_ROOTS else ""}

    def of_row(self, source: Source) -> dict[str, Any]:
        return {**self.new(), **source.config}

    def row_fields(self) -> dict[str, Any]:
        clean = self.cleaned_data
        given = {name: clean[name] for name in FileWatch.model_fields if clean[name] not in ("", None)}
        config = parse_watch(given).model_dump(mode="json", exclude_defaults=True)
        return super().row_fields() | {"config": config}
