"""The form of a question as people fill it in on its card, and the answer they typed."""

from collections.abc import Mapping
from typing import Any

from approvals.argument_forms import Form, every
from approvals.errors import NotValid

ORDER = "x-order"  # names of the members as people shall read them
CANNOT = (ValueError, TypeError, LookupError, AttributeError, RecursionError)  # what odd schemas end in


class OneEach(dict[str, str]):
    """A form in which one entry was added to every list, and nothing typed."""

    def get(self, name: str, default: Any = None) -> Any:
        return "1" if name.endswith(".count") else default


def check_drawable(schema: dict[str, Any]) -> None:
    """Raises NotValid for a form that has no page, or whose page nothing can be read from."""
    for posted in (None, OneEach()):
        form = answer_form(schema, posted)
        try:
            form.read()
        except CANNOT:
            raise NotValid("No answer can be read from this form.", field="form") from None


def answer_form(schema: dict[str, Any], posted: Mapping[str, str] | None = None) -> Form:
    """The slots of the answer; what was posted before stands in them again. Raises NotValid when no page shows them."""
    try:
        form = slots_of(schema, posted)
        for slot in every(form.slots):  # as the page does
            _ = (slot.label, slot.help, slot.choices, slot.rows)
    except CANNOT:
        raise NotValid("No page can be made of this form.", field="form") from None
    return form


def slots_of(schema: dict[str, Any], posted: Mapping[str, str] | None) -> Form:
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
