"""What people see while others decide: the truth, within a moment, and nothing they typed is lost."""

import json
import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.processes import Desk

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("team")]

LATE = 2.5  # seconds; the page hears of what it did after a tenth of that


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


def press(page: Page, key: str, *, until: Callable[[], object], every: int = 1000) -> None:
    """A key is dead for a moment after the page changed: who sees nothing come of it presses again, as this does."""
    for _ in range(60_000 // every):
        page.keyboard.press(key)
        page.wait_for_timeout(every)
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


def test_twenty_requests_are_answered_one_after_the_other_without_a_mouse(shop, opens):
    """The next one opens by itself, and a key says nothing to a card before it was there for a second."""
    asked = [ask(shop, take_back_for=60) for _ in range(20)]
    ben = live(opens("ben", "/approvals"))
    press(ben, "a", until=lambda: shop.count("approvals_action", "status = 'awaiting'") == 0, every=300)
    assert {status(shop, one) for one in asked} == {"approved"}
    said = shop.rows("SELECT action_id, verdict FROM approvals_decision WHERE action_id >= ?", asked[0])
    assert sorted(said) == [(one, "approve") for one in asked]


def test_a_key_decides_what_one_looks_at_and_never_behind_one_that_leads(shop, opens):
    first, second = (ask(shop, title=name, take_back_for=60) for name in ("Looked at", "In focus"))
    ben = live(opens("ben", f"/approvals?sel={first}"))
    ben.wait_for_timeout(500)
    ben.keyboard.press("g")
    ben.wait_for_timeout(1300)
    ben.keyboard.press("a")
    ben.wait_for_timeout(500)
    ben.locator(f".arow[data-key='{second}']").focus()
    ben.wait_for_timeout(500)
    ben.keyboard.press("a")
    ben.wait_for_url(f"**sel={second}*")
    assert (status(shop, first), status(shop, second)) == ("awaiting", "awaiting")
    press(ben, "a", until=lambda: status(shop, second) == "approved")
    press(ben, "a", until=lambda: status(shop, first) == "approved")


def test_who_switched_single_keys_off_decides_with_the_tab_key(shop, opens):
    action = ask(shop)
    ben = live(opens("ben", "/settings"))
    ben.uncheck("#id_keys")
    ben.get_by_role("button", name="Save").click()
    ben.goto(f"/actions/{action}")
    live(ben)
    ben.wait_for_timeout(1500)
    ben.keyboard.press("a")
    ben.locator(".decide [name=reason]").focus()
    ben.keyboard.press("Tab")
    ben.keyboard.press("Tab")
    assert ben.evaluate("document.activeElement.value") == "approve"
    assert status(shop, action) == "awaiting"
    ben.keyboard.press("Enter")
    shop.until(lambda: status(shop, action) != "awaiting")
    ben.goto("/settings")
    ben.check("#id_keys")
    ben.get_by_role("button", name="Save").click()


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


@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize(("verdict", "other"), [("reject", "approve"), ("approve", "reject")])
def test_a_note_on_what_is_high_is_still_for_its_verdict_after_the_password(shop, opens, script, verdict, other):
    action = ask(shop, tier="high")
    ben = opens("ben", f"/actions/{action}", java_script_enabled=script)
    ben.fill(".decide [name=reason]", "seen by phone")
    ben.wait_for_timeout(1000)
    ben.click(f".decide [value={verdict}]")
    ben.wait_for_url("**/step-up?**")
    ben.fill("[name=password]", "a long enough password")
    ben.click("form:has([name=password]) button")
    ben.wait_for_url(f"**/actions/{action}")
    expect(ben.locator(".decide [name=reason]")).to_have_value("seen by phone")
    ben.wait_for_timeout(1000)
    if script:
        ben.click(f".decide [value={other}]")
        said = ben.locator(".decide [name=reason]").evaluate("field => field.validationMessage")
        assert said.startswith("This note was written for another verdict")
    assert status(shop, action) == "awaiting"
    ben.click(f".decide [value={verdict}]")
    shop.until(lambda: status(shop, action) != "awaiting")
    assert (status(shop, action) == "rejected") is (verdict == "reject")
    assert shop.rows("SELECT reason FROM approvals_decision WHERE action_id = ?", action) == [("seen by phone",)]


def test_everything_works_without_javascript(shop, opens):
    action = ask(shop)
    ben = opens("ben", f"/actions/{action}", java_script_enabled=False)
    ben.wait_for_timeout(1000)  # he decided another one a moment ago: without a script the door tells a second click
    ben.click("button[value=approve]")
    shop.until(lambda: status(shop, action) in ("approved", "delivering", "delivered"))


def test_on_a_phone_a_row_opens_its_own_page_and_the_bar_stays_in_reach(shop, opens):
    against = {"text": "The issue was closed a minute ago", "for": False}
    action = ask(shop, evidence=[against], reversible="The comment can be deleted.", blast_radius="1 issue")
    ben = live(opens("ben", "/approvals", size="phone"))
    ben.click(f'[data-key="{action}"]')
    ben.wait_for_url(f"**/actions/{action}")
    box = ben.locator("button[value=approve]").bounding_box()
    assert box["y"] + box["height"] <= 844
    assert box["height"] >= 44
    bar = ben.locator(".decide").bounding_box()
    assert bar["height"] <= 844 / 5
    first = [".tier", "h1", ".score", ".tip.bad", "#detail .facts >> nth=0", "#detail h2:has-text('What will happen')"]
    ends = [box["y"] + box["height"] for box in (ben.locator(one).bounding_box() for one in first)]
    assert ends == sorted(ends)
    why = ben.locator("#detail .facts >> nth=1").bounding_box()
    assert ends[-1] < ben.locator("#detail .kv dd >> nth=1").bounding_box()["y"] < bar["y"] < why["y"]


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


def test_a_desk_that_went_away_is_said_and_comes_back(shop, opens):
    ben = live(opens("ben", "/"))
    shop.kill("web")
    expect(ben.locator("html")).not_to_have_attribute("data-conn", "live")
    live(ben)
    expect(ben.locator("[data-not-live]")).to_be_hidden()
