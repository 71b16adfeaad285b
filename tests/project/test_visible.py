"""Text is shown as it is: exact numbers, nothing hidden, nothing that runs, however large."""

import json
import time

import pytest

from project.lib import jsontree
from project.lib.visible import plain, visible


@pytest.mark.parametrize(
    ("char", "name"),
    [
        ("\u202e", "RIGHT-TO-LEFT OVERRIDE"),
        ("\u200b", "ZERO WIDTH SPACE"),
        ("\u2066", "LEFT-TO-RIGHT ISOLATE"),
        ("\ufeff", "ZERO WIDTH NO-BREAK SPACE"),
        ("\x1b", "CONTROL CHARACTER"),
        ("\x00", "CONTROL CHARACTER"),
        ("\u00ad", "SOFT HYPHEN"),
        ("\u3164", "HANGUL FILLER"),
        ("\U000e0041", "TAG LATIN CAPITAL LETTER A"),
    ],
)
def test_a_hidden_character_is_drawn_with_its_name(char, name):
    html = visible(f"rm {char}x")
    assert char not in html
    assert f'title="{name}">U+{ord(char):04X}</span>' in html
    assert plain(f"a{char}b") == f"a⟨U+{ord(char):04X}⟩b"


def test_ordinary_text_of_every_script_stays_as_it_is():
    text = "Grüße, 你好, مرحبا, हिन्दी\n\tüber zwei Zeilen"
    assert visible(text) == text


def test_markup_is_text():
    assert visible("<b onclick=x>&") == "&lt;b onclick=x&gt;&amp;"


@pytest.mark.parametrize("number", ["9007199254740993", "1.10", "-0", "1e400", "12345678901234567890123"])
def test_numbers_arrive_as_they_were_written(number):
    assert f'<span class="n">{number}</span>' in jsontree.tree(f'{{"n": {number}}}')


def test_keys_and_values_are_escaped():
    tree = jsontree.tree(json.dumps({"<img src=x>": "</script><script>"}))
    assert "<img" not in tree
    assert "<script" not in tree


def test_what_is_no_json_is_shown_as_text():
    assert jsontree.tree("not json <b>") == '<span class="s">not json &lt;b&gt;</span>'


def test_a_hundred_thousand_keys_are_drawn_in_part_and_soon():
    text = json.dumps({f"key {n}": n for n in range(100_000)})
    began = time.monotonic()
    tree = jsontree.tree(text)
    assert time.monotonic() - began < 5  # a liveness limit: it takes a tenth of a second
    assert tree.count("<li") <= jsontree.MOST_NODES
    assert "Only the first" in tree


def test_a_long_string_is_cut_with_a_word_about_it():
    tree = jsontree.tree(json.dumps({"log": "x" * 50_000}))
    assert "30,000 more characters" in tree
    assert len(tree) < 25_000


def test_deep_values_end_in_one_line():
    text = "[" * 120 + "]" * 120
    assert jsontree.tree(text).count("<details") <= jsontree.DEPTH + 1


@pytest.mark.parametrize("value", ["null", "true", '"text"', "{}", "[]", "7"])
def test_a_value_alone_is_shown_too(value):
    assert jsontree.tree(value)
