"""The form of one rule, and three rules to begin with."""

from itertools import chain, count
from typing import Any

from django import forms

from approvals.errors import NotValid
from approvals.first_rule import NAMED, RULE
from approvals.models import PolicyRule
from approvals.rule_words import read_window, window_words
from project.lib.language import later, words
from project.people import roles
from triggers.forms.fields import MONO, DeskForm, LinesField, ShortNameField

EFFECTS = (
    ("require", later("Ask people")),
    ("deny", later("Deny: it never happens, nobody is asked")),
    ("allow", later("Do it at once, tell people afterwards")),
)
TIERS = (
    ("", later("Usual for the effect")),
    ("medium", later("Medium: a reviewer")),
    ("high", later("High: fresh sign-in and a reason")),
)
NUMBERS = ("quorum", "rejections", "expires", "hold", "escalate_after")  # that may be left empty
EXAMPLES: dict[str, dict[str, Any]] = {
    NAMED: {"words": words("A reviewer decides what is high and no other rule names people for."), **RULE},
    "two-for-refunds": {
        "words": words("Refunds of more than 500.00, or of the whole charge, need two people."),
        "when": 'action.kind == "stripe.refund" && (!has(action.arguments.amount) || action.arguments.amount > 50000)',
        "effect": "require",
        "tier": "high",
        "reviewers": [roles.REVIEWER],
        "quorum": 2,
    },
    "no-deletes": {
        "words": words("No agent deletes anything by a plain HTTP call."),
        "when": 'action.kind == "http.request" && action.arguments.method == "DELETE"',
        "effect": "deny",
    },
    "comments-can-be-undone": {
        "words": words("Comments wait five minutes before they go out, so that people can undo them."),
        "when": 'action.kind == "github.comment"',
        "effect": "allow",
        "hold": 300,
    },
    "mail-in-office-hours": {
        "words": words("Mails go out from Monday to Friday, nine to five; what is approved at night waits."),
        "when": 'action.kind == "email.send"',
        "effect": "require",
        "windows": [{"days": ["mon", "tue", "wed", "thu", "fri"], "from": "09:00", "to": "17:00"}],
    },
}


def free_name(slug: str) -> str:
    """The name, or the next one that no rule has or had."""
    known = set(PolicyRule.objects.filter(slug__startswith=slug).values_list("slug", flat=True))
    return next(name for name in chain([slug], (f"{slug}-{number}" for number in count(2))) if name not in known)


class WindowsField(LinesField):
    """Change windows, one a line: `mon-fri 09:00-17:00`."""

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(window_words, value)) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        lines = [line for line in str(value or "").splitlines() if line.strip()]
        try:
            return [read_window(line) for line in lines]
        except NotValid as refused:
            raise forms.ValidationError(refused.detail) from refused


class PolicyForm(DeskForm):
    """Everything of a rule; `version` is what was read."""

    when = forms.CharField(
        label="Which actions",
        max_length=2000,
        help_text="A CEL expression over action, event, run and time. Begin with the kind.",
        widget=forms.Textarea(attrs={"rows": 3, **MONO}),
    )
    effect = forms.ChoiceField(label="What happens", choices=EFFECTS)
    tier = forms.ChoiceField(label="Risk", choices=TIERS, required=False)
    reviewers = LinesField(
        label="Who may decide",
        required=False,
        help_text="Roles or teams, one a line. Empty: any reviewer, and nobody for what is high.",
    )
    quorum = forms.IntegerField(label="How many people", min_value=0, max_value=20, required=False)
    rejections = forms.IntegerField(
        label="How many must say no",
        min_value=0,
        max_value=20,
        required=False,
        help_text="Until so many have, it waits on. Empty: one no ends it.",
    )
    four_eyes = forms.BooleanField(label="Who owns or lately changed the trigger has asked for it too", required=False)
    otherwise = forms.BooleanField(
        label="Only name these people, for what is of this risk and no other rule names anybody for", required=False
    )
    expires = forms.IntegerField(
        label="Time to decide", min_value=0, required=False, help_text="Seconds at most. Empty: a day."
    )
    escalate_after = forms.IntegerField(
        label="Ask the next after",
        min_value=0,
        required=False,
        help_text="Seconds. The first who may decide is told at once, each next one so much later. Empty: all at once.",
    )
    windows = WindowsField(
        label="Only start", required=False, help_text="One a line: mon-fri 09:00-17:00. Empty: at any time."
    )
    zone = forms.CharField(label="Time zone", max_length=64, widget=forms.TextInput(attrs={**MONO, "list": "zones"}))
    hold = forms.IntegerField(
        label="Hold it for",
        min_value=0,
        required=False,
        help_text="Seconds before what is let through happens, in which people can undo it. Empty: none.",
    )
    order = forms.IntegerField(label="Order", min_value=0, max_value=10_000, help_text="Where it stands in the list.")
    slug = ShortNameField()
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, data: Any = None, *, rule: PolicyRule | None = None, initial: dict[str, Any] | None = None):
        given = {"effect": "require", "zone": "UTC", "order": 100, **(initial or {})}
        if rule is not None:
            given = {name: getattr(rule, name) for name in self.base_fields}
            given |= {name: getattr(rule, name) or None for name in NUMBERS}
        super().__init__(data, initial=given)
        if rule is not None:
            del self.fields["slug"]

    def row_fields(self) -> dict[str, Any]:
        """As the door takes them."""
        own = {name: value for name, value in self.cleaned_data.items() if name not in ("slug", "version")}
        return own | {name: own[name] or 0 for name in NUMBERS}
