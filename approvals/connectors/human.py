"""`human.question`: something only a person knows. Nothing is sent anywhere; the answer is the result."""

from datetime import timedelta
from typing import Any

from pydantic import Field, JsonValue, field_validator

from approvals.answer_forms import ORDER
from approvals.errors import Refused
from approvals.kinds import Arguments, Far, Kind, Result, facts, register
from approvals.questions import FREE_TEXT, check_form
from approvals.tiers import Tier
from project.lib.language import spoken


class Question(Arguments):
    """`form` is the JSON schema of the answer; without one it is a text."""

    question: str = Field(min_length=1, max_length=4000)
    form: dict[str, JsonValue] = FREE_TEXT

    @field_validator("form")
    @classmethod
    def can_be_filled_in(cls, form: dict[str, Any]) -> dict[str, Any]:
        check_form(form)
        return in_order(form)


def in_order(form: dict[str, Any]) -> dict[str, Any]:
    """The order in which the handler wrote the members, kept in a list: the frozen text sorts them."""
    members = form.get("properties")
    return form if not members or ORDER in form else {**form, ORDER: list(members)}


def deliver(far: Far, wish: Question, key: str) -> Result:
    raise Refused("a question is carried out by being answered")


HUMAN_QUESTION = register(
    Kind(
        name="human.question",
        system="",
        tier=Tier.MEDIUM,
        safety="natural",
        arguments=Question,
        deliver=deliver,
        form=lambda wish: wish.form,
        title=lambda wish: wish.question,
        preview=lambda wish: facts([(spoken("Question"), wish.question)]),
        pretend=lambda wish, number: {},
        take_back=timedelta(0),
        reversible="The answer is final; the handler may ask again.",
        blast_radius="only the run that asks",
    )
)
