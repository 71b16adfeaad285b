"""The form of a connection: where the far side is, and its credentials, which are written and never shown."""

from typing import Any

from django import forms

from approvals.errors import NotValid
from approvals.models import Connection
from approvals.reach import check_address
from project.lib.crypto import Unreadable
from triggers.forms.fields import DeskForm, LinesField, ShortNameField

SYSTEMS = {
    "github": ("git-pull-request", "GitHub", "Comments and pull requests through GitHub's API."),
    "http": ("globe", "HTTP", "Requests to any web address, with credentials in headers."),
    "notify": ("bell", "Notifications", "Messages to your own people, by chat, mail or push (Apprise addresses)."),
}
MONO = {"class": "mono", "spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}
KEPT = "Leave it empty to keep what is stored; it is never shown."
SEALED = "Stored sealed; never shown again."


class ConnectionForm(DeskForm):
    """What every system has. A practice connection delivers to the practice page instead of the world."""

    name = forms.CharField(label="Name", max_length=200, required=False)
    slug = ShortNameField()
    practice = forms.BooleanField(
        label="Practice: show on the practice page what would go out, send nothing", required=False
    )
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, data: Any = None, *, connection: Connection | None = None) -> None:
        self.connection = connection
        super().__init__(data, initial=of_connection(connection) if connection else {})
        if connection:
            del self.fields["slug"]
        else:
            for field in self.fields.values():
                field.help_text = str(field.help_text).replace(KEPT, SEALED)

    def config(self) -> dict[str, Any]:
        return dict(self.connection.config) if self.connection else {}

    def secrets(self) -> dict[str, Any] | None:
        """The credentials that were typed; None keeps what is stored."""
        return None

    def row_fields(self) -> dict[str, Any]:
        """The cleaned values as the row stores them; `secrets` only when new ones were typed."""
        clean = self.cleaned_data
        fields = {"name": clean["name"], "practice": clean["practice"], "config": self.config()}
        secrets = self.secrets()
        return fields if secrets is None else fields | {"secrets": secrets}


class GitHubForm(ConnectionForm):
    api_url = forms.URLField(
        label="API address",
        required=False,
        assume_scheme="https",
        help_text="Empty for github.com; GitHub Enterprise: https://HOST/api/v3",
        widget=forms.URLInput(attrs=MONO),
    )
    token = forms.CharField(
        label="Token", required=False, max_length=1000, help_text=KEPT, widget=forms.PasswordInput(attrs=MONO)
    )

    def clean_api_url(self) -> str:
        address: str = self.cleaned_data["api_url"]
        try:
            check_address({"api_url": address})
        except NotValid as refusal:
            raise forms.ValidationError(refusal.detail) from None
        return address

    def config(self) -> dict[str, Any]:
        address = self.cleaned_data["api_url"].rstrip("/")
        rest = {name: value for name, value in super().config().items() if name != "api_url"}
        return rest | ({"api_url": address} if address else {})

    def secrets(self) -> dict[str, Any] | None:
        return {"token": self.cleaned_data["token"]} if self.cleaned_data["token"] else None

    def clean(self) -> dict[str, Any]:
        clean = super().clean() or {}
        stored = bool(self.connection and self.connection.sealed_secrets)
        if not clean.get("practice") and not clean.get("token") and not stored:
            self.add_error("token", "A connection that is not for practice needs a token.")
        return clean


class HttpForm(ConnectionForm):
    headers = forms.CharField(
        label="Headers with credentials",
        required=False,
        max_length=8000,
        help_text=f"One a line: Authorization: Bearer … {KEPT}",
        widget=forms.Textarea(attrs={"rows": 3, **MONO}),
    )

    def clean_headers(self) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for line in self.cleaned_data["headers"].splitlines():
            name, colon, value = line.partition(":")
            if not line.strip():
                continue
            if not colon or not name.strip() or not value.strip():
                raise forms.ValidationError("Each line is a name, a colon and a value.")
            pairs[name.strip()] = value.strip()
        return pairs

    def secrets(self) -> dict[str, Any] | None:
        return self.cleaned_data["headers"] or None


class NotifyForm(ConnectionForm):
    urls = LinesField(
        label="Addresses",
        required=False,
        help_text=f"Apprise addresses, one a line: slack://…, mailto://… {KEPT}",
    )

    def secrets(self) -> dict[str, Any] | None:
        urls = self.cleaned_data["urls"]
        if not urls:
            return None
        try:
            kept = self.connection.secrets if self.connection else {}
        except Unreadable:
            kept = {}  # lost with its key; this is how it is entered anew
        return {**kept, "urls": urls}


FORMS: dict[str, type[ConnectionForm]] = {"github": GitHubForm, "http": HttpForm, "notify": NotifyForm}


def of_connection(connection: Connection) -> dict[str, Any]:
    """A connection as the form shows it: no secret is among it."""
    plain = {name: getattr(connection, name) for name in ("name", "practice", "version")}
    return plain | {"api_url": connection.config.get("api_url", "")}
