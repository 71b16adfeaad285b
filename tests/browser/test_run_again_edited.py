"""A run gave up on what a sender left out; Ben writes it in, sees what he changed, and runs it again."""

import json
import re
import time

import pytest
from playwright.sync_api import Route, expect

pytestmark = pytest.mark.browser
LATE = 2.5  # seconds; the page hears of what it did after a tenth of that


def comes_late(route: Route) -> None:
    """What was sent is done at once; its answer takes its time."""
    answer = route.fetch(max_redirects=0)
    time.sleep(LATE)
    route.fulfill(response=answer)


def test_a_dead_letter_is_edited_and_run_again(shop, opens, team):
    shop.command("ring", "github-fails")
    shop.until(lambda: shop.count("triggers_deadletter", "status = 'open'") == 1)
    ((letter, dead, event),) = shop.rows("SELECT id, run_id, event_id FROM triggers_deadletter")
    before = shop.rows(f"SELECT raw, data_json FROM triggers_event WHERE id = {event}")

    page = opens("ben", f"/dead-letters/{letter}")
    page.click("text=Edit and run again")
    editor = page.locator("#data")
    data = json.loads(editor.input_value())
    assert editor.input_value().startswith("{\n  ")

    editor.fill('{\n  "issue": oops\n}')
    expect(page.locator("#difference")).to_contain_text("Line 2, column 12")
    assert editor.input_value() == '{\n  "issue": oops\n}'

    data["issue"]["body"] = "How do I install it on a plain Debian?"
    editor.fill(json.dumps(data, indent=2))
    expect(page.locator("#difference .add")).to_contain_text(["How do I install it on a plain Debian?"])
    page.fill("#reason", "the sender left the text out")
    page.route("**/reruns", comes_late)
    page.click("text=Run again with this data")

    page.wait_for_url("**/runs/*")
    again = int(page.url.rpartition("/")[2])
    expect(page.locator("#run-head")).to_contain_text("Run again with edited data by ben")
    expect(page.locator("#run-head")).to_contain_text("the sender left the text out")
    expect(page.locator("#run-head .st").first).to_have_text("Done")
    page.click("text=See what was changed")
    expect(page.locator(".diff .add")).to_contain_text(["How do I install it on a plain Debian?"])

    page.goto(f"/dead-letters/{letter}")
    expect(page.locator("#letter-do")).to_contain_text("Run again with edited data by ben")
    told = shop.rows("SELECT id, status, rerun_of_id, data_json IS NULL FROM triggers_run ORDER BY id")
    assert (again, "succeeded", dead, 0) in [tuple(row) for row in told]
    assert (dead, "dead", None, 1) in [tuple(row) for row in told]
    assert shop.rows("SELECT status, redriven_as_id FROM triggers_deadletter") == [("redriven", again)]
    assert shop.rows(f"SELECT raw, data_json FROM triggers_event WHERE id = {event}") == before


def test_filters_update_the_rows_and_the_address_without_loading_the_page(shop, opens, team):
    page = opens("ben", "/runs")
    page.evaluate("window.__same = true")
    page.locator(".pick summary").nth(2).click()
    page.check("input[name=status][value=dead]")
    page.wait_for_url("**/runs?status=dead")
    expect(page.locator("#run-rows tr")).to_have_count(1)
    expect(page.locator("#f-status-words")).to_have_text("dead")
    page.check("input[name=status][value=succeeded]")
    page.wait_for_url("**/runs?status=succeeded&status=dead")
    assert page.evaluate("window.__same")
    with page.expect_download() as file:
        page.click("text=CSV")
    assert file.value.suggested_filename == "runs.csv"
    page.click("text=Clear filters")
    page.wait_for_url("**/runs")


def test_a_trigger_is_written_while_its_filter_is_tried(shop, opens):
    shop.command("ring", "github-issue")
    page = opens("owner", "/triggers/new")
    page.select_option("#id_source", "github")
    expect(page.locator("#id_type_pattern")).to_be_visible()
    page.fill("#id_type_pattern", "github.issues.*")
    page.fill("#id_filter", 'event.data.action == "opened"')
    expect(page.locator("#trials")).to_contain_text("would start it")
    page.fill("#id_filter", "event.data.action ==")
    expect(page.locator("#id_filter_error")).to_contain_text("ends too early")
    page.fill("#id_filter", 'event.data.action == "opened"')
    page.select_option("#id_source", "new:webhook")
    page.fill("#id_new-slug", "shop")
    page.select_option("#id_new-provider", "generic")
    page.select_option("#id_handler", "notify")
    expect(page.locator("#handler-doc")).to_contain_text("notify")
    expect(page.locator("#id_filter")).to_have_value('event.data.action == "opened"')
    expect(page.locator("#id_new-slug")).to_have_value("shop")
    page.fill("#id_slug", "shop-tells")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url(re.compile("shop(/|%2F)secrets"))  # behind a fresh sign-in
    assert shop.count("triggers_trigger", "slug = 'shop-tells'") == 1
    assert shop.count("triggers_source", "slug = 'shop'") == 1
