"""What people see while others decide: the truth, within a moment, and nothing they typed is lost."""

import json
import re
import time
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from tests.processes import Desk

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("team")]

LATE = 2.5  # seconds; the page hears of what it did after a tenth of that
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def ask(shop: Desk, **fields: object) -> int:
    """An action as `act()` freezes it, asked for by nobody here, about nothing that leaves the desk."""
    return int(
        shop.python(
            f"""
            import json
            from datetime import timedelta
            from approvals.models import Action, Connection
            from project.lib import canonical, clock
            now, fields = clock.now(), json.loads({json.dumps(json.dumps(fields))})
            link = Connection.objects.get(system="github", practice=True)
            arguments = {{"repo": "acme/shop", "number": 7, "body": "Thank you."}}
            text = canonical.text({{"kind": "github.comment", "kind_version": 1, "connection": link.slug,
                "connection_version": link.version, "arguments": arguments, "preconditions": {{}}}})
            digest = canonical.digest_of_text(text)
            given = dict(kind="github.comment", tier="medium", status="awaiting", title="Comment on acme/shop#7",
                canonical=text, digest=digest, proposal_digest=digest, connection=link, key=f"k-{{now.timestamp()}}",
                created_at=now, expires_at=now + timedelta(days=1), take_back_for=10, requester_chain=[])
            print(Action.objects.create(**given | fields).pk)
            """
        ).split()[-1]
    )


def live(page: Page) -> Page:
    expect(page.locator("html")).to_have_attribute("data-conn", "live")
    return page


def status(shop: Desk, action: int) -> str:
    return str(shop.rows("SELECT status FROM approvals_action WHERE id = ?", action)[0][0])


def test_two_people_one_decision(shop, opens):
    action = ask(shop)
    ben = live(opens("ben", f"/approvals?sel={action}"))
    wei = live(opens("wei", f"/approvals?sel={action}"))
    ben.fill(".decide [name=reason]", "half a sentence")
    wei.click("button[value=approve]")
    expect(wei.locator(".toast")).to_contain_text("Approved. The comment goes out in")
    expect(ben.locator("#detail .dhead")).to_contain_text("Approved")
    expect(ben.locator(".decide [name=reason]")).to_have_value("half a sentence")
    ben.click("button[value=approve]")
    told = ben.locator("#detail .verdict").first
    expect(told).to_contain_text(re.compile(r"wei decided \d+ s before you\. Your click changed nothing\."))
    assert "/decisions" not in ben.url
    assert shop.count("approvals_decision", "action_id = ?", action) == 1


def press(page: Page, key: str, *, until: Callable[[], object]) -> None:
    """A key is dead for a moment after the page changed: who sees nothing come of it presses again, as this does."""
    for _ in range(60):
        page.keyboard.press(key)
        page.wait_for_timeout(1000)
        if until():
            return
    raise AssertionError(f"{key} did nothing")


@pytest.mark.parametrize("way", ["key", "mouse"])
def test_a_card_is_answered_only_when_it_was_seen_for_a_second(way, shop, opens):
    def says_yes() -> None:
        if way == "key":
            ben.keyboard.press("a")
        else:
            ben.locator("button[value=approve]").click(force=True)

    action = ask(shop)
    ben = opens("ben", "/")
    opened = time.time()
    ben.clock.set_fixed_time(opened)
    ben.goto(f"/approvals?sel={action}")
    live(ben)
    says_yes()
    ben.clock.set_fixed_time(opened + 0.9)
    says_yes()
    expect(ben.get_by_role("button", name="Approve comment")).to_be_enabled()
    assert "done=" not in ben.url
    assert status(shop, action) == "awaiting"


def test_a_yes_by_key_and_back_by_key(shop, opens):
    action = ask(shop)
    ben = live(opens("ben", f"/approvals?sel={action}"))
    sent: list[str] = []
    ben.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    press(ben, "a", until=lambda: sent)
    expect(ben.locator(".toast")).to_be_visible()
    ben.keyboard.press("z")
    expect(ben.locator(".banner.success")).to_contain_text("Taken back. Nothing was sent.")
    assert status(shop, action) == "awaiting"


def test_an_answer_that_comes_after_the_news_of_it_finds_its_place(shop, opens):
    action = ask(shop)
    ben = live(opens("ben", f"/approvals?sel={action}"))

    def late(route: Route) -> None:
        answer = route.fetch()
        time.sleep(LATE)
        route.fulfill(response=answer)

    sent: list[str] = []
    ben.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    ben.route("**/decisions", late)
    press(ben, "a", until=lambda: sent)  # a click would keep the focus in the form, and the form with it
    expect(ben.locator(".toast")).to_contain_text("Approved. The comment goes out in")
    ben.unroute_all(behavior="ignoreErrors")  # a key that was pressed twice may still be on its way


def test_a_key_typed_into_the_note_is_only_a_letter(shop, opens):
    action = ask(shop)
    ben = live(opens("ben", f"/approvals?sel={action}"))
    ben.wait_for_timeout(1500)
    ben.locator(".decide [name=reason]").type("a bad idea: rejected anyway")
    assert status(shop, action) == "awaiting"
    ben.click("button[value=reject]")
    shop.until(lambda: status(shop, action) == "rejected")


def test_reject_goes_to_the_note_first(shop, opens):
    action = ask(shop)
    ben = live(opens("ben", f"/approvals?sel={action}"))
    note = ben.locator(".decide [name=reason]")
    press(ben, "r", until=lambda: note.evaluate("field => field === document.activeElement"))
    ben.click("button[value=reject]")
    assert note.evaluate("field => field.validationMessage") == "Write a note first: the handler reads it."
    note.type("already fixed")
    assert status(shop, action) == "awaiting"
    ben.click("button[value=reject]")
    shop.until(lambda: status(shop, action) == "rejected")
    assert shop.rows("SELECT reason FROM approvals_decision WHERE action_id = ?", action) == [("already fixed",)]


def test_a_rejection_that_was_begun_is_sent_by_key_and_its_note_by_nothing_else(shop, opens):
    action = ask(shop)
    ben = live(opens("ben", f"/actions/{action}"))
    note = ben.locator(".decide [name=reason]")
    press(ben, "r", until=lambda: note.evaluate("field => field === document.activeElement"))
    note.type("not tonight")
    ben.click("button[value=approve]")
    assert note.evaluate("field => field.validationMessage").startswith("This note was written for another verdict")
    assert status(shop, action) == "awaiting"
    note.press("Control+Enter")
    shop.until(lambda: status(shop, action) == "rejected")


def test_everything_works_without_javascript(shop, opens):
    action = ask(shop)
    ben = opens("ben", f"/actions/{action}", java_script_enabled=False)
    ben.wait_for_timeout(1000)  # he decided another one a moment ago: without a script the door tells a second click
    ben.click("button[value=approve]")
    shop.until(lambda: status(shop, action) in ("approved", "delivering", "delivered"))


def test_on_a_phone_a_row_opens_its_own_page_and_the_bar_stays_in_reach(shop, opens):
    action = ask(shop)
    ben = live(opens("ben", "/approvals", size="phone"))
    ben.click(f'[data-key="{action}"]')
    ben.wait_for_url(f"**/actions/{action}")
    box = ben.locator("button[value=approve]").bounding_box()
    assert box["y"] + box["height"] <= 844
    assert box["height"] >= 44


def test_hostile_text_that_arrives_live_stays_text(shop, opens):
    evil = "<img src=x onerror=window.__x=1><script>window.__x=1</script>"
    ben = live(opens("ben", "/approvals"))
    action = ask(
        shop, title=evil, reason=evil, evidence=[{"text": evil, "for": False, "url": "javascript:window.__x=1"}]
    )
    shop.python(f"from project.lib.live import changed; changed('approvals', id={action})")
    expect(ben.locator(f'[data-key="{action}"]')).to_contain_text("<img src=x")
    ben.goto(f"/actions/{action}")
    expect(ben.locator("#detail .claim")).to_contain_text("<script>")
    assert ben.evaluate("window.__x") is None


@pytest.mark.parametrize("size", ["desk", "phone", "small"])
def test_pages_are_accessible(size, shop, opens):
    """In both themes: what depends on the theme is the contrast."""
    action = ask(shop)
    ben = opens("ben", "/", size=size, bypass_csp=True, reduced_motion="reduce")  # a row that flashes has two colours
    mine = ("/approvals", f"/actions/{action}", f"/actions/{action}/edit", "/actions", "/audit", "/practice")
    for page in ("/", *mine, "/settings", "/events", "/runs", "/triggers"):
        ben.emulate_media(color_scheme="light")
        ben.goto(page)
        for scheme, rules in (("light", RULES), ("dark", ["color-contrast"])):
            ben.emulate_media(color_scheme=scheme)
            found = Axe().run(ben, options={"runOnly": rules}).response["violations"]
            assert [(page, each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in found] == []
        wide = ben.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, page


def test_a_desk_that_went_away_is_said_and_comes_back(shop, opens):
    ben = live(opens("ben", "/"))
    shop.kill("web")
    expect(ben.locator("html")).not_to_have_attribute("data-conn", "live")
    live(ben)
    expect(ben.locator("[data-not-live]")).to_be_hidden()
