"""A form holds every argument a kind may take: what is not touched comes back, what is unreadable is named."""

from dataclasses import replace
from enum import StrEnum
from typing import Any, Literal

import pytest
from django.http import QueryDict
from pydantic import Field

from approvals.argument_forms import MOST_SLOTS, ONE_LINE, Form, Slot, every
from approvals.changes import changes
from approvals.connectors.github import GITHUB_CREATE_PR
from approvals.connectors.http import HTTP_REQUEST
from approvals.kinds import KINDS, Arguments

PULL = {
    "repo": "acme/shop",
    "base": "main",
    "title": "Fix",
    "body": "one\r\ntwo  \n\n",
    "files": [{"path": "a.txt", "content": "\nA\r\nB"}, {"path": "b.txt", "content": ""}],
}


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Part(Arguments):
    name: str
    count: int = 1


class Everything(Arguments):
    words: str
    size: Size = Size.SMALL
    fixed: Literal["a", 1] = "a"
    sure: bool
    perhaps: bool | None = None
    number: int
    share: float = 0.5
    names: list[str] = []
    part: Part
    maybe: Part | None = None
    parts: list[Part] = []
    anything: dict[str, Any] = {}
    note: str | None = Field(default=None, max_length=10_000)


FULL = {
    "words": "‮odd",
    "size": "large",
    "fixed": 1,
    "sure": False,
    "perhaps": True,
    "number": -7,
    "share": 1.0,
    "names": ["ann", " ben"],
    "part": {"name": "x", "count": 2},
    "maybe": {"name": "y", "count": 1},
    "parts": [{"name": "p", "count": 1}],
    "anything": {"deep": [1, None, {"ü": "<b>"}]},
    "note": "text",
}


@pytest.fixture
def kind():
    return replace(GITHUB_CREATE_PR, arguments=Everything)


def filled(form: Form, **changed: str) -> QueryDict:
    """What a browser would post: every field as it stands, with `changed` typed over it."""
    posted = QueryDict(mutable=True)
    for slot in every(form.slots):
        if slot.look == "list":
            posted[f"{slot.name}.count"] = str(len(slot.parts))
        elif slot.look != "group":
            posted[slot.name] = slot.typed.replace("\r\n", "\n").replace("\n", "\r\n")
    for name, text in changed.items():
        posted[f"a.{name.replace('__', '.')}"] = text
    return posted


def slot(form: Form, name: str) -> Slot:
    return next(each for each in every(form.slots) if each.name == f"a.{name}")


@pytest.mark.parametrize("given", [FULL, {"words": "a", "sure": True, "number": 0, "part": {"name": ""}}])
def test_what_nobody_touched_comes_back_as_it_was(kind, given):
    form = Form(kind, given)
    assert Form(kind, given, filled(form)).read() == given


def test_line_ends_and_white_space_of_untouched_texts_stay(kind):
    form = Form(GITHUB_CREATE_PR, PULL)
    assert Form(GITHUB_CREATE_PR, PULL, filled(form)).read() == PULL
    edited = Form(GITHUB_CREATE_PR, PULL, filled(form, files__0__content="A\r\nC")).read()
    assert edited["files"][0]["content"] == "A\nC"
    assert edited["body"] == PULL["body"]


def test_each_argument_has_the_simplest_field_that_holds_it(kind):
    looks = {each.name.removeprefix("a."): each.look for each in Form(kind, FULL).slots}
    assert looks == {
        "words": "line",
        "size": "choice",
        "fixed": "choice",
        "sure": "choice",
        "perhaps": "choice",
        "number": "number",
        "share": "number",
        "names": "texts",
        "part": "group",
        "maybe": "group",
        "parts": "list",
        "anything": "json",
        "note": "lines",
    }


@pytest.mark.parametrize(("longest", "look"), [(ONE_LINE, "line"), (ONE_LINE + 1, "lines")])
def test_a_text_that_may_be_longer_than_a_line_gets_several(longest, look):
    form = Form({"properties": {"text": {"type": "string", "maxLength": longest}}}, {"text": "short"})
    assert slot(form, "text").look == look


def test_texts_of_more_than_one_line_are_edited_as_json(kind):
    assert slot(Form(kind, FULL | {"names": ["a\nb"]}), "names").look == "json"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ({"number": "12"}, {"number": 12}),
        ({"share": "1e3"}, {"share": 1000.0}),
        ({"sure": "true"}, {"sure": True}),
        ({"fixed": "a"}, {"fixed": "a"}),
        ({"names": "wei\r\n\r\nben"}, {"names": ["wei", "ben"]}),
        ({"part__count": "9"}, {"part": {"name": "x", "count": 9}}),
        ({"anything": '{"n": 9007199254740991}'}, {"anything": {"n": 9007199254740991}}),
    ],
)
def test_what_is_typed_is_read_as_what_it_is(kind, typed, expected):
    form = Form(kind, FULL, filled(Form(kind, FULL), **typed))
    assert form.read() == FULL | expected
    assert form.errors == []


@pytest.mark.parametrize("name", ["perhaps", "note"])
def test_what_may_be_empty_and_is_emptied_is_not_sent(kind, name):
    read = Form(kind, FULL, filled(Form(kind, FULL), **{name: ""})).read()
    assert name not in read


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("number", "many"),
        ("number", "1.5"),
        ("number", ""),
        ("share", "NaN"),
        ("size", "huge"),
        ("sure", ""),
        ("anything", "{"),
        ("anything", '{"n": NaN}'),
        ("anything", "[" * 100_000),
        ("anything", "[" * 200 + "]" * 200),
        ("anything", '{"n": 1e999}'),
        ("anything", '"\\ud800"'),
    ],
)
def test_what_cannot_be_read_is_said_beside_its_field_and_stays_typed(kind, name, text):
    form = Form(kind, FULL, filled(Form(kind, FULL), **{name: text}))
    form.read()
    assert [each.name for each in every(form.slots) if each.error] == [f"a.{name}"]
    assert form.errors[0].startswith(f"{name}: write" if name not in ("size", "sure") else f"{name}: choose")
    assert slot(form, name).typed == text


def test_an_item_is_added_and_another_left_out():
    posted = filled(Form(GITHUB_CREATE_PR, PULL))
    more = posted.copy()
    more["do"] = "add:a.files"
    assert len(slot(Form(GITHUB_CREATE_PR, PULL, more), "files").parts) == 3
    posted["a.files.0.drop"] = "on"
    form = Form(GITHUB_CREATE_PR, PULL, posted)
    assert form.read()["files"] == [PULL["files"][1]]
    assert form.blame("files.0.path", "that one")
    assert slot(form, "files.1.path").error == "that one"


def test_a_refusal_of_something_deep_inside_stands_beside_the_field_it_lies_in():
    form = Form(HTTP_REQUEST, {"url": "https://shop.example", "headers": {"X": "1"}})
    assert form.blame("headers.X", "too long")
    assert slot(form, "headers").error == "too long"
    assert not form.blame("arguments", "none of it")


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_kind_has_a_form(name):
    required = KINDS[name].arguments.model_json_schema(by_alias=True).get("required", [])
    form = Form(KINDS[name], {})
    assert set(required) <= {each.name.removeprefix("a.") for each in form.slots}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": True}, [("a", [("del", "-1"), ("add", "+true")])]),
        ({"a": 1}, {}, [("a", [("del", "-1")])]),
        ({}, {"a": {"b": 1}}, [("a", [("add", "+{"), ("add", '+  "b": 1'), ("add", "+}")])]),
        (
            {"files": [{"content": "1\n2\n3\n4\n5"}]},
            {"files": [{"content": "1\n2\n3\n4\n6"}]},
            [("files[0].content", [("same", " 3"), ("same", " 4"), ("del", "-5"), ("add", "+6")])],
        ),
        ({"l": ["a", "b"]}, {"l": ["a"]}, [("l[1]", [("del", "-b")])]),
        ({"a": ""}, {"a": "x"}, [("a", [("del", "-(empty)"), ("add", "+x")])]),
    ],
)
def test_a_difference_names_the_argument_and_shows_its_lines(before, after, expected):
    assert [(each.label, each.lines) for each in changes(before, after)] == expected


def test_lists_in_lists_do_not_multiply_without_end():
    class Box(Arguments):
        parts: list[Part]

    class Boxes(Arguments):
        boxes: list[Box]

    counts = {f"a.boxes.{at}.parts.count": "999" for at in range(999)}
    form = Form(Boxes.model_json_schema(), {}, {"a.boxes.count": "999", **counts})
    assert len(list(every(form.slots))) < MOST_SLOTS + 10
    assert f"boxes: a form has at most {MOST_SLOTS:,} fields." in form.errors
