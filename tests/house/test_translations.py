"""Every word of a page has its Chinese, with the same slots; the compiled catalogue is that of the texts."""

import re
from functools import cache

from django.conf import settings

from project.templatetags.saying import PLURAL, SLOT
from tests import catalogue
from tests.house import tree

NOT_YET: set[str] = set()  # files whose words have no Chinese: this list only shrinks
SPARED = re.compile(
    r"""{#.*?#}|{%.*?%}|{{.*?}}|<(script|style|pre|code|kbd|svg)\b.*?</\1>|<dt>.*?</dt>"""
    r"""|hx-[a-z-]+="[^"]*|<!doctype html>|<[^>]+>""",
    re.DOTALL,
)
SAID = re.compile(r"{% say %}.*?{% endsay %}", re.DOTALL)
ENGLISH = re.compile(r"[A-Za-z]{3,}")
IN_ATTRIBUTE = re.compile(r"""\s(?:aria-label|title|placeholder|alt|data-busy)=(["'])(.*?)\1""", re.DOTALL)
ADVICE = "make translations, then fill in what is empty in the .po and make them again (docs/languages.md)"
TAG = re.compile(r"{#.*?#}|{%.*?%}|{{.*?}}", re.DOTALL)
NAMES = {"Nightdesk", "CSV", "JSON", "UTC"}
EXAMPLES = {  # of what one may type, and names of classes
    "templates/approvals/action.html": {"full"},
    "templates/approvals/actions.html": {"ann"},
    "templates/find.html": {"daily", "report", "acme", "shop"},
    "templates/triggers/audit.html": {"ann", "nightdesk", "approve", "source", "github", "user"},
    "templates/triggers/event_types.html": {"github", "issues", "opened"},
    "templates/triggers/events.html": {"issues", "opened", "order", "github"},
    "templates/triggers/sources.html": {"hooks"},
}


@cache
def kept():
    return catalogue.read(catalogue.PO.read_text())


def test_the_catalogue_has_the_words_of_the_pages_and_no_others():
    found, known = catalogue.words(), kept()
    assert [text for text, path in found.items() if text not in known and path not in NOT_YET] == [], ADVICE
    assert [text for text in known if text and text not in found] == [], ADVICE


def test_nothing_is_left_without_its_chinese():
    assert [text for text, chinese in kept().items() if text and not chinese.strip()] == [], ADVICE


def test_a_translation_fills_the_slots_of_its_english():
    wrong = {text: chinese for text, chinese in kept().items() if chinese and slots(text) != slots(chinese)}
    assert wrong == {}


def slots(text):
    return {name for name in SLOT.findall(text) if not re.fullmatch(rf"{PLURAL}\d*", name)}


def test_a_translation_keeps_the_marks_of_its_english():
    """Whatever stands in an attribute stays in it, and every element is closed."""
    marks = re.compile(r'<[^>]*>|"')
    wrong = [
        text
        for text, chinese in kept().items()
        if chinese and sorted(marks.findall(text)) != sorted(marks.findall(chinese))
    ]
    assert wrong == []


def test_the_compiled_catalogue_is_that_of_the_texts():
    assert catalogue.MO.read_bytes() == catalogue.compiled(kept()), ADVICE
    assert (settings.LOCALE_PATHS[0] / "zh_Hans/LC_MESSAGES/django.mo") == catalogue.MO


def bare_words(source):
    """Letters outside of `say`, between the marks and in what is read aloud or stands in an empty field."""
    told = TAG.sub("", SAID.sub(" ", source))
    read = " ".join(text for _, text in IN_ATTRIBUTE.findall(told))
    return [word for text in (told, read) for word in ENGLISH.findall(SPARED.sub(" ", text)) if word not in NAMES]


def test_no_page_says_bare_english():
    bare = {
        name: left
        for path in tree.templates()
        if (left := set(bare_words(path.read_text())) - EXAMPLES.get(name := tree.named(path), set()))
    }
    assert {name: left for name, left in bare.items() if name not in NOT_YET} == {}
    assert NOT_YET - set(bare) == set(), "translated: off the list"


def test_the_page_brings_the_words_of_its_scripts():
    listed = re.findall(r"<dt>(.*?)</dt>", (tree.ROOT / "templates/partials/words.html").read_text())
    said = {text for path in tree.scripts() for text in catalogue.SCRIPT.findall(path.read_text())}
    assert set(listed) == said
