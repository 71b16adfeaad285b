"""What data looks like: figures of many values, the JSON schema they give, and how one value differs from it. Pure.

A figure is `{"n", "types": {type: n}, "props"?: {name: figure}, "items"?: figure, "values"?: {text: n}}`; it only
grows, so it can be told at any time which members were always there, and which texts come from a small set."""

import re
from collections.abc import Iterator
from typing import Any

Shape = dict[str, Any]
Schema = dict[str, Any]

DEEPEST = 8  # levels that are looked into
MOST_MEMBERS = 80  # of one object; with more its names are data themselves
MOST_PARTS = 600  # figures of one type
MOST_ITEMS = 20  # of one list that are looked at
MOST_VALUES = 8  # texts of one place that may be a set
LONGEST_VALUE = 40  # characters of such a text
OF_PEOPLE = re.compile(r"@|\d{6}")  # an address, a number: whoever is named so is no member of a set
SURE = 5  # times each text must have come on average before they are called a set
QUOTING = ("enum", "const", "default", "examples")  # words of a schema that hold values
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def type_name(value: Any) -> str:
    """In the words of JSON schema; a whole number is an integer."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def grow(shape: Shape, value: Any, depth: int = 0) -> Shape:
    """`shape` with one more value counted in; it is changed in place."""
    kind = type_name(value)
    shape["n"] = shape.get("n", 0) + 1
    types = shape.setdefault("types", {})
    types[kind] = types.get(kind, 0) + 1
    if kind == "string":
        note_text(shape, value)
    elif kind == "object" and depth < DEEPEST:
        grow_members(shape, value, depth)
    elif kind == "array" and depth < DEEPEST:
        items = shape.setdefault("items", {})
        for item in value[:MOST_ITEMS]:
            grow(items, item, depth + 1)
    return shape


def note_text(shape: Shape, text: str) -> None:
    values = shape.setdefault("values", {})
    if values is None:
        return
    values[text] = values.get(text, 0) + 1
    if len(values) > MOST_VALUES or len(text) > LONGEST_VALUE or OF_PEOPLE.search(text):
        shape["values"] = None  # any text at all


def grow_members(shape: Shape, value: dict[str, Any], depth: int) -> None:
    members = shape.setdefault("props", {})
    if members is None:
        return
    for name, item in value.items():
        grow(members.setdefault(name, {}), item, depth + 1)
        if len(members) > MOST_MEMBERS:
            shape["props"] = None  # its names are data: ids, dates, languages
            return


def trimmed(shape: Shape) -> Shape:
    """`shape` with at most MOST_PARTS figures: the deepest ones go first."""
    for depth in range(DEEPEST, 0, -1):
        if sum(1 for _ in parts(shape)) <= MOST_PARTS:
            break
        cut(shape, depth)
    return shape


def parts(shape: Shape) -> Iterator[Shape]:
    yield shape
    for inner in inside(shape):
        yield from parts(inner)


def inside(shape: Shape) -> Iterator[Shape]:
    yield from (shape.get("props") or {}).values()
    if shape.get("items"):
        yield shape["items"]


def cut(shape: Shape, depth: int) -> None:
    if depth == 0:
        shape.pop("items", None)
        if "props" in shape:
            shape["props"] = None
        return
    for inner in inside(shape):
        cut(inner, depth - 1)


def schema_of(shape: Shape) -> Schema:
    """The JSON schema (draft 2020-12) that all values of `shape` fit. Formats are not guessed."""
    return {"$schema": DIALECT, **part_of(shape)} if shape.get("n") else {}


def part_of(shape: Shape) -> Schema:
    types = dict(shape["types"])
    if "number" in types:
        types.pop("integer", None)  # a whole number is one, too
    part: Schema = {"type": next(iter(types)) if len(types) == 1 else sorted(types)}
    if "object" in types and shape.get("props"):
        members = shape["props"]
        part["properties"] = {name: part_of(inner) for name, inner in sorted(members.items())}
        always = sorted(name for name, inner in members.items() if inner["n"] == types["object"])
        if always:
            part["required"] = always
    if "array" in types and shape.get("items", {}).get("n"):
        part["items"] = part_of(shape["items"])
    if list(types) == ["string"] and is_set(shape):
        part["enum"] = sorted(shape["values"])
    return part


def without_values(schema: Any) -> Any:
    """The schema without the texts that came: for those who may not see payloads."""
    if isinstance(schema, list):
        return [without_values(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: without_values(part) for name, part in schema.items() if name not in QUOTING or isinstance(part, dict)
    }


def is_set(shape: Shape) -> bool:
    """Whether its texts come from a small set, and each often enough to believe that."""
    values = shape.get("values") or {}
    return bool(values) and shape["n"] >= SURE * len(values) and shape["n"] >= 2 * SURE


def unknown_members(schema: Schema, value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Members of `value` that `schema` does not speak of: their paths and values. A list's items share one path."""
    if isinstance(value, dict) and isinstance(members := schema.get("properties"), dict):
        for name, item in value.items():
            if name not in members:
                yield (*path, name), item
            elif isinstance(members[name], dict):
                yield from unknown_members(members[name], item, (*path, name))
    elif isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        for item in value[:MOST_ITEMS]:
            yield from unknown_members(items, item, (*path, "[]"))
