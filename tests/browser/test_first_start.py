"""A machine that never ran the desk: it prints a password, asks for a better one, and knows it after a restart."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.processes import Desk, desk

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

OWN = "a password of my own"


@pytest.fixture
def fresh() -> Iterator[Desk]:
    with desk() as made:
        yield made
        made.tell()


def test_the_printed_password_opens_once_and_ones_own_from_then_on(fresh: Desk, chromium: Browser) -> None:
    fresh.start()
    printed = fresh.password
    page = chromium.new_page(base_url=fresh.url)
    page.set_default_timeout(60_000)
    complaints: list[str] = []
    page.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))

    sign_in(page, printed)
    expect(page.get_by_role("heading", name="Choose a password")).to_be_visible()
    page.goto("/approvals")
    expect(page.get_by_role("heading", name="Choose a password")).to_be_visible()
    page.get_by_label("New password").fill(OWN)
    page.get_by_label("The same again").fill(OWN)
    page.get_by_role("button", name="Save and go on").click()
    expect(page.get_by_text("Waiting for the first event")).to_be_visible()

    page.get_by_role("button", name="Send a test delivery").click()
    expect(page.get_by_text("It rang, and a handler wants a nod")).to_be_visible()
    assert complaints == []

    fresh.stop()
    fresh.start()
    assert fresh.log.count("with the password") == 1, "it is printed on the first start only"
    page.goto("/approvals")
    expect(page.locator("#detail")).to_contain_text("What will happen")
    other = chromium.new_page(base_url=fresh.url)
    other.set_default_timeout(60_000)
    sign_in(other, printed)
    expect(other.get_by_role("alert")).to_be_visible()
    sign_in(other, OWN)
    expect(other.get_by_role("heading", name="The desk now")).to_be_attached()
    page.context.close()
    other.context.close()


def sign_in(page: Page, password: str) -> None:
    page.goto("/sign-in")
    page.get_by_label("Name").fill("owner")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
