"""Pages that somebody tired trusts: they move by themselves and say when they do not, obey the keyboard, and fit."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, WebSocketRoute, expect

pytestmark = pytest.mark.browser

WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
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
WALK = (
    *("/", "/approvals", "/events", "/runs", "/actions", "/dead-letters", "/triggers", "/handlers", "/audit", "/bulk"),
    *("/find", "/find?q=github", "/practice", "/sources", "/connections", "/policies", "/settings", "/settings/checks"),
)


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
    make_events(shop, 640, 641)  # a server that has just started does not know yet how far the news are told
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
    tab.get_by_role("button", name="Save").click()
    tab.keyboard.press("?")
    expect(tab.locator("#keys")).to_be_hidden()
    tab.keyboard.press("Control+k")
    assert tab.evaluate("document.activeElement.matches('[data-find]')")
    tab.check("#id_keys")
    tab.get_by_role("button", name="Save").click()


@pytest.mark.timeout(900)
def test_every_page_fits_a_small_screen_and_breaks_no_rule_of_wcag(shop, opens):
    """In both themes: what depends on the theme is the contrast."""
    shop.manage("ring", "github-issue")
    shop.until(lambda: shop.count("triggers_run"))
    run = shop.rows("SELECT max(id) FROM triggers_run")[0][0]
    tab = opens("owner", size="small", reduced_motion="reduce")  # a row that flashes has two colours
    wrong = {}
    for page in (*WALK, f"/runs/{run}"):
        tab.emulate_media(color_scheme="light")
        tab.goto(page)
        wide = tab.evaluate("document.documentElement.scrollWidth - innerWidth")
        found = broken(tab, {"runOnly": WCAG})
        tab.emulate_media(color_scheme="dark")
        found += broken(tab, {"runOnly": ["color-contrast"]})
        if wide > 0 or found:
            wrong[page] = (wide, found)
    assert wrong == {}


def broken(tab: Page, options: dict[str, object]) -> list[str]:
    violations = Axe().run(tab, options=options).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in violations]
