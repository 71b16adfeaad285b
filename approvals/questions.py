"""Questions to people: which forms a handler may ask them to fill in, and whether an answer fits one.

A form is a JSON schema (draft 2020-12). It is bounded, it looks nothing up outside itself, and its patterns are those a
linear engine takes, so neither the form of a careless handler nor an answer can hold the desk up.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from approvals.answer_forms import check_drawable
from approvals.errors import NotValid
from approvals.frozen import storable

LARGEST_FORM = 16 * 1024  # characters of its JSON
LARGEST_ANSWER = 64 * 1024
DEEPEST = 16  # levels of a form or an answer
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
NAMES = ("$id", "$anchor", "$dynamicAnchor")  # with these, a reference would mean something else
INSIDE = "#/$defs/"
PLAIN = re.compile(r"[\w.-]+")  # letters, digits, _ . -
FREE_TEXT: dict[str, Any] = {"type": "string", "format": "multi-line", "minLength": 1, "maxLength": 10_000}
PATTERNS = jsonschema_rs.RegexOptions(size_limit=256 * 1024, dfa_size_limit=1024 * 1024)


class BadForm(ValueError):
    """This is no form that people can be asked to fill in."""


def check_form(form: Any) -> None:
    """Raises BadForm with the reason."""
    if not isinstance(form, dict):
        raise BadForm("a form is a JSON schema, an object")
    if size(form) > LARGEST_FORM:
        raise BadForm(f"a form has at most {LARGEST_FORM} characters and {DEEPEST} levels")
    shared = form.get("$defs")
    if any(name in part for part in objects(shared) for name in REFERENCES):
        raise BadForm("what stands under `$defs` may not refer to anything")
    for part in objects(form):
        if any(name in part for name in NAMES):
            raise BadForm("a form and its parts have no names of their own")
        refers = [part[name] for name in REFERENCES if name in part]
        if not all(is_shared(target, shared) for target in refers):
            raise BadForm(f"a form refers to nothing but the objects of its own `{INSIDE}<name>`")
    validator(form)
    for part in objects(form):
        check_part(part)
    try:
        check_drawable(form)
    except NotValid as problem:
        raise BadForm(problem.detail) from None


def is_shared(target: Any, shared: Any) -> bool:
    """Does it name one object under `$defs`, by a name that stands for itself in a reference?"""
    name = target.removeprefix(INSIDE) if isinstance(target, str) and target.startswith(INSIDE) else ""
    return bool(PLAIN.fullmatch(name)) and isinstance(shared, dict) and isinstance(shared.get(name), dict)


def check_part(part: dict[str, Any]) -> None:
    """What a page needs to draw it: members with plain names, each described by an object."""
    members, some = part.get("properties", {}), part.get("anyOf")
    if not isinstance(members, dict) or not all(name.replace("-", "_").isidentifier() for name in members):
        raise BadForm("a member's name is made of letters, digits, - and _")
    inner = [*members.values(), *(some if isinstance(some, list) else []), part.get("items", {})]
    if not all(isinstance(each, dict) for each in inner):
        raise BadForm("each member is described by an object")


def validator(form: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    try:
        return jsonschema_rs.Draft202012Validator(
            form, validate_formats=True, ignore_unknown_formats=True, offline=True, pattern_options=PATTERNS
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise BadForm(f"this is no JSON schema: {str(error).splitlines()[0][:200]}") from None


def check_answer(form: dict[str, Any], answer: Any) -> None:
    """Raises NotValid naming the field, as `answer` or `answer.name`."""
    if answer is None:
        raise NotValid("The question needs an answer.", field="answer")
    if size(answer) > LARGEST_ANSWER:
        raise NotValid(f"An answer has at most {LARGEST_ANSWER} characters and {DEEPEST} levels.", field="answer")
    if storable(answer) != answer:
        raise NotValid("The answer holds a character that cannot be stored.", field="answer")
    first = next(validator(form).iter_errors(answer), None)
    if first is not None:
        words = "an answer is needed" if first.kind.name == "required" else first.message[:500]
        raise NotValid(f"{place_of(first)}: {words}", field=place_of(first))


def place_of(error: jsonschema_rs.ValidationError) -> str:
    """Where in the answer it is; a member that is missing is named itself."""
    missing = [error.kind.as_dict()["property"]] if error.kind.name == "required" else []
    return ".".join(["answer", *(str(part) for part in [*error.instance_path, *missing])])


def size(value: Any, depth: int = 0) -> int:
    """Roughly the characters of its JSON; more than any limit when it is too deep or no JSON at all."""
    if depth > DEEPEST:
        return LARGEST_ANSWER + 1
    if isinstance(value, dict):
        return 2 + sum(4 + len(str(name)) + size(part, depth + 1) for name, part in value.items())
    if isinstance(value, list | tuple):
        return 2 + sum(1 + size(part, depth + 1) for part in value)
    if isinstance(value, float) and not math.isfinite(value):
        return LARGEST_ANSWER + 1
    return len(str(value)) if isinstance(value, int | float | str | bool | None) else LARGEST_ANSWER + 1


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside `value`, itself included."""
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(part)
