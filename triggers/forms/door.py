"""The form of a source with an address: who signs, what it may send, how much. Secrets have a page of their own."""

from typing import Any

from django import forms
from django.conf import settings

from project.lib.language import later, phrase, words
from triggers.forms.fields import CodeField
from triggers.forms.named import TYPED, SourceForm
from triggers.models import Source
from triggers.sources.custom import CustomScheme
from triggers.sources.scheme import Scheme
from triggers.sources.verify import catalogue

FIRST = ("github", "generic", "standard_webhooks")  # of the list of providers; then the others by name
RENAMED = {"prefix": "before", "actor": "names_actor"}
SCHEME = {name: RENAMED.get(name, name) for name in CustomScheme.model_fields}  # its member -> our field
MINUTE = 60  # seconds
TYPES = words("Patterns, one a line. Others are refused. Empty: github.** for GitHub, everything for the others.")
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

    places = {"rate_limit": "rate", "prefix": "before"}
    details = ("url", "receiver", "reply", "certificate")

    provider = forms.ChoiceField(label="Who signs", choices=providers)
    rate = forms.IntegerField(
        label="Deliveries, at most",
        required=False,
        min_value=1,
        max_value=1_000_000,
        help_text="More are answered 429. Empty: no limit.",
    )
    rate_period = forms.IntegerField(
        label="in so many seconds", required=False, min_value=1, max_value=86400, help_text="Empty: 60."
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
    template = CodeField(
        label="What is signed",
        required=False,
        max_length=500,
        help_text="{body}, {h:Header}, {sig.t} for a part of the signature header, {secret} for a plain SHA-256.",
    )
    timestamp = forms.CharField(
        label="Where the time stands",
        required=False,
        max_length=120,
        help_text="Unix seconds or milliseconds, signed: {h:X-Timestamp} or {sig.t}. Empty: none is too old.",
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
    names_actor = forms.CharField(
        label="Who did it",
        required=False,
        max_length=120,
        help_text="{json:user.login}. Empty: a delivery does not say.",
        widget=TYPED,
    )

    def __init__(self, data: Any = None, *, source: Source | None = None, kind: str = "") -> None:
        super().__init__(data, source=source, kind=kind)
        self.fields["types"].help_text = TYPES
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
        return {"provider": "github", "rate": 600, "rate_period": MINUTE, "template": "{body}"}

    def of_row(self, source: Source) -> dict[str, Any]:
        limit = source.rate_limit or {}
        return {
            **self.new(),
            **{SCHEME[name]: value for name, value in source.config.items() if name in SCHEME},
            **{name: value for name, value in source.config.items() if name in self.details},
            "provider": source.provider,
            "rate": limit.get("limit"),
            "rate_period": limit.get("period", MINUTE),
            "max_body": source.max_body,
        }

    def row_fields(self) -> dict[str, Any]:
        clean = self.cleaned_data
        limit = {"limit": clean["rate"], "period": clean["rate_period"] or MINUTE} if clean["rate"] else None
        provider = clean.get("provider", "")
        fields = {"provider": provider, "rate_limit": limit, "max_body": clean["max_body"]}
        said = catalogue().get(provider or self.kind, Scheme()).get("says", [])
        fields["config"] = {name: clean[name] for name in said if clean.get(name)}
        if provider == "custom":
            fields["config"] = {name: clean[ours] for name, ours in SCHEME.items() if clean[ours] not in ("", None)}
        return super().row_fields() | fields

    def clean(self) -> dict[str, Any]:
        clean = super().clean() or {}
        if clean.get("provider") == "custom" and not clean.get("header") and "header" not in self.errors:
            self.add_error("header", "Say which header holds the signature, such as X-Signature.")
        return clean
