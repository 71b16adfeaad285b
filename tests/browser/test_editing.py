"""Edit and approve with the real processes: what the reviewer made of it is what the practice page shows, once."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.test_deciding import ask, live, status

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("team")]


def test_what_was_edited_is_what_happens_once(shop, opens):
    shop.command("ring", "github-issue")
    shop.until(lambda: shop.count("approvals_action", "kind = 'github.create_pr' AND status = 'awaiting'") == 1)
    action = shop.rows("SELECT id FROM approvals_action WHERE kind = 'github.create_pr'")[0][0]
    ben = live(opens("ben", f"/actions/{action}"))
    ben.click("#detail >> text=Edit and approve")
    ben.wait_for_url(f"**/actions/{action}/edit**")
    before = ben.input_value("[name='a.title']")
    ben.fill("[name='a.title']", "Mended by Ben")
    changed = ben.locator("#change")
    expect(changed.locator(".del")).to_have_text(f"-{before}")
    expect(changed.locator(".add")).to_have_text("+Mended by Ben")
    assert status(shop, action) == "awaiting"
    ben.fill("[name=reason]", "says what it does")
    ben.click("text=Save and approve >> nth=-1")
    card = ben.locator("#detail")
    expect(card).to_contain_text("Edited by ben, revision 1 to 2: “says what it does”")
    expect(card).to_contain_text("The pull request went out once.")
    ben.goto("/practice")
    posts = ben.locator("#posts article", has_text="Mended by Ben")
    expect(posts).to_have_count(1)
    assert shop.count("approvals_practiceitem", "action_id = ?", action) == 1
    assert before not in ben.locator("#posts").inner_text()


def test_what_cannot_be_sent_is_said_beside_its_field_and_nothing_typed_is_lost(shop, opens):
    action = ask(shop)
    ben = live(opens("ben", f"/actions/{action}/edit"))
    ben.fill("[name='a.number']", "seven")
    ben.fill("[name='a.body']", "A long and careful text.")
    expect(ben.locator("#change .err")).to_contain_text("number: write a number")
    ben.click("text=Save and approve >> nth=-1")
    expect(ben.locator("[id='e-a.number']")).to_contain_text("write a number")
    expect(ben.locator("[name='a.body']")).to_have_value("A long and careful text.")
    ben.fill("[name='a.number']", "8")
    ben.click("text=Save and approve >> nth=-1")
    shop.until(lambda: status(shop, action) in ("approved", "delivering", "delivered"))


def test_two_edit_at_once_and_the_slower_one_sees_what_the_other_made_of_it(shop, opens):
    action = ask(shop, needed=2)
    ben, wei = (live(opens(name, f"/actions/{action}/edit")) for name in ("ben", "wei"))
    ben.fill("[name='a.body']", "Half of a")
    wei.fill("[name='a.body']", "Thanks from Wei.")
    wei.click("text=Save and approve >> nth=-1")
    wei.wait_for_url(re.compile(r"/(actions|approvals)[^/]*"))
    shop.until(lambda: shop.rows("SELECT revision FROM approvals_action WHERE id = ?", action)[0][0] == 2)
    expect(ben.locator("[name='a.body']")).to_have_value("Half of a")
    ben.click("text=Save and approve >> nth=-1")
    expect(ben.locator("[data-refused=changed]")).to_contain_text("The request changed while you read it")
    expect(ben.locator("#change .del")).to_have_text("-Thanks from Wei.")
    expect(ben.locator("[name='a.body']")).to_have_value("Half of a")


def test_it_works_without_javascript(shop, opens):
    action = ask(shop)
    ben = opens("ben", f"/actions/{action}/edit", java_script_enabled=False)
    ben.fill("[name='a.body']", "Plain thanks.")
    ben.click("text=Show what changed")
    expect(ben.locator("#change .add")).to_have_text("+Plain thanks.")
    ben.click("text=Save and approve >> nth=-1")
    shop.until(lambda: status(shop, action) in ("approved", "delivering", "delivered"))
