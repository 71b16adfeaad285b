"""A handler's config as a typed form, made from its pydantic model: a field a member, JSON where no field fits."""

import json
import types
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from django import forms
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from project.lib.faults import faults
from triggers.forms.fields import MONO, DeskForm, LinesField, read_json

EXACT_TO = 2**53  # whole numbers below it are the same in every reader of JSON
WORDS: dict[Any, str] = {str: "text", int: "whole number", float: "number", Decimal: "number", bool: "yes or no"}


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a config as people read it; `kind` is its type without None."""

    name: str
    label: str
    kind: Any
    optional: bool  # may be nothing
    needed: bool
    default: Any
    help: str
    is_long: bool  # a text of several lines

    @classmethod
    def of(cls, name: str, info: FieldInfo) -> "Member":
        kind, optional = without_none(info.annotation)
        needed, own = info.is_required(), not info.default_factory_takes_validated_data
        default = info.get_default(call_default_factory=True) if own and not needed else None
        label = info.title or name.replace("_", " ").capitalize()
        return cls(name, label, kind, optional, needed, plain(default), info.description or "", is_long(info))

    @property
    def words(self) -> str:
        """Its type, for people."""
        if choices := choices_of(self.kind):
            return "one of " + ", ".join(str(choice) for choice in choices)
        return "list of texts" if is_words(self.kind) else WORDS.get(self.kind, "JSON")

    @property
    def default_words(self) -> str:
        return "" if self.needed else json.dumps(self.default, ensure_ascii=False, default=str)


def members_of(model: type[BaseModel] | None) -> list[Member]:
    """The members of a config in the order they were written."""
    return [Member.of(name, info) for name, info in model.model_fields.items()] if model else []


def is_long(info: FieldInfo) -> bool:
    return isinstance(info.json_schema_extra, dict) and info.json_schema_extra.get("format") == "multi-line"


def without_none(annotation: Any) -> tuple[Any, bool]:
    """`int | None` is (int, True)."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation, False
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    return (kinds[0] if len(kinds) == 1 else annotation), len(kinds) < len(get_args(annotation))


def choices_of(kind: Any) -> list[Any]:
    """The values of a Literal or an Enum."""
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [member.value for member in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def is_words(kind: Any) -> bool:
    return get_origin(kind) is list and get_args(kind) == (str,)


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Decimal):
        return number_of(value)
    return value.value if isinstance(value, Enum) else value


def number_of(value: Decimal) -> int | float | str:
    """A decimal as JSON has it: a number where that says exactly the same, else a text."""
    near = float(value)
    if Decimal(repr(near)) != value:
        return str(value)
    return int(near) if near.is_integer() and abs(near) < EXACT_TO else near


class JsonField(forms.CharField):
    """Any JSON value; an empty field says nothing."""

    widget = forms.Textarea(attrs={"rows": 3, **MONO})

    def prepare_value(self, value: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)

    def to_python(self, value: Any) -> Any:
        text = str(value or "").strip()
        return read_json(text) if text else None


FIELDS: dict[Any, Callable[..., forms.Field]] = {
    str: forms.CharField,
    int: forms.IntegerField,
    float: forms.FloatField,
    Decimal: forms.DecimalField,
}


def field_of(member: Member) -> forms.Field:
    """How a member is typed; what it may be is asked of the model, not said twice here."""
    shared: dict[str, Any] = {"label": member.label, "help_text": member.help, "required": False}
    if choices := choices_of(member.kind):
        known = {str(choice): choice for choice in choices}
        empty = [] if member.needed and not member.optional else [("", "—")]
        options = [*empty, *((text, text) for text in known)]
        return forms.TypedChoiceField(choices=options, coerce=known.__getitem__, empty_value=None, **shared)
    if member.kind is bool and not member.optional:
        return forms.BooleanField(**shared)
    if is_words(member.kind):
        return LinesField(**shared)
    if member.is_long:
        return forms.CharField(widget=forms.Textarea(attrs={"rows": 8}), **shared)
    return FIELDS.get(member.kind, JsonField)(**shared)


class ConfigForm(DeskForm):
    """The fields of one model. What says the same as its default is not stored: it follows the code if that changes."""

    prefix = "config"

    def __init__(self, model: type[BaseModel], data: Any = None, *, config: dict[str, Any] | None = None) -> None:
        self.model = model
        self.members = members_of(model)
        told = config or {}
        super().__init__(data, initial={member.name: told.get(member.name, member.default) for member in self.members})
        self.fields.update({member.name: field_of(member) for member in self.members})

    def clean(self) -> dict[str, Any]:
        """Every sentence of the model beside the member it is about."""
        clean = super().clean() or {}
        for name, said in wrong_in(self.model, self.config()).items():
            if name not in self.errors:
                self.add_error(name or None, said)
        return clean

    def config(self) -> dict[str, Any]:
        """What was typed, as the trigger stores it."""
        config = {}
        for member in self.members:
            value = plain(self.cleaned_data.get(member.name))
            empty = value is None or (value == "" and (member.optional or member.needed))
            if not empty and (member.needed or value != member.default):
                config[member.name] = value
            elif empty and member.optional and member.default is not None:
                config[member.name] = None
        return config


def wrong_in(model: type[BaseModel], config: dict[str, Any]) -> dict[str, str]:
    """What the model says of a config: `{member: sentence}`; "" for what concerns it as a whole."""
    try:
        model.model_validate(config)
    except ValidationError as error:
        found: dict[str, str] = {}
        for place, said in faults(error):
            name, *inside = [str(part) for part in place] or [""]
            member = name if name in model.model_fields else ""
            found.setdefault(member, f"{'.'.join(inside)}: {said}" if inside else said)
        return found
    return {}
