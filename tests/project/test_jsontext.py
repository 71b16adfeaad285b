"""JSON is laid out for an editor without a number being touched, and compared line by line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from project.lib.jsontext import MOST_LINES, difference, is_same, line_difference, pretty, tokens_of

TEXT = '{"id":3544790567247868102,"price":1.10,"tags":["a","b"],"none":[],"o":{},"deep":{"e":1E5}}'
LAID_OUT = """{
  "id": 3544790567247868102,
  "price": 1.10,
  "tags": [
    "a",
    "b"
  ],
  "none": [],
  "o": {},
  "deep": {
    "e": 1E5
  }
}"""

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_only_white_space_changes():
    assert pretty(TEXT) == LAID_OUT
    assert pretty(LAID_OUT) == LAID_OUT
    assert is_same(TEXT, LAID_OUT)
    assert not is_same(TEXT, TEXT.replace("1.10", "1.1"))


@given(values, st.booleans())
def test_it_says_what_it_said(value, escaped):
    text = json.dumps(value, ensure_ascii=escaped)
    assert json.loads(pretty(text)) == value
    assert is_same(text, json.dumps(value, indent=7, ensure_ascii=not escaped))


@pytest.mark.parametrize("text", ["", "{", '{"a": oops}', "[" * 100_000, "plain words"])
def test_what_is_no_json_stays_as_it_is(text):
    assert pretty(text) == text


def test_a_string_that_never_ends_is_read_once():
    text = '{"a": "' + '\\"' * 50_000
    assert tokens_of(text) == ["{", '"a"', ":", text[6:]]
    assert is_same(text, text)
    assert not is_same(text, "{}")


def test_a_string_with_an_escape_json_does_not_know_stays_as_it_is():
    assert tokens_of(r'{"a": "\x"}') == ["{", '"a"', ":", r'"\x"', "}"]


def test_letters_are_read_and_what_no_page_can_say_stays_escaped():
    assert pretty(r'"\u4e2d\u6587"') == '"中文"'
    assert pretty(r'"\ud800"') == r'"\ud800"'
    assert is_same('"\\u0000ü"', r'"\u0000\u00fc"'), "what no page can say is spelt in one way"


def test_a_difference_names_the_lines():
    lines = difference(TEXT, TEXT.replace("1.10", "2"))
    assert [line for line in lines if line[0] != "same"] == [("del", '-  "price": 1.10,'), ("add", '+  "price": 2,')]
    assert difference(TEXT, LAID_OUT) == []


def test_what_is_left_out_between_two_differences_is_marked():
    old = [str(n) for n in range(9)]
    told = line_difference(old, ["a", *old[1:-1], "b"], around=1)
    assert told[:3] == [("del", "-0"), ("add", "+a"), ("same", " 1")]
    assert told[3:] == [("same", " …"), ("same", " 7"), ("del", "-8"), ("add", "+b")]


def test_two_that_are_too_long_are_said_to_be_so():
    many = ["x"] * MOST_LINES
    assert line_difference(many, many, around=1) == []
    assert line_difference(many, ["y"], around=1) == [("same", " The two are too long to be compared here.")]
