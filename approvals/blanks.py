"""The blanks of a question's form as a page draws them, and what was typed into them, as JSON again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from approvals.errors import NotValid

ONE_LINE = 200  # characters a text may have before it gets more than one line
INPUTS = {"date": "date", "email": "email", "time": "time", "uri": "url"}  # format -> type of the input
ABSENT = object()  # nothing was typed


@dataclass(frozen=True, slots=True)
class Blank:
    """One thing to fill in. `look` is line, lines, number, choice or json; `name` is that of the posted value."""

    name: str
    label: str
    help: str
    needed: bool
    look: str
    schema: dict[str, Any]
    typed: str = ""

    @property
    def choices(self) -> list[tuple[str, str]]:
        """`(posted value, words)`; values go by their place, so that 1 and "1" stay apart."""
        if self.schema.get("type") == "boolean":
            return [("true", "Yes"), ("false", "No")]
        return [(str(at), str(value)) for at, value in enumerate(self.schema.get("enum", []))]

    @property
    def input(self) -> str:
        return INPUTS.get(str(self.schema.get("format")), "text")

    @property
    def most(self) -> int | None:
        most = self.schema.get("maxLength")
        return most if isinstance(most, int) else None

    @property
    def step(self) -> str:
        return "1" if self.schema.get("type") == "integer" else "any"


def blanks(form: dict[str, Any], typed: Mapping[str, Any] | None = None) -> list[Blank]:
    """One a member of an object, else one in all; `typed` is what was posted before and is shown again."""
    given = typed or {}
    if not is_object(form):
        return [blank("answer", "Answer", form, form, needed=True, typed=given)]
    needed = form.get("required", [])
    members = form.get("properties", {}).items()
    return [blank(f"answer.{name}", name, part, form, needed=name in needed, typed=given) for name, part in members]


def is_object(form: dict[str, Any]) -> bool:
    """Can each member be drawn on its own?"""
    members = form.get("properties")
    return form.get("type") == "object" and isinstance(members, dict) and bool(members)


def blank(name: str, label: str, schema: Any, form: dict[str, Any], *, needed: bool, typed: Mapping[str, Any]) -> Blank:
    part = resolved(schema, form)
    default = part.get("default")
    shown = default if isinstance(default, str) else "" if default is None else json.dumps(default)
    return Blank(
        name=name,
        label=str(part.get("title") or label),
        help=str(part.get("description") or ""),
        needed=needed,
        look=look_of(part),
        schema=part,
        typed=str(typed.get(name, place_in(part, default, shown))),
    )


def resolved(schema: Any, form: dict[str, Any]) -> dict[str, Any]:
    """The schema itself, or the one of the form's `$defs` it refers to; `true` and `false` say nothing of a look."""
    if not isinstance(schema, dict):
        return {}
    shared = form.get("$defs", {}).get(str(schema.get("$ref", "")).rpartition("/")[2])
    return {**shared, **schema} if isinstance(shared, dict) else schema


def place_in(part: dict[str, Any], default: Any, shown: str) -> str:
    """A default among choices is posted as its place."""
    choices = part.get("enum")
    if isinstance(choices, list):
        return str(choices.index(default)) if default in choices else ""
    return shown


def look_of(part: dict[str, Any]) -> str:
    if isinstance(part.get("enum"), list) or part.get("type") == "boolean":
        return "choice"
    if part.get("type") in ("integer", "number"):
        return "number"
    if part.get("type") != "string":
        return "json"
    return "lines" if part.get("format") == "multi-line" or part.get("maxLength", 0) > ONE_LINE else "line"


def read_answer(form: dict[str, Any], posted: Mapping[str, Any]) -> Any:
    """The answer as JSON; what was left empty is absent. Raises NotValid naming a blank that cannot be read."""
    values = {each.name: read(each, str(posted.get(each.name, ""))) for each in blanks(form)}
    if not is_object(form):
        return None if values["answer"] is ABSENT else values["answer"]
    return {name.removeprefix("answer."): value for name, value in values.items() if value is not ABSENT}


def read(blank: Blank, text: str) -> Any:
    """One typed value. Line ends come as browsers send them and leave as one character."""
    text = text.replace("\r\n", "\n")
    if not text.strip():
        return ABSENT
    try:
        if blank.look == "choice" and "enum" in blank.schema:
            return dict(enumerate(blank.schema["enum"]))[int(text)]
        if blank.look in ("choice", "number", "json"):
            return json.loads(text, parse_constant=int)  # which refuses NaN and its kin
    except (ValueError, KeyError, RecursionError):
        raise NotValid(f"{blank.name}: {WANTED[blank.look]}", field=blank.name) from None
    return text


WANTED = {"choice": "choose one of the answers", "number": "write a number", "json": "write JSON"}
