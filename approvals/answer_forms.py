"""The form of a question as people fill it in on its card, and the answer they typed."""

from collections.abc import Mapping
from typing import Any

from approvals.argument_forms import Form
from approvals.errors import NotValid
from approvals.questions import ORDER


def answer_form(schema: dict[str, Any], posted: Mapping[str, str] | None = None) -> Form:
    """The slots of the answer; what was posted before stands in them again."""
    whole = {"properties": {"answer": ordered(schema)}, "required": ["answer"], "$defs": schema.get("$defs", {})}
    begun: dict[str, Any] = {"answer": {}} if schema.get("type") == "object" and schema.get("properties") else {}
    return Form(whole, begun, posted)


def ordered(schema: dict[str, Any]) -> dict[str, Any]:
    """The members in the handler's order; those it does not name follow."""
    members, first = schema.get("properties", {}), schema.get(ORDER)
    names = [name for name in first if isinstance(name, str) and name in members] if isinstance(first, list) else []
    return {**schema, "properties": {name: members[name] for name in dict.fromkeys([*names, *members])}}


def read_answer(form: Form) -> Any:
    """The answer as JSON, None when nothing was typed. Raises NotValid naming what cannot be read."""
    answer = form.read().get("answer")
    if form.errors:
        raise NotValid(form.errors[0], field=form.errors[0].partition(":")[0])
    return answer
