"""Text is readable in both themes: 4.5 to 1 for words, 3 to 1 for the edges of controls (WCAG 1.4.3, 1.4.11)."""

import re
from pathlib import Path

import pytest

from project import theme

STATIC = Path(__file__).parents[2] / "project" / "static"
CSS = (STATIC / "app.css").read_text()
TOKENS = {name: pair for name, *pair in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", CSS)}
GROUNDS = ("bg", "surface", "inset")
TEXT = [(text, ground) for text in ("text", "text-2", "text-3", "accent") for ground in GROUNDS]
BADGES = [(name, f"{name}-bg") for name in ("ok", "run", "wait", "retry", "fail", "dead", "skip")]
TIERS = [(f"tier{n}", f"tier{n}-bg") for n in (1, 2, 3, 4)]
MORE = [("accent-fg", "accent"), ("text", "accent-soft"), ("text", "fail-bg"), ("text", "wait-bg"), ("surface", "text")]
ALONE = [(tone, ground) for tone in ("ok", "fail", "retry", "wait", "run", "tier4") for ground in GROUNDS]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), [*TEXT, *BADGES, *TIERS, *MORE, *ALONE])
def test_words_are_readable(text, ground, theme):
    assert contrast(TOKENS[text][theme], TOKENS[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", GROUNDS)
def test_the_edges_of_controls_are_seen(ground, theme):
    assert contrast(TOKENS["border-strong"][theme], TOKENS[ground][theme]) >= 3


def test_the_admin_wears_our_colours(owner, sign_in):
    ours = set(re.findall(r"#\w{6}", CSS))
    assert {*theme.GREYS.split(), *theme.BLUES.split()} <= ours
    page = sign_in(owner).get("/admin/").content.decode()
    red, green, blue = bytes.fromhex(TOKENS["accent"][0][1:])
    assert f"--color-primary-600: rgb({red}, {green}, {blue});" in page
    assert 'href="/static/icon' in page


def test_the_small_controls_of_the_admin_are_as_large_as_wcag_asks(owner, sign_in):
    """They are unfold's: a rule of ours names them."""
    page = sign_in(owner).get("/admin/people/user/?o=1").content.decode()
    rule = (STATIC / "admin" / "targets.css").read_text()
    assert re.search(r'href="/static/admin/targets[^"]*\.css"', page)
    assert 'id="searchbar-submit"' in page
    assert re.search(r'class="sortoptions[^>]*>\s*<a ', page)
    assert "#searchbar-submit, .sortoptions > a { min-width: 24px; min-height: 24px;" in rule
