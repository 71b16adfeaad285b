"""The form of a trigger: when which event comes, which handler starts, and how it runs."""

from typing import Any

from django import forms

from project.lib.language import later, phrase
from triggers import registry
from triggers.envelope import INNER
from triggers.forms import limits
from triggers.forms.fields import MONO, CodeField, ObjectField, ShortNameField
from triggers.forms.limits import LimitsForm
from triggers.forms.source import KINDS
from triggers.limits import Limits
from triggers.models import Source, Trigger

USUAL = Limits()
MAKE = "new:"  # before the kind of a source that is made with the trigger
INSIDE = {"/approvals": "what people decided", "/nightdesk": "what the desk says of itself"}


class TriggerForm(LimitsForm):
    """Everything of a trigger but its switch; `version` is what was read."""

    places = {**LimitsForm.places, "limits": "timeout"}

    source = forms.ChoiceField(label="Source")
    type_pattern = forms.CharField(
        label="Type",
        max_length=255,
        help_text="Words between dots; * is one word, ** any number: github.issues.*",
        widget=forms.TextInput(attrs={**MONO, "list": "known-types"}),
    )
    filter = CodeField(
        label="Only if",
        required=False,
        max_length=2000,
        help_text='A CEL expression over event and headers, as event.data.ref == "refs/heads/main". Empty: always.',
        widget=forms.Textarea(attrs={"rows": 3, **MONO}),
    )
    handler = forms.ChoiceField(label="Handler")
    config = ObjectField(
        label="Config of the handler", required=False, help_text="A JSON object the handler reads as run.config."
    )
    timeout = forms.FloatField(label="Time limit of a try", min_value=1, max_value=7 * 86400, help_text="Seconds.")
    retries = forms.IntegerField(
        label="Tries after a failure", min_value=0, max_value=100, help_text="With growing pauses."
    )
    mode = forms.ChoiceField(
        label="Mode",
        choices=(("live", later("Live: runs start at once")), ("paused", later("Paused: runs are queued and wait"))),
    )
    priority = forms.IntegerField(label="Priority", min_value=0, max_value=9, help_text="0 goes first, 9 last.")
    name = forms.CharField(label="Name", max_length=200, required=False)
    slug = ShortNameField()
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(
        self, data: Any = None, *, trigger: Trigger | None = None, initial: dict[str, Any] | None = None
    ) -> None:
        self.trigger = trigger
        super().__init__(data, initial=of_trigger(trigger) if trigger else {**NEW, **(initial or {})})
        self.choices_of("source", source_choices(), trigger.source if trigger else "")
        self.choices_of(
            "handler", [(phrase("Code that is loaded"), handler_choices())], trigger.handler if trigger else ""
        )
        if trigger:
            del self.fields["slug"]
        if self.model is not None:
            del self.fields["config"]  # it has a form of its own

    def choices_of(self, name: str, groups: list[tuple[str, list[tuple[str, str]]]], chosen: str) -> None:
        """What can be picked; what a row holds stays pickable even when it is gone."""
        known = {value for _, choices in groups for value, _ in choices}
        gone = [(chosen, f"{chosen} (not there any more)")] if chosen and chosen not in known else []
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [*gone, *groups]

    @property
    def chosen_source(self) -> str:
        return str(self["source"].value() or "")

    @property
    def chosen_handler(self) -> str:
        """A list that was not touched shows its first line."""
        return str(self["handler"].value() or next(iter(sorted(registry.HANDLERS)), ""))

    @property
    def model(self) -> Any:
        """The model of the chosen handler's config; None when it takes any object."""
        code = registry.HANDLERS.get(self.chosen_handler)
        return code.config if code else None

    def row_fields(self) -> dict[str, Any]:
        """The cleaned values as the row stores them."""
        clean = self.cleaned_data
        plain = ("source", "type_pattern", "filter", "handler", "config", "mode", "priority")
        name = clean["name"] or (self.trigger.slug if self.trigger else clean["slug"])
        return {"name": name, **{key: clean[key] for key in plain if key in clean}, "limits": self.limits()}

    def limits(self) -> dict[str, Any]:
        """What is said here, and what is stored of the retries."""
        before = self.trigger.flow if self.trigger else USUAL
        retries = before.retries.model_copy(update={"max": self.cleaned_data["retries"]}).model_dump()
        lifted = {"concurrency": None} if self.trigger else {}  # a new one has what its source is given from the start
        return {"timeout": self.cleaned_data["timeout"], "retries": retries, **lifted, **self.flow()}


NEW = {
    **limits.NEW,
    "type_pattern": "**",
    "timeout": limits.plain(USUAL.timeout),
    "retries": USUAL.retries.max,
    "mode": "live",
    "priority": 5,
}


def of_trigger(trigger: Trigger) -> dict[str, Any]:
    """A trigger as the form shows it."""
    plain = ("source", "type_pattern", "filter", "handler", "config", "mode", "priority", "name", "version")
    return {
        **{name: getattr(trigger, name) for name in plain},
        **limits.of_limits(trigger.limits),
        "timeout": limits.plain(trigger.flow.timeout),
        "retries": trigger.flow.retries.max,
    }


def source_choices() -> list[tuple[str, list[tuple[str, str]]]]:
    rows = Source.objects.kept().order_by("slug").values_list("slug", "name")
    there = [(slug, f"{slug}: {name}" if name and name != slug else slug) for slug, name in rows]
    fresh = [(f"{MAKE}{kind}", f"A new source: {look[1]}") for kind, look in KINDS.items()]
    inside = [*((name, f"{name}: {INSIDE[name]}") for name in INNER), ("*", "* every source")]
    return [("There already", there), ("Made here", fresh), ("Inside the desk", inside)]


def handler_choices() -> list[tuple[str, str]]:
    return [(name, f"{name} (version {code.version})") for name, code in sorted(registry.HANDLERS.items())]
