"""The help for keys says the truth: whatever it names is there, and whatever is there is in it."""

import re

from tests.house import tree

STATIC = tree.ROOT / "project" / "static"
HELP = (tree.ROOT / "templates" / "partials" / "keys.html").read_text()
KEYS = (STATIC / "keys.js").read_text()
WHOLE = "\n".join(path.read_text() for path in tree.templates())
NATIVE = {"Enter", "Esc", "Ctrl", "K"}  # Enter opens a link, Esc closes a dialog: the browser's own


def block(name: str) -> set[str]:
    """The keys of an object in keys.js."""
    body = re.search(rf"const {name} = \{{(.*?)\n?  ?\}};", KEYS, re.DOTALL)
    assert body, name
    found: set[str] = set()
    for line in body[1].splitlines():
        if name == "GO":
            found |= set(re.findall(r"(\w): '", line))
        elif told := re.match(r"\s*'?(\S+?)'?: ", line):
            found.add(told[1])
    return found


def told() -> list[set[str]]:
    """The keys of each row of the help."""
    return [set(re.findall(r"<kbd>(.+?)</kbd>", row)) for row in re.findall(r"<dt>(.*?)</dt>", HELP)]


def visible() -> set[str]:
    return set(re.findall(r'data-shortcut="(.)"', WHOLE))


def test_each_row_of_the_help_names_keys_that_are_there():
    there = NATIVE | block("ALWAYS") | visible() | {"*"}
    led = [row for row in told() if "g" in row]
    assert led == [{"g", *block("GO")} - {"p"}]
    assert len(told()) > 20
    assert [row for row in told() if not row <= there and row not in led] == []


def test_each_key_that_is_there_is_in_the_help():
    named = set().union(*told())
    assert sorted((block("ALWAYS") | block("GO") | visible()) - named - {"p"}) == []
    assert "p" in named


def test_each_single_key_that_does_something_is_a_visible_control():
    """Those of keys.js only move, choose, or lead to a control of the page."""
    assert block("ALWAYS") == {"j", "k", "o", "u", "x", "X", "f", "/", "t", "?"}
