"""The form of a source with an address: who signs, what it may send, how much. Secrets have a page of their own."""

from typing import Any

from django import forms
from django.conf import settings

from project.lib.language import later, phrase
from triggers.forms.fields import LinesField
from triggers.forms.named import TYPED, SourceForm
from triggers.models import Source
from triggers.sources.custom import CustomScheme
from triggers.sources.scheme import Scheme
from triggers.sources.verify import catalogue

FIRST = ("github", "generic", "standard_webhooks")  # of the list of providers; then the others by name
SCHEME = {name: {"prefix": "before"}.get(name, name) for name in CustomScheme.model_fields}  # its member -> our field
ALGORITHMS = (
    ("hmac-sha256", later("HMAC-SHA256")),
    ("hmac-sha512", later("HMAC-SHA512")),
    ("hmac-sha1", later("HMAC-SHA1, old")),
    ("sha256", later("SHA-256 of a text that holds the secret")),
    ("token", later("None: the header is the secret itself")),
)
ENCODINGS = (("hex", "hex"), ("base64", "base64"))


def providers() -> list[tuple[str, str]]:
    """Who may sign: the catalogue's by name, a scheme of one's own, and nobody last."""
    named = {key: scheme["name"] for key, scheme in catalogue().items() if "name" in scheme}
    last = {"custom": "A scheme of your own, described below", "none": named.pop("none")}
    order = [*FIRST, *sorted(named.keys() - set(FIRST), key=lambda key: named[key].lower())]
    return [(key, (named | last)[key]) for key in [*order, *last]]


class DoorForm(SourceForm):
    """A source with an address: webhook or cloudevents."""

    places = {"rate_limit": "per_minute", "prefix": "before"}
    details = ("url", "receiver", "reply", "certificate")

    provider = forms.ChoiceField(label="Who signs", choices=providers)
    types = LinesField(
        label="Types it may send",
        required=False,
        help_text="Patterns, one a line. Others are refused. Empty: github.** for GitHub, everything for the others.",
    )
    per_minute = forms.IntegerField(
        label="Deliveries a minute, at most",
        required=False,
        min_value=1,
        help_text="More are answered 429. Empty: no limit.",
    )
    max_body = forms.IntegerField(
        label="Largest body", required=False, min_value=1, max_value=64 * 1024 * 1024, help_text="Bytes."
    )

    url = forms.CharField(
        label="Our address, as the sender has it",
        required=False,
        max_length=2000,
        help_text="Twilio and Square sign it. Empty: this desk's own address of the source.",
        widget=TYPED,
    )
    receiver = forms.CharField(
        label="For whom messages are encrypted",
        required=False,
        max_length=200,
        help_text="WeCom: the CorpID. DingTalk: the CorpID or AppKey. Empty for WeCom's smart robots.",
        widget=TYPED,
    )
    reply = forms.CharField(
        label="What whoever writes is answered at once",
        required=False,
        max_length=600,
        help_text="WeCom shows it in the chat. Empty: nothing.",
    )
    certificate = forms.CharField(
        label="The only certificate that counts",
        required=False,
        max_length=20_000,
        help_text="In PEM, for a desk that reaches nothing outside. Empty: Amazon's, fetched from Amazon's own hosts.",
        widget=forms.Textarea(attrs={"rows": 3}),
    )

    header = forms.CharField(label="Header with the signature", required=False, max_length=100, widget=TYPED)
    algorithm = forms.ChoiceField(label="Algorithm", choices=ALGORITHMS, required=False)
    encoding = forms.ChoiceField(label="Written in", choices=ENCODINGS, required=False)
    before = forms.CharField(
        label="Before the signature", required=False, max_length=50, help_text="Such as sha256=", widget=TYPED
    )
    template = forms.CharField(
        label="What is signed",
        required=False,
        max_length=500,
        help_text="{body}, {h:Header}, {sig.t} for a part of the signature header, {secret} for a plain SHA-256.",
        widget=TYPED,
    )
    timestamp = forms.CharField(
        label="Where the time stands",
        required=False,
        max_length=120,
        help_text="Unix seconds, signed: {h:X-Timestamp} or {sig.t}. Empty: a delivery never grows old.",
        widget=TYPED,
    )
    tolerance = forms.IntegerField(
        label="How old it may be", required=False, min_value=1, max_value=7 * 86400, help_text="Seconds."
    )
    delivery_id = forms.CharField(
        label="Its id",
        required=False,
        max_length=120,
        help_text="{h:X-Delivery-Id} or {json:id}. Empty: nothing counts as a repeat.",
        widget=TYPED,
    )
    event_type = forms.CharField(
        label="Its type",
        required=False,
        max_length=120,
        help_text="{h:X-Event} or {json:type}. Empty: the short name and .received.",
        widget=TYPED,
    )

    def __init__(self, data: Any = None, *, source: Source | None = None, kind: str = "") -> None:
        super().__init__(data, source=source, kind=kind)
        self.fields["max_body"].help_text = phrase("Bytes. Empty: {most}.", most=", ".join(self.caps()))
        if self.kind != "webhook":  # a chat is its own provider, CloudEvents know none
            said = catalogue()[self.kind].get("says", [])
            for name in {"provider", *SCHEME.values(), *self.details} - set(said):
                del self.fields[name]

    def caps(self) -> list[str]:
        """The general cap of a body, then the providers that send more."""
        more = [] if self.kind == "cloudevents" else [one for one in catalogue().values() if "max_body" in one]
        return [f"{settings.MAX_BODY_BYTES:,}", *(f"for {one['name']} {one['max_body']:,}" for one in more)]

    @property
    def is_custom(self) -> bool:
        return bool("provider" in self.fields and self["provider"].value() == "custom")

    def said(self) -> list[forms.BoundField]:
        """The fields that some providers read."""
        return [self[name] for name in self.details if name in self.fields]

    def new(self) -> dict[str, Any]:
        return {"provider": "github", "per_minute": 600, "template": "{body}"}

    def of_row(self, source: Source) -> dict[str, Any]:
        limit = source.rate_limit or {}
        a_minute = round(limit["limit"] * 60 / limit["period"]) if limit else None
        return {
            **self.new(),
            **{SCHEME[name]: value for name, value in source.config.items() if name in SCHEME},
            **{name: value for name, value in source.config.items() if name in self.details},
            "provider": source.provider,
            "types": source.types,
            "per_minute": a_minute,
            "max_body": source.max_body,
        }

    def row_fields(self) -> dict[str, Any]:
        clean = self.cleaned_data
        limit = {"limit": clean["per_minute"], "period": 60} if clean["per_minute"] else None
        provider = clean.get("provider", "")
        fields = {"provider": provider, "types": clean["types"], "rate_limit": limit, "max_body": clean["max_body"]}
        said = catalogue().get(provider or self.kind, Scheme()).get("says", [])
        fields["config"] = {name: clean[name] for name in said if clean.get(name)}
        if provider == "custom":
            fields["config"] = {name: clean[ours] for name, ours in SCHEME.items() if clean[ours] not in ("", None)}
        return super().row_fields() | {name: value for name, value in fields.items() if name != "types" or value}

    def clean(self) -> dict[str, Any]:
        clean = super().clean() or {}
        if clean.get("provider") == "custom" and not clean.get("header") and "header" not in self.errors:
            self.add_error("header", "Say which header holds the signature, such as X-Signature.")
        return clean
