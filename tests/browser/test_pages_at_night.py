"""Pages that somebody tired trusts: they move by themselves and say when they do not, obey the keyboard, and fit."""

import pytest
from playwright.sync_api import Page, Route, WebSocketRoute, expect

from tests.browser import everywhere

pytestmark = pytest.mark.browser

LIVE = ("data-conn", "live")
EVENTS = """
from project.lib import clock
from project.lib.live import changed
from triggers.models import Event, Source
source = Source.objects.get(slug="github")
rows = [
    Event(type=f"night.{n}", ce_id=f"night-{n}", ce_source="/github", source=source, source_slug="github",
          received_at=clock.now(), status="ignored", data_json="{}")
    for n in range(FROM, TO)
]
Event.objects.bulk_create(rows)
changed("events")
"""


FORMS = {  # what somebody types who fills in no more than a source of this kind needs
    "webhook": {"provider": "custom", "header": "X-Sum", "template": "{h:X-Time}\n{body}"},
    "cloudevents": {},
    **{chat: {} for chat in ("slack", "feishu", "dingtalk", "wecom")},
    "schedule": {"cron": "0 7 * * 1-5", "timezone": "Europe/Berlin"},
    "file": {"pattern": "*.csv"},
    "email": {
        "config-host": "127.0.0.1",
        "config-port": "1143",
        "config-username": "desk",
        "config-folders": "INBOX\nA",
    },
    "redis_stream": {"config-url": "redis://127.0.0.1:1143/0", "config-stream": "orders"},
    "kafka": {"config-brokers": "127.0.0.1:1143", "config-topics": "orders\nreturns"},
    "database": {
        "config-url": "postgresql://desk@127.0.0.1:1143/shop",
        "config-table": "orders",
        "config-cursor": "id",
    },
}


def make_events(shop, start: int, end: int) -> None:
    shop.python(EVENTS.replace("FROM", str(start)).replace("TO", str(end)))


def sockets_of(tab: Page) -> list[object]:
    """The sockets this tab opens from now on that are still open."""
    opened: list[object] = []
    tab.on("websocket", lambda socket: (opened.append(socket), socket.on("close", lambda _: opened.remove(socket))))
    return opened


def test_a_browser_has_one_socket_and_whoever_stays_takes_it_over(shop, opens):
    first = opens("owner", "/events")
    expect(first.locator("html")).to_have_attribute(*LIVE)
    second = first.context.new_page()
    sockets = sockets_of(second)
    second.goto("/events")
    expect(second.locator("html")).to_have_attribute(*LIVE)
    assert sockets == []
    make_events(shop, 0, 1)
    expect(second.locator("#event-rows")).to_contain_text("night.0")
    expect(first.locator("#event-rows")).to_contain_text("night.0")
    first.close()
    expect(second.locator("html")).to_have_attribute(*LIVE)
    make_events(shop, 1, 2)
    expect(second.locator("#event-rows")).to_contain_text("night.1")
    assert len(sockets) == 1


def test_what_happened_while_the_server_was_gone_stands_there_once(shop, opens):
    """WS-01, WS-02."""
    tab = opens("owner", "/events")
    expect(tab.locator("html")).to_have_attribute(*LIVE)
    tab.fill("#f-q", "half a wo")
    with shop.nobody_starts_anything():
        shop.kill("web")
        expect(tab.locator("[data-not-live]")).to_be_visible()
        expect(tab.locator("[data-not-live]")).to_contain_text("Not live since")
        make_events(shop, 100, 600)
    expect(tab.locator("html")).to_have_attribute(*LIVE)
    expect(tab.locator("[data-not-live]")).to_be_hidden()
    expect(tab.locator("#event-rows")).to_contain_text("night.599")
    keys = tab.locator("#event-rows tr").evaluate_all("rows => rows.map(row => row.dataset.key)")
    newest = shop.rows("SELECT id FROM triggers_event ORDER BY id DESC LIMIT 50")
    assert keys == [str(number) for (number,) in newest]
    assert tab.input_value("#f-q") == "half a wo"


def test_a_socket_that_says_nothing_any_more_is_left_for_a_new_one(shop, opens):
    """A connection that a proxy forgot is open for ever, and silent."""
    tab = opens("owner", "/settings")
    opened: list[WebSocketRoute] = []
    forgotten: list[WebSocketRoute] = []

    def between(page: WebSocketRoute) -> None:
        opened.append(page)
        server = page.connect_to_server()
        server.on_message(lambda message: None if page in forgotten else page.send(message))

    tab.route_web_socket("**/ws/live", between)
    tab.clock.install()
    make_events(shop, 640, 641)  # a desk where nothing was ever told has no number to begin from
    shop.until(lambda: tab.goto("/events") and tab.locator("html").get_attribute("data-seq"))
    expect(tab.locator("html")).to_have_attribute(*LIVE)
    forgotten += opened
    before = len(opened)
    make_events(shop, 650, 651)
    tab.clock.fast_forward(50_000)
    expect(tab.locator("#event-rows")).to_contain_text("night.650")
    expect(tab.locator("html")).to_have_attribute(*LIVE)
    assert len(opened) == before + 1
    make_events(shop, 651, 652)
    expect(tab.locator("#event-rows")).to_contain_text("night.651")


def test_a_page_that_could_not_be_had_is_asked_for_again(shop, opens):
    """As a proxy says while the desk behind it starts anew."""
    tab = opens("owner", "/events")
    expect(tab.locator("html")).to_have_attribute(*LIVE)
    refused: list[Route] = []

    def once(route: Route) -> None:
        if refused:
            route.continue_()
        else:
            refused.append(route)
            route.fulfill(status=502)

    tab.route("**/events", once)
    make_events(shop, 660, 661)
    expect(tab.locator("#event-rows")).to_contain_text("night.660", timeout=30_000)  # all is swept each minute
    assert refused


def obey(tab: Page, key: str, done: str) -> None:
    """Press `key` until it did something: keys rest while a page has just changed."""
    for _ in range(100):
        tab.keyboard.press(key)
        tab.wait_for_timeout(200)
        if tab.evaluate(done):
            return
    raise AssertionError(f"{key} did nothing")


def test_new_rows_wait_behind_a_pill_while_one_works_in_the_list(shop, opens):
    make_events(shop, 690, 692)
    tab = opens("owner", "/events")
    expect(tab.locator("html")).to_have_attribute(*LIVE)
    tab.keyboard.press("j")  # the focus stays in the list from here on
    focused = tab.evaluate("document.activeElement.textContent")
    make_events(shop, 700, 702)
    expect(tab.locator("[data-pill]")).to_contain_text("2 new")
    assert tab.evaluate("document.activeElement.textContent") == focused
    obey(tab, "n", "document.querySelector('[data-pill]').hidden")
    expect(tab.locator("#event-rows")).to_contain_text("night.701")


def test_rows_are_chosen_by_keys_for_a_bulk_job(shop, opens):
    make_events(shop, 800, 804)
    tab = opens("owner", "/events")
    expect(tab.locator("#event-rows")).to_contain_text("night.803")
    expect(tab.locator("#chosen")).to_be_hidden()
    expect(tab.locator("html")).to_have_attribute(*LIVE)
    tab.locator("#event-rows [data-row]").first.focus()
    tab.keyboard.press("x")
    expect(tab.locator("[data-chosen]")).to_have_text("1 chosen")
    for key in ("j", "j", "X"):
        tab.keyboard.press(key)
    expect(tab.locator("[data-chosen]")).to_have_text("3 chosen")
    make_events(shop, 804, 805)  # the list moves on, the choice stays
    expect(tab.locator("[data-pill]")).to_contain_text("1 new")
    expect(tab.locator("[data-chosen]")).to_have_text("3 chosen")
    tab.get_by_role("button", name="Run these again").click()
    tab.wait_for_url("**/bulk/new*")
    expect(tab.locator("h1")).to_contain_text("3 events")
    tab.goto("/events?type=night.*")
    tab.keyboard.press("*")
    tab.keyboard.press("a")
    tab.wait_for_url("**/bulk/new?verb=run_again&type=night.*")


def test_keys_do_what_the_help_says_and_rest_while_one_types(shop, opens):
    tab = opens("owner", "/sources")
    obey(tab, ".", "document.documentElement.hasAttribute('data-paused')")
    expect(tab.locator(".conn .held")).to_be_visible()
    obey(tab, "t", "localStorage.times === 'clock'")
    tab.keyboard.press("Control+k")
    tab.keyboard.type("gr?r")  # typed, not obeyed
    assert tab.input_value("[data-find]") == "gr?r"
    expect(tab.locator("#keys")).to_be_hidden()
    tab.locator("[data-find]").blur()
    tab.keyboard.press("?")
    expect(tab.locator("#keys")).to_be_visible()
    tab.keyboard.press("Escape")
    tab.keyboard.press("g")
    tab.keyboard.press("r")
    tab.wait_for_url("**/runs")
    tab.goto("/settings")
    tab.uncheck("#id_keys")
    with tab.expect_navigation():
        tab.get_by_role("button", name="Save").click()
    tab.keyboard.press("?")
    expect(tab.locator("#keys")).to_be_hidden()
    tab.keyboard.press("Control+k")
    assert tab.evaluate("document.activeElement.matches('[data-find]')")
    tab.check("#id_keys")
    tab.get_by_role("button", name="Save").click()


@pytest.mark.timeout(900)
def test_every_page_fits_every_screen_and_breaks_no_rule_of_wcag(shop, opens):
    keys = everywhere.furnish(shop)
    tab = opens("owner", reduced_motion="reduce")  # a row that flashes has two colours
    looked = {page: everywhere.faults(tab, page) for page in everywhere.pages(tab, keys)}
    tab.context.clear_cookies()
    looked["/sign-in"] = everywhere.faults(tab, "/sign-in")
    assert {page: found for page, found in looked.items() if found} == {}
    assert len(looked) > 60


def fill(tab: Page, typed: dict[str, str]) -> None:
    for name, value in typed.items():
        box = tab.locator(f"main form [name='{name}']")
        if not box.is_visible():
            box.locator("xpath=ancestor::details/summary").click()
        if box.evaluate("el => el.tagName") == "SELECT":
            box.select_option(value)
        else:
            box.fill(value)


def saves(tab: Page, slug: str) -> None:
    tab.get_by_role("button", name="Save", exact=True).click()
    expect(tab.get_by_text(f"{slug} is saved.").first).to_be_visible()


def test_a_source_of_every_kind_is_made_found_again_as_it_was_typed_and_changed(shop, opens):
    tab = opens("owner", "/sources/new")
    offered = tab.locator("main a[href*='kind=']").evaluate_all("all => all.map(one => one.href.split('kind=')[1])")
    assert set(offered) == set(FORMS)
    for kind in offered:
        slug = f"by-hand-{kind}".replace("_", "-")
        typed = FORMS[kind]
        tab.goto(f"/sources/new?kind={kind}")
        tab.get_by_role("button", name="Save", exact=True).click()
        assert tab.locator("main form [name='slug']").evaluate("el => el.matches(':invalid')"), (
            "asked before it is sent"
        )
        fill(tab, {**typed, "slug": slug})
        saves(tab, slug)
        if tab.url.endswith("/secrets"):
            tab.get_by_role("link", name="Not now").click()
        tab.goto(f"/sources/{slug}")
        for name, value in typed.items():
            assert tab.locator(f"main form [name='{name}']").input_value() == value, (kind, name)
        fill(tab, {"name": "By hand"})
        saves(tab, slug)
        expect(tab.get_by_role("heading", name="By hand")).to_be_visible()
    kept = shop.rows("SELECT config FROM triggers_source WHERE slug = 'by-hand-webhook'")
    assert "{h:X-Time}\\n{body}" in str(kept[0][0])
