"""A new desk, one person, no reload: an event rings, a handler asks, the person nods, the world changes once."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SAME = "window.__same = true"  # gone when the page was loaded anew


def test_the_whole_story_without_a_reload(shop, opens):
    home = opens("owner")
    expect(home.locator("text=Waiting for the first event")).to_be_visible()
    expect(home.locator("#ring-line")).to_have_text("make ring NAME=github-issue")
    expect(home.locator("html")).to_have_attribute("data-conn", "live")
    home.evaluate(SAME)
    shop.manage("ring", "github-issue")  # the second shell
    expect(home.locator("text=It rang, and a handler wants a nod")).to_be_visible()
    expect(home.locator("#rail .count.wait")).to_have_text("1")
    expect(home).to_have_title("(1) Home · DEV")
    assert home.evaluate("window.__same")

    practice = home.context.new_page()
    practice.goto("/practice")
    expect(practice.locator("text=Nothing was delivered yet")).to_be_visible()
    practice.evaluate(SAME)

    home.click("#first a.btn.primary")
    card = home.locator("#detail")
    expect(card.locator("text=What will happen")).to_be_visible()
    expect(card.locator(".facts").first).to_contain_text("Undo?")
    expect(card.locator(".tier")).to_have_text("Medium risk")
    home.click("button[value=approve]")
    expect(card.locator(".toast")).to_contain_text("Approved. The pull request goes out in")
    home.evaluate(SAME)
    expect(card.locator("text=The pull request went out once.")).to_be_visible()
    assert home.evaluate("window.__same")

    expect(practice.locator("#posts article")).to_have_count(2)
    expect(practice.locator("#posts")).to_contain_text("Comment on acme/shop#")
    expect(practice.locator("#posts")).to_contain_text("Open a pull request in acme/shop")
    assert practice.evaluate("window.__same")

    shop.until(lambda: shop.count("triggers_run", "status = 'succeeded'") == 1)
    runs = shop.count("triggers_run")
    shop.command("ring", "github-issue", "--again")
    assert shop.count("triggers_run") == runs
    assert shop.count("triggers_event", "source_id IS NOT NULL") == 1


def test_a_delivery_from_the_button_arrives_too(shop, opens):
    before = shop.count("triggers_event", "source_id IS NOT NULL")
    home = opens("owner")
    shop.python("from approvals.models import PracticeItem, Action; PracticeItem.objects.all().delete()")
    shop.python("from approvals.models import Action; Action.objects.filter(tier='medium').update(tier='low')")
    home.reload()
    home.click("text=Send another test delivery")
    expect(home.locator(".banner.success")).to_contain_text("Delivered and accepted as E-")
    assert shop.count("triggers_event", "source_id IS NOT NULL") == before + 1


def test_what_gave_up_is_found_and_run_again_from_the_browser(shop, opens):
    home = opens("owner")
    expect(home.locator("html")).to_have_attribute("data-conn", "live")
    shop.command("ring", "github-fails")
    expect(home.locator("#rail .count.fail")).to_have_text("1")
    home.click("#rail >> text=Dead letters")
    expect(home.locator("#letters tbody tr")).to_have_count(1)
    expect(home.locator("#letters tbody tr")).to_contain_text("triage-issue")
    runs = shop.count("triggers_run")
    letter = shop.rows("SELECT id FROM triggers_deadletter WHERE status = 'open'")[0][0]
    home.goto(f"/dead-letters/{letter}")
    home.get_by_role("button", name="Run again", exact=True).first.click()
    shop.until(lambda: shop.count("triggers_run") == runs + 1)


@pytest.mark.parametrize("page", ["/events", "/runs", "/dead-letters"])
def test_the_fields_of_a_filter_bar_stand_on_one_line(opens, page):
    tab = opens("owner", page)
    tops = tab.locator(".filters > .field").evaluate_all("fields => fields.map(one => one.getBoundingClientRect().top)")
    assert len(tops) > 1
    assert len({round(top) for top in tops}) == 1, tops
