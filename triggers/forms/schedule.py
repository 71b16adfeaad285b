"""The form of the clock as a source."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.conf import settings

from project.lib.language import later
from triggers.errors import NotValid
from triggers.forms.fields import MONO
from triggers.forms.named import SourceForm
from triggers.models import Source
from triggers.sources.schedule import parse_schedule, zones

RHYTHMS = (("cron", later("By a cron line")), ("every", later("Every so many seconds")), ("at", later("Once")))
CATCH_UP = (
    ("last", later("Ring once for all of them")),
    ("none", later("Let them pass")),
    ("all", later("Ring for each (at most 100)")),
)
SECONDS = ("jitter", "spread")
NEW_CRON = "0 8 * * *"


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
    spread = forms.FloatField(
        label="Seconds between two of them", required=False, min_value=0, max_value=86400, help_text="0: at once."
    )
    jitter = forms.FloatField(
        label="Later by up to",
        required=False,
        min_value=0,
        max_value=86400,
        help_text="Seconds; always the same amount, another one for each schedule.",
    )

    def new(self) -> dict[str, Any]:
        return {"rhythm": "cron", "cron": NEW_CRON, "timezone": settings.TIME_ZONE, "catch_up": "last"}

    def of_row(self, source: Source) -> dict[str, Any]:
        config = source.config
        rhythm = next((name for name in ("cron", "every", "at") if config.get(name) is not None), "cron")
        told = {"cron": config.get("cron"), "every": config.get("every"), "at": wall_time(config)}
        zone = config.get("timezone", "UTC")
        more = {"catch_up": config.get("catch_up", "last"), **{name: config.get(name) for name in SECONDS}}
        return {"rhythm": rhythm, **told, "timezone": zone, **more}

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
        kept = {name: clean[name] for name in SECONDS if clean.get(name)}
        rhythm = clean["rhythm"]
        when = self.untouched_at() or clean[rhythm] if rhythm == "at" else clean[rhythm]
        return {rhythm: when, "timezone": clean["timezone"], "catch_up": clean["catch_up"], **kept}

    def untouched_at(self) -> str | None:
        """The row's own `at`, with its seconds and offset, where day, time and zone are still those that were shown."""
        before = self.source.config if self.source else {}
        shown = (wall_time(before), before.get("timezone", "UTC"))
        return before.get("at") if shown == (self.cleaned_data["at"], self.cleaned_data["timezone"]) else None

    def row_fields(self) -> dict[str, Any]:
        return super().row_fields() | {"config": self.config()}


def wall_time(config: Mapping[str, Any]) -> str | None:
    """`at` on the schedule's own clock, to the minute; None where there is none."""
    try:
        once = parse_schedule(config).once
    except NotValid:  # such as in a zone that is gone
        return str(config.get("at") or "")[:16] or None
    return f"{once:%Y-%m-%dT%H:%M}" if once else None
