"""A window of 1280 x 1024 shown at 400 % is 320 x 256: whatever sticks to an edge would leave nothing to read."""

import pytest
from playwright.sync_api import Browser

from project import assets
from tests.browser import staged

pytestmark = pytest.mark.browser

PAGE = """<!doctype html><style>{css}</style><div class="app"><nav class="rail">a</nav><header class="top">b</header>
<main class="main">{inner}</main><nav class="tabbar">c</nav></div>"""
LONG = "<br>".join(map(str, range(200)))
DECIDING = f"""<section class="dpane alone"><div class="dscroll">{LONG}</div><form class="decide">d</form></section>"""
EDITING = f"""<form class="editor"><div>{LONG}<div class="savebar">e</div></div></form>"""
SEEN = """() => { scrollTo(0, 900);
  return [scrollY, ...[...document.querySelectorAll('.top, .tabbar, .decide, .savebar')]
  .filter(bar => { const {top, bottom} = bar.getBoundingClientRect(); return bottom > 0 && top < innerHeight; })
  .map(bar => bar.className)]; }"""


@pytest.mark.parametrize("inner", [DECIDING, EDITING])
def test_nothing_sticks_to_an_edge_of_a_low_window(inner, chromium: Browser):
    css = assets.lean((staged.STATIC / "app.css").read_text())
    page = chromium.new_page(viewport={"width": 320, "height": 256})
    page.set_content(PAGE.format(css=css, inner=inner))
    assert page.evaluate(SEEN) == [900]
    page.set_viewport_size({"width": 390, "height": 844})
    assert len(page.evaluate(SEEN)) > 2, "on a phone they are in reach"
    page.close()
