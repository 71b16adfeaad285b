"""A real desk, and people who look at it with Chromium. Whatever the browser complains about fails the test."""

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.processes import Desk, desk

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
PATIENCE = 60_000  # ms; a liveness limit on a machine that does much else
NOBODY = "127.0.0.1:1143"  # where sources may listen, and nothing answers
SIZES = {"desk": (1440, 900), "phone": (390, 844), "small": (320, 640)}
REFUSED = ("409 (Conflict)", "412 (Precondition Failed)", "422 (Unprocessable Entity)")
EXPECTED = (*REFUSED, "502 (Bad Gateway)", "ERR_CONNECTION_RE", "WebSocket connection")  # what a test provokes


@pytest.fixture(scope="module")
def shop() -> Iterator[Desk]:
    """A desk with the tour, started once for the file."""
    with desk(OWNER_PASSWORD="a long enough password", EGRESS_ALLOW=NOBODY) as made:
        made.start()
        yield made


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        reason = "Chromium is not installed (on Debian and Ubuntu: apt-get install chromium)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*QUIET, "--no-first-run"])
        yield browser
        browser.close()


Opener = Callable[..., Page]


@pytest.fixture
def opens(chromium: Browser, shop: Desk) -> Iterator[Opener]:
    """`opens("owner", "/approvals", size="phone")`: a browser of that person's own, signed in, at that page."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_page(who: str, page: str = "/", *, size: str = "desk", scheme: str = "light", **more: object) -> Page:
        width, height = SIZES[size]
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, base_url=shop.url, **more
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        tab = context.new_page()
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
        tab.goto("/sign-in")
        tab.fill("[name=username]", who)
        tab.fill("[name=password]", "a long enough password")
        tab.click("text=Sign in >> nth=-1")
        tab.wait_for_url("**/")
        tab.goto(page)
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in complaints if not any(word in text for word in EXPECTED)] == []


@pytest.fixture(scope="module")
def team(shop: Desk) -> None:
    """Ben and Wei review beside the owner."""
    shop.python(
        """
        from project.people import roles
        from project.people.models import User
        for name in ("ben", "wei"):
            user = User.objects.create_user(name, password="a long enough password")
            roles.grant(user, "viewer", "operator", "reviewer")
        """
    )
