"""The part of a trigger's form that says how its runs are held back, in plain words; every field may stay empty."""

from typing import Any

from django import forms

from project.lib.language import later, words
from triggers.forms.fields import CodeField, DeskForm
from triggers.limits import Limits

FULL = (
    ("drop_newest", later("Drop the new event's run: the event is kept, and listed as dropped")),
    ("drop_oldest", later("Drop the run that has waited longest")),
    ("block", later("Let the sender wait: nothing is stored, the answer is 503 with Retry-After")),
)
BUSY = (
    ("queue", later("Let its run wait until one is done")),
    ("queue_one", later("Let one run wait, skip the events after it")),
    ("skip", later("Skip the event")),
    ("cancel_running", later("Cancel the older run and start this one")),
)
KEY_HELP = words("A CEL expression, as event.data.customer. Empty: for the whole trigger.")
PARTS = {  # limit of the contract -> its field here -> the member it says
    "concurrency": {
        "at_once": "limit",
        "busy": "when_busy",
        "busy_key": "key",
        "waiting_counts": "waiting_counts",
    },
    "rate_limit": {"rate": "limit", "rate_period": "period", "rate_key": "key"},
    "debounce": {"quiet": "period", "quiet_most": "max_wait", "quiet_key": "key"},
    "queue": {"queue_limit": "limit", "when_full": "when_full"},
}
LEADING = {"concurrency": "at_once", "rate_limit": "rate", "debounce": "quiet", "queue": "queue_limit"}


class KeyField(CodeField):
    def __init__(self) -> None:
        super().__init__(label="Counted apart for each", required=False, max_length=500, help_text=KEY_HELP)


def number(label: str, most: int, help_text: str = "") -> forms.IntegerField:
    return forms.IntegerField(label=label, required=False, min_value=1, max_value=most, help_text=help_text)


class LimitsForm(DeskForm):
    """What holds a trigger's runs back. The first field of each part switches it on."""

    places = {f"limits.{part}.{member}": field for part, fields in PARTS.items() for field, member in fields.items()}
    places |= {f"limits.{part}": field for part, field in LEADING.items()}
    folds = {field: "Limits" for fields in PARTS.values() for field in fields}

    at_once = number("Runs at a time", 10_000, "Empty: any number.")
    busy = forms.ChoiceField(label="When all of them are at work", choices=BUSY, required=False)
    waiting_counts = forms.BooleanField(
        label="A run that waits for a person, an event or a time counts as at work", required=False
    )
    busy_key = KeyField()
    rate = number("Runs that start", 10_000, "At most so many; the others start later. Empty: any number.")
    rate_period = number("in so many seconds", 7 * 86400)
    rate_key = KeyField()
    quiet = number(
        "Seconds without a further event",
        7 * 86400,
        "Then one run starts for all of them. Empty: a run for each event.",
    )
    quiet_most = number("but after so many seconds in any case", 7 * 86400, "Empty: ten times as long.")
    quiet_key = KeyField()
    queue_limit = number("Runs that may wait", 1_000_000, "Empty: any number.")
    when_full = forms.ChoiceField(label="When as many wait", choices=FULL, required=False)

    def flow(self) -> dict[str, Any]:
        """The parts of `limits` that this form says; one whose first field is empty is not there."""
        clean, said = self.cleaned_data, {}
        for part, fields in PARTS.items():
            if clean.get(LEADING[part]):
                values = {member: clean.get(field) for field, member in fields.items()}
                said[part] = {member: value for member, value in values.items() if value not in (None, "")}
        return said

    @property
    def is_limited(self) -> bool:
        """Whether any of it is in use, or was just refused."""
        fields = [field for part in PARTS.values() for field in part]
        return any(self[field].value() for field in LEADING.values()) or any(self[field].errors for field in fields)


def of_limits(stored: dict[str, Any]) -> dict[str, Any]:
    """Stored limits as the form shows them."""
    limits, shown = Limits.model_validate(stored), dict(NEW)
    for part, fields in PARTS.items():
        held = getattr(limits, part)
        if held is not None:
            shown |= {field: plain(getattr(held, member)) for field, member in fields.items()}
    return shown


def plain(value: Any) -> Any:
    """A number of seconds without a needless point."""
    return int(value) if isinstance(value, float) and value == int(value) else value


NEW = {"busy": "queue", "rate_period": 60, "when_full": "drop_newest"}
