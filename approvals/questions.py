"""Questions to people: which forms a handler may ask them to fill in, and whether an answer fits one.

A form is a JSON schema (draft 2020-12). It is bounded, it looks nothing up outside itself, and its patterns are those a
linear engine takes, so neither the form of a careless handler nor an answer can hold the desk up.
"""

from typing import Any

from approvals.answer_forms import check_drawable
from approvals.errors import NotValid
from approvals.frozen import storable
from project.lib import json_schema

LARGEST_FORM = 16 * 1024  # characters of its JSON
LARGEST_ANSWER = 64 * 1024
DEEPEST = 16  # levels of a form or an answer
FREE_TEXT: dict[str, Any] = {"type": "string", "format": "multi-line", "minLength": 1, "maxLength": 10_000}


class BadForm(ValueError):
    """This is no form that people can be asked to fill in."""


def check_form(form: Any) -> None:
    """Raises BadForm with the reason."""
    if not isinstance(form, dict):
        raise BadForm("a form is a JSON schema, an object")
    if size(form) > LARGEST_FORM:
        raise BadForm(f"a form has at most {LARGEST_FORM} characters and {DEEPEST} levels")
    try:
        json_schema.check_references(form, called="form")
        json_schema.validator(form)
    except json_schema.BadSchema as refused:
        raise BadForm(str(refused)) from None
    for part in json_schema.objects(form):
        check_part(part)
    try:
        check_drawable(form)
    except NotValid as problem:
        raise BadForm(problem.detail) from None


def check_part(part: dict[str, Any]) -> None:
    """What a page needs to draw it: members with plain names, each described by an object."""
    members, some = part.get("properties", {}), part.get("anyOf")
    if not isinstance(members, dict) or not all(name.replace("-", "_").isidentifier() for name in members):
        raise BadForm("a member's name is made of letters, digits, - and _")
    inner = [*members.values(), *(some if isinstance(some, list) else []), part.get("items", {})]
    if not all(isinstance(each, dict) for each in inner):
        raise BadForm("each member is described by an object")


def check_answer(form: dict[str, Any], answer: Any) -> None:
    """Raises NotValid naming the field, as `answer` or `answer.name`."""
    if answer is None:
        raise NotValid("The question needs an answer.", field="answer")
    if size(answer) > LARGEST_ANSWER:
        raise NotValid(f"An answer has at most {LARGEST_ANSWER} characters and {DEEPEST} levels.", field="answer")
    if storable(answer) != answer:
        raise NotValid("The answer holds a character that cannot be stored.", field="answer")
    first = next(json_schema.validator(form).iter_errors(answer), None)
    if first is not None:
        words = "an answer is needed" if first.kind.name == "required" else first.message[:500]
        place = json_schema.place_of(first, "answer")
        raise NotValid(f"{place}: {words}", field=place)


def size(value: Any) -> float:
    """Roughly the characters of its JSON; more than any limit when it is too deep or no JSON at all."""
    return json_schema.size(value, DEEPEST)
