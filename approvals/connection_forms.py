"""What the forms of all connections share: where the far side is, and credentials, written and never shown."""

from typing import Any, ClassVar

from django import forms

from approvals.models import Connection
from project.lib.crypto import Unreadable
from project.lib.language import words
from triggers.forms.fields import MONO, DeskForm, ShortNameField

TYPED = {**MONO, "autocomplete": "off"}
KEPT = words("Leave it empty to keep what is stored; it is never shown.")
SEALED = words("Stored sealed; never shown again.")
COMMON = ("name", "slug", "practice", "version")


def plain_field(label: str, help_text: str = "", **more: Any) -> forms.CharField:
    """One plain value of the configuration."""
    given = {"required": False, "max_length": 200, "widget": forms.TextInput(attrs=TYPED), **more}
    return forms.CharField(label=label, help_text=help_text, **given)


def secret_field(label: str, help_text: str = "") -> forms.CharField:
    """One credential: typed, stored sealed, never shown."""
    words = f"{help_text} {KEPT}".strip()
    return plain_field(label, words, max_length=1000, widget=forms.PasswordInput(attrs=TYPED))


def address_field(label: str, help_text: str) -> forms.URLField:
    widget = forms.URLInput(attrs=TYPED)
    return forms.URLField(label=label, required=False, assume_scheme="https", help_text=help_text, widget=widget)


class ConnectionForm(DeskForm):
    """What every system has. A practice connection delivers to the practice page instead of the world.

    `CONFIG` and `SECRETS` name the fields that are stored as such. What they must be, the door knows (reach.py)."""

    CONFIG: ClassVar[tuple[str, ...]] = ()
    SECRETS: ClassVar[tuple[str, ...]] = ()

    name = forms.CharField(label="Name", max_length=200, required=False)
    slug = ShortNameField()
    practice = forms.BooleanField(
        label="Practice: show on the practice page what would go out, send nothing", required=False
    )
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, data: Any = None, *, connection: Connection | None = None) -> None:
        self.connection = connection
        super().__init__(data, initial=self.of_connection(connection) if connection else {})
        if connection:
            del self.fields["slug"]
        else:
            for field in self.fields.values():
                field.help_text = str(field.help_text).replace(KEPT, SEALED)

    def of_connection(self, connection: Connection) -> dict[str, Any]:
        """A connection as the form shows it: no secret is among it."""
        plain = {name: getattr(connection, name) for name in ("name", "practice", "version")}
        return plain | {name: connection.config[name] for name in self.CONFIG if name in connection.config}

    @property
    def far_side(self) -> list[forms.BoundField]:
        """The fields of this system alone, in their order."""
        return [self[name] for name in self.fields if name not in COMMON]

    def config(self) -> dict[str, Any]:
        kept = dict(self.connection.config) if self.connection else {}
        typed = {name: self.cleaned_data[name] for name in self.CONFIG}
        return {name: value for name, value in (kept | typed).items() if value not in ("", None, [])}

    def secrets(self) -> dict[str, Any] | None:
        """The credentials; what was not typed anew stays. None keeps all that is stored."""
        typed = {name: self.cleaned_data[name] for name in self.SECRETS if self.cleaned_data.get(name)}
        return {**self.stored(), **typed} if typed else None

    def stored(self) -> dict[str, Any]:
        try:
            return dict(self.connection.secrets) if self.connection else {}
        except Unreadable:
            return {}  # lost with its key; this is how it is entered anew

    def row_fields(self) -> dict[str, Any]:
        """The cleaned values as the row stores them; `secrets` only when new ones were typed."""
        clean = self.cleaned_data
        fields = {"name": clean["name"], "practice": clean["practice"], "config": self.config()}
        secrets = self.secrets()
        return fields if secrets is None else fields | {"secrets": secrets}
