"""Pages keep to the content policy: nothing inline, nothing unescaped; every icon they name exists."""

import re

import pytest
from lucide import IconDoesNotExist
from lucide.templatetags.lucide import lucide

from approvals.connection_systems import SYSTEMS
from project import context, live
from project.templatetags import desk
from tests.house import tree
from triggers.forms.source import KINDS

INLINE = re.compile(
    r"""<style|\sstyle=|<script(?![^>]*\ssrc=)|\son[a-z]+=["']|javascript:|\|\s*safe\b|hx-on|mark_safe"""
)
ICON = re.compile(r"""{%\s*(?:lucide|icon)\s+["']([a-z0-9-]+)["']""")
NAMED = re.compile(r"""\bicon=["']([a-z0-9-]+)["']""")


def test_nothing_is_inline():
    found = [
        f"{tree.named(path)}:{number}: {match.group().strip()}"
        for path in tree.templates()
        if "email" not in path.parts and "admin" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (match := INLINE.search(line))
    ]
    assert found == []


def icons():
    """Every icon a page may ask for: by its own name, a status, a line of the rail, a kind of source, a system."""
    written = {name for path in tree.templates() for rule in (ICON, NAMED) for name in rule.findall(path.read_text())}
    rail = {icon for group in context.GROUPS for _, icon, *_ in group}
    kinds = {icon for icon, *_ in [*KINDS.values(), *SYSTEMS.values()]}
    return sorted(written | rail | kinds | {look.icon for look in desk.LOOKS.values()})


def test_pages_name_icons_at_all():
    assert icons()


@pytest.mark.parametrize("name", icons())
def test_an_icon_that_a_page_names_exists(name):
    try:
        assert lucide(name).startswith("<svg")
    except IconDoesNotExist:
        pytest.fail(f"lucide has no icon {name!r}")


TOPICS = re.compile(r'data-live="([^"]*)"')


def topics_of(text: str) -> set[str]:
    """What the parts of a template ask for; any value stands for a row's."""
    plain = re.sub(r"{%.*?%}", " ", re.sub(r"{{.*?}}", "7", text))
    return set(" ".join(TOPICS.findall(plain)).split())


def test_whatever_a_part_asks_for_is_a_topic_of_the_socket():
    """One that it does not know closes the socket of the whole browser."""
    asked = {topic for path in tree.templates() for topic in topics_of(path.read_text())}
    assert {"runs", "policies", "run:7"} <= asked
    assert sorted(topic for topic in asked if not live.is_topic(topic)) == []


def test_whatever_is_told_of_is_a_topic_of_the_socket():
    said = {name for path in tree.modules() for name in re.findall(r'(?<!all_)changed\("(\w+)"', path.read_text())}
    assert "runs" in said
    assert sorted(said - live.TOPICS) == []
