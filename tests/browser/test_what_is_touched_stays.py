"""A part that is drawn anew leaves alone what a person put into it. The pages are this test's own, without a desk."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import staged

pytestmark = pytest.mark.browser

SCRIPTS = ("say", "hold", "parts", "json")
Shown = Callable[[str], None]


@pytest.fixture(scope="module")
def stage(chromium: Browser) -> Iterator[Page]:
    page = chromium.new_page()
    yield page
    page.close()


@pytest.fixture
def shows(stage: Page) -> Shown:
    """`shows(html)`: the page with this part; once more: the part as the server draws it from now on."""
    drawn: list[str] = []

    def show(html: str) -> None:
        drawn.append(html)
        if len(drawn) == 1:
            stage.goto(staged.HERE)
            return
        stage.evaluate(
            "() => new Promise(done => { document.addEventListener('nightdesk:refreshed', done, {once: true});"
            " window.nightdesk.refresh('x'); })"
        )

    staged.serve(stage, SCRIPTS, lambda _: f'<section id="part" data-live="x">{drawn[-1]}</section>')
    return show


def option(*names: str, chosen: str = "") -> str:
    return "".join(f'<option value="{name}"{" selected" if name == chosen else ""}>{name}</option>' for name in names)


def select(*names: str, chosen: str = "") -> str:
    return f'<form action="/a"><select name="trigger">{option(*names, chosen=chosen)}</select></form>'


def test_a_choice_stays_whatever_becomes_of_the_others(stage, shows):
    shows(select("aa-pay", "bb-mail", "cc-log"))
    stage.select_option("select", "bb-mail")
    for names in (("cc-log", "aa-pay", "bb-mail"), ("zz", "bb-mail"), ("bb-mail", "aa-pay")):
        shows(select(*names))
        assert stage.input_value("select") == "bb-mail"
        assert stage.locator("option").all_inner_texts() == [*names]


def test_what_was_shown_first_is_what_is_sent(stage, shows):
    """The one that was not touched does not change under the finger either."""
    shows(select("aa-pay", "bb-mail"))
    shows(select("bb-mail", "aa-pay"))
    assert stage.input_value("select") == "aa-pay"


def test_a_choice_stays_when_the_server_chose_another_or_offers_it_no_more(stage, shows):
    shows(select("a", "b", "c", chosen="a"))
    stage.select_option("select", "b")
    shows(select("a", "b", "c", "d", chosen="d"))
    assert stage.input_value("select") == "b"
    shows(select("a", "c", chosen="c"))
    assert stage.input_value("select") == "b"


def test_a_choice_nobody_made_follows_the_server(stage, shows):
    shows(select("a", "b", chosen="a"))
    shows(select("a", "b", "c", chosen="c"))
    assert stage.input_value("select") == "c"


TICKS = '<form action="/a"><label><input type="checkbox" name="id" value="{0}">{0}</label></form>'
RADIOS = '<input type="radio" name="say" value="{0}"{1}>'


def radios(chosen: str, *values: str) -> str:
    drawn = "".join(RADIOS.format(value, " checked" if value == chosen else "") for value in values)
    return f'<form action="/a">{drawn}</form>'


def test_ticks_and_the_one_of_several_stay(stage, shows):
    shows("".join(f'<p data-key="{n}">{TICKS.format(n)}</p>' for n in (1, 2)) + radios("a", "a", "b", "c"))
    stage.check("[value='2']")
    stage.check("[value=b]")
    stage.locator("[value=b]").blur()
    shows("".join(f'<p data-key="{n}">{TICKS.format(n)}</p>' for n in (3, 2, 1)) + radios("d", "d", "a", "b"))
    ticked = stage.locator(":checked").evaluate_all("all => all.map(one => one.value)")
    assert ticked == ["2", "b"]


def test_a_tick_nobody_made_follows_the_server(stage, shows):
    box = '<form><input type="checkbox" name="on"{}></form>'
    shows(box.format(""))
    stage.check("input")
    stage.uncheck("input")
    stage.locator("input").blur()
    shows(box.format(" checked"))
    assert stage.is_checked("input")


NOTE = '<form action="/a"><textarea name="reason">{}</textarea><input name="who" value="{}"></form>'


OTHER = '<form action="/b"><input name="who"></form>'


@pytest.mark.parametrize(
    ("before", "above", "box"),
    [
        ("", OTHER, "{}"),
        (OTHER, "", "{}"),
        ("<p>Running.</p>", "", "<div>{}</div>"),
        ("<div>a</div>", "<p>b</p>", "<div>{}</div>"),
        ("", "<div>a</div><div>b</div>", "<div><div>{}</div></div>"),
        ("<div>a</div><div>b</div>", "", "<div><div>{}</div></div>"),
    ],
)
def test_what_is_typed_stays_and_so_does_the_caret(before, above, box, stage, shows):
    shows(before + box.format(NOTE.format("", "")))
    stage.fill("[action='/a'] [name=who]", "wei")
    stage.fill("textarea", "one two")
    stage.evaluate("document.querySelector('textarea').setSelectionRange(3, 4)")
    shows(above + "<div><p>More.</p></div>" + box.format(NOTE.format("as it was", "ann")))
    assert stage.input_value("textarea") == "one two"
    assert stage.input_value("[action='/a'] [name=who]") == "wei"
    here = stage.evaluate(
        "(({name, selectionStart, selectionEnd}) => [name, selectionStart, selectionEnd])(document.activeElement)"
    )
    assert here == ["reason", 3, 4]


def test_what_is_typed_stays_in_a_part_that_is_built_another_way(stage, shows):
    """Its elements cannot be the same ones then: what is in them is."""
    shows("<div>" + NOTE.format("", "") + "</div>" + select("a", "b"))
    stage.select_option("select", "b")
    stage.fill("textarea", "one two")
    stage.evaluate("document.querySelector('textarea').setSelectionRange(3, 4)")
    shows(f"<section><p>Now</p><div>{NOTE.format('', '')}</div>{select('c', 'a', 'b')}</section>")
    assert stage.input_value("textarea") == "one two"
    assert stage.input_value("select") == "b"
    assert stage.evaluate("[document.activeElement.name, document.activeElement.selectionStart]") == ["reason", 3]


def test_what_nobody_typed_follows_the_server_as_often_as_it_changes(stage, shows):
    shows(NOTE.format("one", "a"))
    for text in ("two", "three"):
        shows(NOTE.format(text, text))
        assert (stage.input_value("textarea"), stage.input_value("[name=who]")) == (text, text)


def folded(*names: str, is_open: str = "") -> str:
    drawn = ("<details{}><summary>{}</summary><p>in {}</p></details>", "<details{0}><summary>{1}</summary></details>")
    return (
        "<div>" + "".join(drawn[0].format(" open" if name == is_open else "", name, name) for name in names) + "</div>"
    )


def opened(stage: Page) -> list[str]:
    return stage.locator("details[open] > summary").all_inner_texts()


def test_what_is_open_stays_open_and_what_was_closed_stays_closed(stage, shows):
    shows(folded("one", "two", is_open="one"))
    stage.click("text=two")
    stage.click("summary:has-text('one')")
    assert opened(stage) == ["two"]
    shows("<p>Now</p>" + folded("zero", "one", "two", is_open="one"))
    assert opened(stage) == ["two"]
    shows(folded("two", "one", is_open="one"))
    assert opened(stage) == ["two"]
    assert stage.evaluate("document.activeElement.textContent") == "one"


def rows(*keys: int) -> str:
    return "<ul>" + "".join(f'<li data-key="{key}"><a href="/{key}">row {key}</a></li>' for key in keys) + "</ul>"


@pytest.mark.parametrize("after", [(2, 3), (3, 2, 1), (9, 1, 2, 3), (4, 3, 2)])
def test_the_focus_stays_on_its_row(after, stage, shows):
    shows(rows(1, 2, 3))
    stage.focus("[href='/2']")
    shows(rows(*after))
    assert stage.evaluate("document.activeElement.getAttribute('href')") == "/2"
    assert stage.locator("a").all_inner_texts() == [f"row {key}" for key in after]


def test_what_was_scrolled_stays_where_it_is(stage, shows):
    """Its height is that of an attribute: no style is needed."""
    lines = "<br>".join(map(str, range(200)))
    choice = f'<select size="3" name="s">{option(*map(str, range(99)))}</select>'
    box = f'<textarea rows="3" readonly>{"line " * 3000}</textarea>{choice}'
    shows(f'<div data-key="a">{box}</div><p data-key="b">{lines}</p>')
    stage.evaluate("document.querySelector('textarea').scrollTop = 90; document.querySelector('select').scrollTop = 70")
    stage.wait_for_timeout(50)
    shows(f'<p data-key="c">new</p><p data-key="b">{lines}</p><div data-key="a">{box}</div>')
    assert stage.evaluate("[...document.querySelectorAll('textarea, select')].map(one => one.scrollTop)") == [90, 70]


def test_a_button_is_no_other_one_by_the_next_look(stage, shows):
    """Who was about to press Enter on Cancel does not run it again."""
    shows('<form action="/cancel"><button>Cancel</button></form>')
    stage.focus("button")
    shows('<form action="/again"><button>Run again</button></form>')
    assert stage.evaluate("document.activeElement.nodeName") == "BODY"


def test_a_part_that_is_late_keeps_what_it_shows_and_says_that_it_is_asked_for(stage, shows):
    """UX 3.5, a state of every page: loading."""
    shows("<p>old</p>")
    stage.evaluate(
        "() => { const asks = window.fetch; window.fetch = (...all) => new Promise(done => {"
        " window.answer = () => done(asks(...all)); }); window.nightdesk.refresh('x'); }"
    )
    stage.wait_for_selector("#part[aria-busy=true]")
    assert stage.inner_text("#part") == "old"
    stage.evaluate("window.answer()")
    stage.wait_for_selector("#part:not([aria-busy])")


def test_what_was_looked_for_in_a_payload_stays_marked(stage, shows):
    tree = (
        '<p>{}</p><input data-json-search="t"><div id="t"><span class="s">{}</span> <span class="s">tree</span></div>'
    )
    shows(tree.format("queued", "apple"))
    stage.fill("input", "tr")
    shows(tree.format("running", "apple tree"))
    assert stage.locator("mark").all_inner_texts() == ["apple tree", "tree"]
