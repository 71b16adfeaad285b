"""What the form of every source has: its name, its slug, and the version that was read."""

from typing import Any

from django import forms

from project.lib.language import later, phrase, words
from triggers.forms.fields import MONO, CodeField, DeskForm, LinesField, ShortNameField
from triggers.models import Source
from triggers.models.rhythm import SHORTEST
from triggers.sources.verify import catalogue

TYPED = forms.TextInput(attrs=MONO)  # Django copies it for each field
FOLD = words("Repeats and loops")
# Fields that most sources leave as they are.
KEPT_APART = ("actor", "idempotency_key", "dedupe_window", "on_overload", "types")
KINDS_WITH = {  # of a field that not every kind reads
    "expect_every": (*Source.DOORS, *Source.LISTENED),
    "actor": (*(kind for kind in Source.DOORS if kind != "cloudevents"), "email"),
    "idempotency_key": Source.DOORS,
    "dedupe_window": (*Source.DOORS, *Source.LISTENED),
    "on_overload": Source.DOORS,
    "types": (*Source.DOORS, *(kind for kind in Source.LISTENED if kind != "file")),
}
OVERLOAD = [
    ("", later("As suits its sender")),
    ("refuse", later("Have it come again later")),
    ("accept", later("Keep it all")),
]


class SourceForm(DeskForm):
    """What every kind has; `version` is what was read."""

    folds = {name: FOLD for name in KEPT_APART if name != "types"}

    name = forms.CharField(label="Name", max_length=200, required=False)
    slug = ShortNameField()
    expect_every = forms.IntegerField(
        label="Rings at least every",
        required=False,
        min_value=0,
        max_value=366 * 86400,
        help_text="Seconds. Silent three times as long: an alarm. Empty: learnt from what it does; 0: never.",
    )
    actor = forms.CharField(label="What the desk itself is called there", required=False, max_length=200, widget=TYPED)
    idempotency_key = CodeField(
        label="What makes a delivery the same again",
        required=False,
        max_length=2000,
        help_text="A CEL expression, as event.data.order.id. Empty, or where it finds nothing: the sender's own id.",
    )
    dedupe_window = forms.IntegerField(
        label="How long a repeat is known",
        required=False,
        min_value=60,
        max_value=366 * 86400,
        help_text="Seconds; a week has 604800. Empty: as long as suits its sender.",
    )
    on_overload = forms.ChoiceField(
        label="Beyond what it may send",
        required=False,
        choices=OVERLOAD,
        help_text="What is kept is matched later, at the rate of its source.",
    )
    types = LinesField(
        label="Types it may send",
        required=False,
        help_text="Patterns, one a line. Others are refused. Empty: what is usual for its kind.",
    )
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, data: Any = None, *, source: Source | None = None, kind: str = "") -> None:
        self.source = source
        self.kind = source.kind if source else kind
        super().__init__(data, initial=self.start())
        if source:
            del self.fields["slug"]
        for name in [name for name, kinds in KINDS_WITH.items() if self.kind not in kinds]:
            del self.fields[name]
        if "actor" in self.fields:
            self.fields["actor"].help_text = self.about_actors()

    def about_actors(self) -> str:
        """What to write there, and which senders say who did it."""
        if self.kind != "webhook":
            return phrase("Its login, bot id or address. What it did itself is kept, and starts nothing.")
        known = sorted(scheme["name"].partition(":")[0] for scheme in catalogue().values() if "actor" in scheme)
        return phrase(
            "Its login, bot id or address. What it did itself is kept, and starts nothing. Who did it say {names}, and "
            "a scheme of your own that tells where it stands.",
            names=", ".join(known),
        )

    @property
    def apart(self) -> list[forms.BoundField]:
        """The fields of the fold; a subclass may show one of them elsewhere."""
        return [self[name] for name in self.folds if name in self.fields]

    @property
    def is_apart(self) -> bool:
        """Whether the fold is open: something of it is in use, or was just refused."""
        return any(
            field.errors or (field.name in ("actor", "idempotency_key") and field.value()) for field in self.apart
        )

    def under(self, prefix: str) -> None:
        """Name its fields by `prefix`, on a page that has other forms too."""
        self.prefix = prefix

    def start(self) -> dict[str, Any]:
        if self.source is None:
            return self.new()
        plain = {name: getattr(self.source, name) for name, kinds in KINDS_WITH.items() if self.kind in kinds}
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
        said = {name: self.cleaned_data[name] for name in KINDS_WITH if name in self.fields}
        if not said.get("types"):  # left empty: what is usual, or what it was
            said.pop("types", None)
        said |= {"on_overload": said["on_overload"] or None} if "on_overload" in said else {}
        return {"name": self.cleaned_data["name"] or fallback, **said}
