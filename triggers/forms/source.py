"""The form of a source: who may ring, and how it proves itself. Secrets have a page of their own."""

from datetime import datetime
from typing import Any

from django import forms
from django.conf import settings

from triggers.forms.fields import DeskForm, LinesField, ShortNameField
from triggers.models import Source
from triggers.sources.schedule import parse_schedule, zones

PROVIDERS = (
    ("github", "GitHub: signed by X-Hub-Signature-256"),
    ("generic", "Any program: JSON signed by X-Signature (HMAC-SHA256)"),
    ("none", "Nobody: unsigned, whoever knows the address may ring"),
)
RHYTHMS = (("cron", "By a cron line"), ("every", "Every so many seconds"), ("at", "Once"))
CATCH_UP = (
    ("last", "Ring once for all of them"),
    ("none", "Let them pass"),
    ("all", "Ring for each (at most 100)"),
)
NEW_CRON = "0 8 * * *"
KINDS = {
    "webhook": ("webhook", "Webhook", "Somebody sends an HTTP request when something happens."),
    "schedule": ("calendar-clock", "Schedule", "The clock rings: by a cron line, every few minutes, or once."),
    "cloudevents": ("cloud", "CloudEvents", "A program sends CloudEvents 1.0 with a bearer secret."),
}
MONO = {"class": "mono", "spellcheck": "false", "autocapitalize": "off"}


class SourceForm(DeskForm):
    """What every kind has; `version` is what was read."""

    places = {"cron": "cron", "every": "every", "at": "at", "timezone": "timezone"}

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


class DoorForm(SourceForm):
    """A source with an address: webhook or cloudevents."""

    places = {"rate_limit": "per_minute", "types": "types", "provider": "provider", "max_body": "max_body"}

    provider = forms.ChoiceField(label="Who signs", choices=PROVIDERS)
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

    def __init__(self, data: Any = None, *, source: Source | None = None, kind: str = "") -> None:
        super().__init__(data, source=source, kind=kind)
        self.fields["max_body"].help_text = f"Bytes. Empty: {settings.MAX_BODY_BYTES:,}."
        if self.kind == "cloudevents":
            del self.fields["provider"]

    def new(self) -> dict[str, Any]:
        return {"provider": "github", "per_minute": 600}

    def of_row(self, source: Source) -> dict[str, Any]:
        limit = source.rate_limit or {}
        a_minute = round(limit["limit"] * 60 / limit["period"]) if limit else None
        return {
            "provider": source.provider,
            "types": source.types,
            "per_minute": a_minute,
            "max_body": source.max_body,
        }

    def row_fields(self) -> dict[str, Any]:
        clean = self.cleaned_data
        limit = {"limit": clean["per_minute"], "period": 60} if clean["per_minute"] else None
        most = clean["max_body"]
        if most is None and self.source is None and clean.get("provider") == "github":
            most = 25 * 1024 * 1024  # what GitHub sends at most
        provider = clean.get("provider", "")
        fields = {"provider": provider, "types": clean["types"], "rate_limit": limit, "max_body": most}
        return super().row_fields() | {name: value for name, value in fields.items() if name != "types" or value}


class ScheduleForm(SourceForm):
    """The clock as a source."""

    rhythm = forms.ChoiceField(label="When", choices=RHYTHMS, widget=forms.RadioSelect)
    cron = forms.CharField(
        label="Cron line",
        required=False,
        max_length=200,
        help_text="Minute, hour, day of month, month, day of week: 30 7 * * 1-5",
        widget=forms.TextInput(attrs=MONO),
    )
    every = forms.FloatField(label="Seconds between two", required=False, min_value=1, max_value=366 * 86400)
    at = forms.CharField(label="Day and time", required=False, widget=forms.TextInput(attrs={"type": "datetime-local"}))
    timezone = forms.CharField(
        label="Time zone",
        max_length=64,
        help_text="An IANA name such as Europe/Berlin.",
        widget=forms.TextInput(attrs={"list": "zones", **MONO}),
    )
    catch_up = forms.ChoiceField(label="Slots missed while the desk was down", choices=CATCH_UP)

    def new(self) -> dict[str, Any]:
        return {"rhythm": "cron", "cron": NEW_CRON, "timezone": settings.TIME_ZONE, "catch_up": "last"}

    def of_row(self, source: Source) -> dict[str, Any]:
        config = source.config
        rhythm = next((name for name in ("cron", "every", "at") if config.get(name) is not None), "cron")
        told = {name: config.get(name) for name in ("cron", "every", "at")}
        if told["at"]:
            told["at"] = str(told["at"])[:16]
        zone = config.get("timezone", "UTC")
        return {"rhythm": rhythm, **told, "timezone": zone, "catch_up": config.get("catch_up", "last")}

    def clean_at(self) -> str | None:
        """Wall-clock time in the schedule's own zone, as it was typed: the reader's zone has no say in it."""
        text: str = self.cleaned_data["at"]
        if not text:
            return None
        try:
            return datetime.fromisoformat(text).replace(tzinfo=None).isoformat(timespec="minutes")
        except ValueError as error:
            raise forms.ValidationError("A day and a time, such as 2027-03-01T09:30.") from error

    def clean_timezone(self) -> str:
        name: str = self.cleaned_data["timezone"]
        if name not in zones():
            raise forms.ValidationError(f"“{name}” is no IANA time zone, such as Europe/Berlin.")
        return name

    def clean(self) -> dict[str, Any]:
        clean = super().clean() or {}
        rhythm = clean.get("rhythm")
        if rhythm and not clean.get(rhythm) and rhythm not in self.errors:
            self.add_error(rhythm, "Say when.")
        return clean

    def as_it_stands(self) -> dict[str, Any]:
        """The schedule of the form as typed, of its row, or of a new one. Raises KeyError for what is no schedule."""
        if not self.is_bound:
            fresh = {"cron": NEW_CRON, "timezone": settings.TIME_ZONE}
            return self.source.config if self.source else fresh
        self.is_valid()  # cleans once
        return self.config()

    def config(self) -> dict[str, Any]:
        clean = self.cleaned_data
        kept = {"jitter": self.source.config["jitter"]} if self.source and self.source.config.get("jitter") else {}
        rhythm = clean["rhythm"]
        return {rhythm: clean[rhythm], "timezone": clean["timezone"], "catch_up": clean["catch_up"], **kept}

    def row_fields(self) -> dict[str, Any]:
        return super().row_fields() | {
            "config": parse_schedule(self.config()).model_dump(mode="json", exclude_none=True)
        }


class SecretForm(DeskForm):
    """A new secret; it is written once and never shown again."""

    KEEP = (("day", "for a day"), ("week", "for a week"), ("on", "until it is ended by hand"), ("no", "not at all"))

    value = forms.CharField(
        label="New secret",
        min_length=8,
        max_length=1000,
        strip=True,
        help_text="Made up for you: copy it to the sender now, it is never shown again. Or paste the sender's own.",
        widget=forms.TextInput(attrs={**MONO, "autocomplete": "off"}),
    )
    keep = forms.ChoiceField(label="The one before stays valid", choices=KEEP)


def form_for(kind: str) -> type[SourceForm]:
    return ScheduleForm if kind == "schedule" else DoorForm
