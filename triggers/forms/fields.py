"""What the forms of the desk share: lists typed one a line, JSON objects, refusals put beside their field."""

import json
from dataclasses import dataclass
from typing import Any

from django import forms

from project.lib import strict_json
from project.lib.language import words
from project.lib.problem import Problem

MONO = {"class": "mono", "spellcheck": "false", "autocapitalize": "off"}  # of a field for code, names and addresses
SLUG = r"^[a-z0-9][a-z0-9_-]*$"
SLUG_HELP = words("Short name in addresses: a-z, 0-9, - and _. It cannot be changed later.")


class ShortNameField(forms.RegexField):
    """A slug of lower-case letters, digits, `-` and `_`."""

    widget = forms.TextInput(attrs=MONO)

    def __init__(self, **named: Any) -> None:
        plain = {"label": words("Short name"), "max_length": 64, "help_text": SLUG_HELP}
        said = {"invalid": words("A short name is made of a-z, 0-9, - and _.")}
        super().__init__(SLUG, error_messages=said, **{**plain, **named})


class CodeField(forms.CharField):
    """An expression or a template, which may have several lines: none of them is lost, and they end as in code."""

    widget = forms.Textarea(attrs={"rows": 2, **MONO})

    def to_python(self, value: Any) -> Any:
        return str(super().to_python(value)).replace("\r\n", "\n")


class LinesField(forms.CharField):
    """A list of words, one a line; commas separate too."""

    widget = forms.Textarea(attrs={"rows": 3, **MONO})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return [word.strip() for word in str(value or "").replace(",", "\n").splitlines() if word.strip()]


class ObjectField(forms.CharField):
    """A JSON object; an empty field is an empty object."""

    widget = forms.Textarea(attrs={"rows": 4, **MONO})

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return json.dumps(value, indent=2, ensure_ascii=False) if value else ""
        return value

    def to_python(self, value: Any) -> Any:
        text = str(value or "").strip()
        if not text:
            return {}
        read = read_json(text)
        if not isinstance(read, dict):
            raise forms.ValidationError("This must be a JSON object: { … }")
        return read


def read_json(text: str) -> Any:
    """What was typed as JSON; nothing passes that no database could keep."""
    try:
        return strict_json.loads(text.encode("utf-8", "surrogatepass"))
    except strict_json.NotParsable as refused:
        raise forms.ValidationError(refused.detail.replace("The body", "This", 1)) from refused


@dataclass(frozen=True, slots=True)
class Wrong:
    """A field that was refused: what it is called, and its id on the page."""

    words: str
    id: str


class DeskForm(forms.Form):
    """A form whose widgets say how they failed, to people and to screen readers."""

    places: dict[str, str] = {}  # field named in a refusal -> field of this form
    folds: dict[str, str] = {}  # field that stands in a fold of the page -> what the fold is called

    @property
    def wrong(self) -> list[Wrong]:
        """The fields that were refused, in the order of the form."""
        return [
            Wrong(" · ".join(filter(None, [self.folds.get(name), str(self[name].label)])), self[name].id_for_label)
            for name in self.fields
            if name in self.errors
        ]

    def refuse(self, problem: Problem) -> None:
        """Put a door's refusal beside the field it names."""
        named = str(problem.facts.get("field") or ("slug" if problem.code == "slug_taken" else ""))
        field = self.places.get(named) or self.places.get(named.partition(".")[0]) or named
        self.add_error(field if field in self.fields else None, problem.detail)

    def blame_only(self, *names: str) -> None:
        """Keep the errors of these fields; the others are not finished yet."""
        for name in [name for name in self.errors if name not in names]:
            del self.errors[name]

    def groups(self, *names: str) -> list[forms.BoundField]:
        return [self[name] for name in names if name in self.fields]
