"""Arguments as a typed form: one slot a member, made from their schema, and what was typed as JSON again.

What no simple field can hold is edited as JSON. A text that was not touched comes back byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from approvals.hiding import MARK
from approvals.kinds import Kind
from project.lib import strict_json
from project.lib.strict_json import NotParsable
from project.lib.visible import hidden_in

ABSENT = object()  # not given: the kind's default holds
PREFIX = "a."  # so that an argument called `reason` is not taken for the note
ONE_LINE = 2000  # characters a text may have at most, by its schema, to be typed in one line
LOOKS = {"boolean": "choice", "integer": "number", "number": "number", "string": "line"}
MOST_SLOTS = 5_000  # of one form, that nested lists cannot multiply without end
YES_NO = [("true", "Yes"), ("false", "No")]


@dataclass
class Slot:
    """One argument. `look` is line, lines, number, choice, texts, json, or with `parts` group or list."""

    name: str  # of the posted value: `a.files.0.path`
    schema: dict[str, Any]
    look: str
    needed: bool
    value: Any  # as it stands in the action
    typed: str = ""
    parts: list[Slot] = field(default_factory=list)
    dropped: bool = False
    error: str = ""

    @property
    def label(self) -> str:
        last, title = self.name.rpartition(".")[2], str(self.schema.get("title", ""))
        if last.isdecimal():
            return f"{int(last) + 1}."
        plain = last.replace("_", " ").capitalize()
        return plain if title.lower() in ("", plain.lower()) or self.look in ("group", "list") else title

    @property
    def help(self) -> str:
        if self.typed.startswith(MARK) or (self.look == "json" and MARK in self.typed):
            return f"What reads “{MARK}…” is hidden. Leave it where it is, or write another value in its place."
        words = {"texts": "One a line.", "json": "JSON."}
        return str(self.schema.get("description") or words.get(self.look, ""))

    @property
    def choices(self) -> list[tuple[str, str]]:
        given = YES_NO if self.schema.get("type") == "boolean" else [(str(each), str(each)) for each in options(self)]
        if self.needed and self.value is not ABSENT:
            return given
        return [("", "Choose one" if self.needed else "Not given"), *given]

    @property
    def unseen(self) -> list[str]:
        """Where a field holds what no field draws: each place with what stands around it."""
        return hidden_in(self.typed)

    @property
    def rows(self) -> int:
        return min(24, max(3, self.typed.count("\n") + 2))


def options(slot: Slot) -> list[Any]:
    return list(slot.schema.get("enum", [slot.schema["const"]] if "const" in slot.schema else []))


class Form:
    """The slots of a kind's arguments, or of any object by its schema; filled from them, or from what was posted."""

    def __init__(
        self, of: Kind | dict[str, Any], arguments: dict[str, Any], posted: Mapping[str, str] | None = None
    ) -> None:
        schema = of if isinstance(of, dict) else of.arguments.model_json_schema(by_alias=True)
        self.shared: dict[str, Any] = schema.get("$defs", {})
        self.posted = posted
        self.made = 0
        self.slots = self.members(schema, arguments, PREFIX)

    def members(self, schema: dict[str, Any], values: dict[str, Any], prefix: str) -> list[Slot]:
        needed, known = schema.get("required", []), schema["properties"]
        if schema.get("additionalProperties"):  # whatever else was given is edited too
            known = {**known, **{name: like(value) for name, value in values.items() if name not in known}}
        return [
            self.slot(f"{prefix}{name}", part, values.get(name, ABSENT), name in needed) for name, part in known.items()
        ]

    def slot(self, name: str, schema: dict[str, Any], value: Any, needed: bool) -> Slot:
        part = self.resolved(schema)
        self.made += 1
        made = Slot(name, part, self.look_of(part, value), needed, value)
        if made.look == "group":
            made.parts = self.members(part, value, f"{name}.")
        elif made.look == "list":
            made.parts = list(self.items(made))
        else:
            made.typed = written(made) if self.posted is None else self.posted.get(name, "")
        made.dropped = self.posted is not None and f"{name}.drop" in self.posted
        return made

    def items(self, whole: Slot) -> Iterator[Slot]:
        for at in range(self.length(whole)):
            if self.made >= MOST_SLOTS:
                whole.error = f"{whole.name.removeprefix(PREFIX)}: a form has at most {MOST_SLOTS:,} fields."
                return
            yield self.item(whole, at)

    def item(self, whole: Slot, at: int) -> Slot:
        """One object of a list; one that was added begins empty."""
        known = given(whole.value)
        values = known[at] if at < len(known) else {}
        return self.slot(f"{whole.name}.{at}", whole.schema["items"], values, needed=True)

    def length(self, whole: Slot) -> int:
        if self.posted is None:
            return len(given(whole.value))
        count = self.posted.get(f"{whole.name}.count", "")
        length = int(count) if count.isdecimal() and len(count) < 4 else 0
        return length + (self.posted.get("do") == f"add:{whole.name}")

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema a reference leads to; of “this or nothing” what it is when it is there."""
        if "$ref" in schema:
            return {**self.resolved(self.shared[schema["$ref"].rpartition("/")[2]]), **without(schema, "$ref")}
        some = [each for each in schema.get("anyOf", []) if each.get("type") != "null"]
        if len(some) == 1:
            return {**self.resolved(some[0]), **without(schema, "anyOf")}
        return schema

    def look_of(self, schema: dict[str, Any], value: Any) -> str:
        """The simplest field that holds the value unchanged."""
        if "enum" in schema or "const" in schema:
            return "choice"
        kind = str(schema.get("type"))
        if kind == "object" and "properties" in schema and isinstance(value, dict):
            return "group"
        if kind == "array":
            return self.look_of_list(self.resolved(schema.get("items", {})), given(value))
        look = LOOKS.get(kind, "json")
        long = schema.get("format") == "multi-line" or schema.get("maxLength", 0) > ONE_LINE
        return "lines" if look == "line" and (long or "\n" in str(value)) else look

    def look_of_list(self, items: dict[str, Any], values: Any) -> str:
        if items.get("type") == "object" and "properties" in items and isinstance(values, list):
            return "list"
        simple = all(isinstance(each, str) and each.strip() and "\n" not in each for each in values)
        return "texts" if items.get("type") == "string" and simple else "json"

    def read(self) -> dict[str, Any]:
        """The typed arguments; a slot that cannot be read says so in its `error`."""
        return read_group(self.slots)

    def blame(self, place: str, words: str) -> bool:
        """Write the refusal beside the innermost slot that `place` lies in; False when there is none."""
        found = innermost(self.slots, place.split("."))
        if found is not None:
            found.error = words
        return found is not None

    @property
    def errors(self) -> list[str]:
        return [each.error for each in every(self.slots) if each.error]


def like(value: Any) -> dict[str, Any]:
    """A schema for what no schema describes: a text stays a text, anything else is JSON."""
    return {"type": "string", "default": ""} if isinstance(value, str) else {}


def given(items: Any) -> Any:
    return [] if items is ABSENT else items


def without(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != name}


def every(slots: list[Slot]) -> Iterator[Slot]:
    for each in slots:
        yield each
        yield from every(each.parts)


def innermost(slots: list[Slot], place: list[str]) -> Slot | None:
    """Items that were left out are not counted: a refusal counts what was sent."""
    kept = [each for each in slots if not each.dropped]
    for at, each in enumerate(kept):
        last = each.name.rpartition(".")[2]
        if place and place[0] == (str(at) if last.isdecimal() else last):
            return innermost(each.parts, place[1:]) or each
    return None


def written(slot: Slot) -> str:
    """A value as it stands in its field."""
    if slot.value is ABSENT:
        default = slot.schema.get("default")
        return "" if default in (None, [], {}) else in_words(default, slot.look)
    return in_words(slot.value, slot.look)


def in_words(value: Any, look: str) -> str:
    if look == "texts":
        return "\n".join(value)
    if look == "json":
        return json.dumps(value, ensure_ascii=False, indent=2)
    return value if isinstance(value, str) else json.dumps(value)


def read_group(slots: list[Slot]) -> dict[str, Any]:
    values = {each.name.rpartition(".")[2]: read(each) for each in slots}
    return {name: value for name, value in values.items() if value is not ABSENT}


def read(slot: Slot) -> Any:
    """One value: as it was when nothing was typed, absent when nothing is there."""
    if slot.look == "group":
        return read_group(slot.parts)
    if slot.look == "list":
        items = [read(each) for each in slot.parts if not each.dropped]
        return items if items or slot.value is not ABSENT else ABSENT
    text = slot.typed.replace("\r\n", "\n")  # as browsers send line ends
    if text == written(slot).replace("\r\n", "\n"):
        return slot.value
    if not text.strip() and not slot.needed and slot.schema.get("default") in (None, "", [], {}):
        return ABSENT
    try:
        return READERS[slot.look](text, slot)
    except NotParsable as error:
        slot.error = f"{slot.name.removeprefix(PREFIX)}: write JSON ({error.detail})"
    except ValueError:
        slot.error = f"{slot.name.removeprefix(PREFIX)}: {WANTED[slot.look]}."
    return ABSENT


def read_number(text: str, slot: Slot) -> int | float:
    whole = slot.schema.get("type") == "integer"
    if not re.fullmatch(r"-?\d{1,40}" if whole else r"-?\d{1,40}(\.\d{1,40})?([eE][-+]?\d{1,3})?", text.strip()):
        raise ValueError
    number: int | float = json.loads(text)
    return number


def read_choice(text: str, slot: Slot) -> Any:
    known = {"true": True, "false": False} if slot.schema.get("type") == "boolean" else {}
    known |= {str(each): each for each in options(slot)}
    if text not in known:
        raise ValueError
    return known[text]


def read_json(text: str, slot: Slot) -> Any:
    return strict_json.loads(text.encode("utf-8", "surrogatepass"))


READERS: dict[str, Callable[[str, Slot], Any]] = {
    "line": lambda text, slot: text,
    "lines": lambda text, slot: text,
    "texts": lambda text, slot: [line for line in text.split("\n") if line.strip()],
    "number": read_number,
    "choice": read_choice,
    "json": read_json,
}
WANTED = {"number": "write a number", "choice": "choose one of these"}
