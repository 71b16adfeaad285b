"""A question is answered on its card: a form without scripts, whose refusals stand beside their field."""

import re

import pytest

from approvals.act import ask
from approvals.models import Action
from project.people import roles
from tests import builders
from tests.conftest import person
from tests.handlers import work
from tests.nodding import handling, settle
from triggers.models import Run

pytestmark = pytest.mark.django_db

FORM = {
    "type": "object",
    "properties": {
        "size": {"enum": ["S", "M"], "title": "Which size?"},
        "cups": {"type": "integer", "minimum": 1},
        "price": {"type": "number"},
        "gift": {"type": "boolean"},
        "name": {"type": "string", "maxLength": 40},
        "note": {"type": "string", "format": "multi-line"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "rest": {"type": "object"},
    },
    "required": ["size", "cups"],
}


def question(run):
    return ask(run, "ask", "What shall it be? \u202e", form=FORM)


@pytest.fixture
def asked(db):
    with handling(question):
        builders.run("story")
        work()
    return Action.objects.get()


@pytest.fixture
def ben_reads(ben, sign_in):
    return sign_in(ben)


def answer(client, action, **typed):
    seen = {"digest": action.digest, "revision": action.revision, "verdict": "approve"}
    return client.post(
        f"/actions/{action.pk}/decisions", seen | {f"a.answer.{name}": text for name, text in typed.items()}
    )


def field(page: str, name: str) -> str:
    found = re.search(rf'<(input|select|textarea)[^>]* name="a\.answer\.{name}"', page)
    return found[1] if found else ""


def test_every_member_has_a_field_and_odd_characters_are_shown(asked, ben_reads):
    page = ben_reads.get(f"/actions/{asked.pk}").content.decode()
    drawn = {name: field(page, name) for name in FORM["properties"]}
    lines = dict.fromkeys(("note", "tags", "rest"), "textarea")
    assert drawn == {"size": "select", "gift": "select", "cups": "input", "price": "input", "name": "input", **lines}
    assert "Which size?" in page
    assert list(FORM["properties"]) == re.findall(r'<(?:input|select|textarea)[^>]* name="a\.answer\.(\w+)"', page)
    assert 'title="RIGHT-TO-LEFT OVERRIDE"' in page
    assert re.search(r'<button[^>]*value="approve"[^>]*>.*?Answer', page, re.DOTALL)
    assert f"/actions/{asked.pk}/edit" not in page


def test_what_is_typed_becomes_json_and_the_result(asked, ben_reads):
    typed = {
        "size": "M",
        "cups": "2",
        "price": "1.50",
        "gift": "false",
        "note": "a\r\nb",
        "tags": "x\r\ny",
        "rest": '{"k": 1}',
    }
    assert answer(ben_reads, asked, **typed).status_code == 302
    with handling(question):
        settle()
    assert Run.objects.get().result == {
        **{"size": "M", "cups": 2, "price": 1.5, "gift": False, "note": "a\nb", "tags": ["x", "y"], "rest": {"k": 1}}
    }
    page = ben_reads.get(f"/actions/{asked.pk}").content.decode()
    assert "It was answered." in page


@pytest.mark.parametrize(
    ("typed", "place", "words"),
    [
        ({"size": "", "cups": "2"}, "size", "needed"),
        ({"size": "M", "cups": "0"}, "cups", "minimum"),
        ({"size": "M", "cups": "two"}, "cups", "number"),
        ({"size": "M", "cups": "2", "name": "n" * 41}, "name", "longer than 40"),
        ({"size": "M", "cups": "2", "rest": "{"}, "rest", "JSON"),
    ],
)
def test_a_refusal_stands_beside_its_field_and_nothing_typed_is_lost(asked, ben_reads, typed, place, words):
    got = answer(ben_reads, asked, note="keep me", **typed)
    page = got.content.decode()
    assert got.status_code == 422
    beside = re.search(rf'<p class="err" id="e-a\.answer\.{place}">(.*?)</p>', page)
    assert beside
    assert words in beside[1]
    assert "keep me" in page
    assert not asked.decisions.exists()


def test_a_no_needs_no_answer(asked, ben_reads):
    seen = {"digest": asked.digest, "revision": asked.revision, "verdict": "reject", "reason": "I do not know"}
    assert ben_reads.post(f"/actions/{asked.pk}/decisions", seen).status_code == 302
    asked.refresh_from_db()
    assert asked.status == "rejected"


def test_the_api_takes_the_answer_and_names_the_field(asked, ben, with_token):
    client = with_token(ben, "decide", "read")
    path, seen = f"/api/v1/actions/{asked.pk}/decisions", {"digest": asked.digest, "revision": 1, "verdict": "approve"}
    bad = client.post(path, {**seen, "answer": {"size": "M", "cups": 0}}, content_type="application/json")
    assert (bad.status_code, bad.json()["code"], bad.json()["field"]) == (422, "not_valid", "answer.cups")
    good = client.post(path, {**seen, "answer": {"size": "M", "cups": 1}}, content_type="application/json")
    assert (good.status_code, good.json()["digest"]) == (201, asked.digest)
    with handling(question):
        settle()
    assert client.get(f"/api/v1/actions/{asked.pk}").json()["result"] == {"size": "M", "cups": 1}


def test_a_viewer_sees_the_question_but_neither_form_nor_answer(asked, ben_reads, sign_in):
    vera = sign_in(person("vera", roles.VIEWER))
    assert "a.answer" not in vera.get(f"/actions/{asked.pk}").content.decode()
    answer(ben_reads, asked, size="M", cups="2", note="SECRET-123")
    with handling(question):
        settle()
    assert "SECRET" not in vera.get(f"/actions/{asked.pk}").content.decode()
