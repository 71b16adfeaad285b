"""What only a person knows is asked: whoever may review answers, by the form, and the run gets the answer."""

from datetime import timedelta
from typing import Any

import pytest

from approvals.act import Expired, Rejected, ask
from approvals.errors import AlreadySaid, NotReviewer, NotValid
from approvals.models import Action
from approvals.questions import BadForm, check_form
from project.people import roles
from tests import builders
from tests.conftest import person
from tests.handlers import work
from tests.nodding import handling, now_of, say, settle
from triggers.errors import Permanent
from triggers.models import Event, Run

pytestmark = pytest.mark.django_db

ORDER = {
    "type": "object",
    "properties": {
        "size": {"enum": ["S", "M", "L"], "title": "Which size?"},
        "cups": {"type": "integer", "minimum": 1, "maximum": 6},
        "price": {"type": "number"},
        "gift": {"type": "boolean", "description": "Wrapped in paper."},
        "note": {"type": "string", "maxLength": 5000},
    },
    "required": ["size", "cups"],
    "additionalProperties": False,
}


def question(form: Any = None, **more: Any):
    return lambda run: ask(run, "ask", "What shall it be?", form=form, **more)


@pytest.fixture
def asked():
    """A run that has asked, with the form given by the test."""

    def begin(form: Any = None, **more: Any) -> Action:
        with handling(question(form, **more)):
            builders.run("story", **({"requester": more.pop("by")} if "by" in more else {}))
            work()
        return Action.objects.get()

    return begin


def finish(form: Any = None) -> Run:
    with handling(question(form)):
        settle()
    return Run.objects.get()


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        (None, "the blue one\nwith stripes"),
        (ORDER, {"size": "M", "cups": 2, "price": 1.5, "gift": False}),
        ({"type": "integer"}, 7),
        ({"type": "boolean"}, False),
        ({"enum": ["a", 1, None]}, 1),
        ({"type": "array", "items": {"type": "string"}}, ["a", "b"]),
        ({"$defs": {"cup": {"type": "integer", "maximum": 9}}, "$ref": "#/$defs/cup"}, 9),
    ],
)
def test_the_answer_is_the_result_of_the_run(asked, ben, form, answer):
    action = asked(form)
    assert (action.status, action.tier, action.connection) == ("awaiting", "medium", None)
    said = say(action, ben, answer=answer)
    assert (said.digest, said.revision) == (action.digest, 1), "an answer is no edit"
    assert finish(form).result == answer
    assert now_of(action).result == answer


def test_the_one_who_rang_may_answer_though_others_could(asked, ann, ben):
    with handling(question()):
        builders.run("story", requester=ann)
        work()
        action = Action.objects.get()
        assert action.asked_by(ann)
        say(action, ann, answer="I know it")
        settle()
    assert Run.objects.get().result == "I know it"


def test_only_who_may_review_answers(asked):
    with pytest.raises(NotReviewer):
        say(asked(), person("otto", roles.OPERATOR), answer="me")


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        (None, "answer"),
        ({"size": "M"}, "answer.cups"),
        ({"size": "XL", "cups": 1}, "answer.size"),
        ({"size": "M", "cups": 0}, "answer.cups"),
        ({"size": "M", "cups": 1.5}, "answer.cups"),
        ({"size": "M", "cups": 1, "more": 1}, "answer"),
        ({"size": "M", "cups": 1, "note": "a\x00b"}, "answer"),
        ({"size": "M", "cups": 1, "note": "x" * 70_000}, "answer"),
        ("M", "answer"),
    ],
)
def test_what_does_not_fit_the_form_is_refused_by_its_field(asked, ben, answer, field):
    action = asked(ORDER)
    with pytest.raises(NotValid) as refusal:
        say(action, ben, answer=answer)
    assert refusal.value.facts["field"] == field
    assert now_of(action).status == "awaiting"
    assert not action.decisions.exists()


@pytest.mark.parametrize(
    "form",
    [
        {"$defs": {"a": True}, "properties": {"x": {"$ref": "#/$defs/a"}}},
        {"$defs": {"a": {"properties": {"b": {}}}}, "$ref": "#/$defs/a/properties/b"},
        {"$defs": {"a b": {"type": "string"}}, "$ref": "#/$defs/a%20b"},
        {"$defs": {"a%20b": {"type": "string"}}, "$ref": "#/$defs/a%20b"},
        {"$defs": {"a/b": {"type": "string"}}, "$ref": "#/$defs/a~1b"},
        {"$ref": "#/$defs/a"},
        {"type": "array", "items": {"type": "string"}, "default": [1, 2]},
        {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "string"}, "default": 7}}},
    ],
)
def test_a_form_that_no_page_can_show_is_refused_when_it_is_asked(form):
    with pytest.raises(BadForm):
        check_form(form)


def test_a_question_that_cannot_be_shown_any_more_takes_no_list_down(ben, sign_in):
    """What an older desk has taken in."""
    odd = {"question": "What?", "form": {"type": "array", "items": {"type": "string"}, "default": [1, 2]}}
    action = builders.action("human.question", run=builders.run(), arguments=odd)
    for address in ("/approvals", f"/approvals?sel={action.pk}", f"/actions/{action.pk}"):
        assert sign_in(ben).get(address).status_code == 200


def test_a_no_needs_no_answer_and_reaches_the_handler(asked, ben):
    action = asked(ORDER)
    with pytest.raises(NotValid):
        say(action, ben, "reject", answer={"size": "M", "cups": 1})

    def story(run):
        try:
            return ask(run, "ask", "What shall it be?", form=ORDER)
        except Rejected as error:
            return str(error)

    say(action, ben, "reject")
    with handling(story):
        settle()
    assert "no, thank you" in Run.objects.get().result


def test_a_question_is_answered_as_it_was_asked(asked, ben):
    with pytest.raises(NotValid) as refusal:
        say(asked(), ben, answer="x", arguments={"question": "Another one?"})
    assert refusal.value.facts["field"] == "arguments"


def test_nothing_but_a_question_takes_an_answer(ann, ben):
    action = builders.action(by=ann)
    with pytest.raises(NotValid) as refusal:
        say(action, ben, answer="yes")
    assert refusal.value.facts["field"] == "answer"


def test_the_same_answer_twice_is_said_once_another_one_is_refused(asked, ben):
    action = asked()
    first = say(action, ben, answer="one")
    again = say(action, ben, answer="one")
    assert (again.id, again.is_new) == (first.id, False)
    with pytest.raises(AlreadySaid):
        say(action, ben, answer="two")
    assert finish().result == "one"


def test_silence_answers_nothing(asked, later):
    asked(expires=timedelta(hours=1))
    later(hours=1, seconds=1)

    def story(run):
        try:
            return ask(run, "ask", "What shall it be?", expires=timedelta(hours=1))
        except Expired:
            return "nobody"

    with handling(story):
        settle()
    assert Run.objects.get().result == "nobody"


@pytest.mark.parametrize("seconds", [8 * 86400, 1e300])
def test_people_have_at_most_a_week_whatever_is_asked_for(asked, seconds):
    action = asked(expires=seconds)
    assert action.expires_at - action.created_at == timedelta(days=7)


def test_a_replay_that_asks_something_else_is_stopped(asked, ben):
    say(asked(), ben, answer="x")
    with handling(lambda run: ask(run, "ask", "Something else?")):
        settle()
    assert Run.objects.get().status == "blocked"


def test_an_answer_stands_in_no_event_and_no_trail(asked, ben):
    say(asked(), ben, answer="SECRET-123")
    finish()
    assert "SECRET" not in str(list(Event.objects.values()))


class TestForms:
    """A form that could hold the desk up, or that leads outside, is refused before anybody is asked."""

    @pytest.mark.parametrize(
        "form",
        [
            [],
            {"type": "strin"},
            {"$ref": "http://127.0.0.1:1/x"},
            {"$ref": "#"},
            {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
            {"$ref": "#/$defs/missing"},
            {"$id": "http://example.org/x", "type": "string"},
            {"$dynamicRef": "#x"},
            {"type": "string", "pattern": "(?=a)b"},
            {"type": "string", "pattern": "(a{1000}){1000}"},
            {"type": "object", "properties": {"a.b": {"type": "string"}}},
            {"type": "object", "properties": {"a": True}},
            {"type": "string", "description": "x" * 20_000},
        ],
    )
    def test_are_refused_when_they_are_asked(self, form, db):
        with handling(question(form)):
            builders.run("story")
            work()
        assert not Action.objects.exists()
        assert Run.objects.get().error["type"] in (Permanent.__name__, "NotValid")

    def test_are_refused_when_they_are_too_deep(self, db):
        form: Any = {"type": "string"}
        for _ in range(20):
            form = {"type": "array", "items": form}
        self.test_are_refused_when_they_are_asked(form, db)

    def test_a_pattern_costs_no_more_than_its_text(self, asked, ben):
        action = asked({"type": "string", "pattern": "^(a+)+$"})
        with pytest.raises(NotValid):
            say(action, ben, answer="a" * 60_000 + "!")
