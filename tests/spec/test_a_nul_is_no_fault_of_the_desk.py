"""No database of ours keeps a NUL. Whoever sends one, in an address or a form, is told so, on either database."""

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from project.lib import clock
from project.people import roles
from tests import addresses, builders
from tests.conftest import person
from triggers.endings import open_letter

pytestmark = pytest.mark.django_db
WORDS = (  # names of fields of our forms and of our lists' addresses
    *("to", "team", "slug", "name", "reason", "note", "q", "type", "source", "kind", "what", "text", "verdict", "by"),
    *("code", "username", "password", "handler", "trigger", "connection", "sort", "after", "tab", "who", "event"),
    *("next", "back", "pick", "path", "value", "zone", "language", "cause", "digest", "agent", "machine", "mode"),
)
LEFT_OUT = ("/sign-out", "/readyz")  # after the one nobody is signed in, the other says that no clock ticks
NULS = dict.fromkeys(WORDS, "a\x00b")
STAND_IN = {name: "a\x00b" for name, value in addresses.GIVEN.items() if not value.isdigit()}


def with_a_nul(route: str) -> str:
    """The address with a NUL in each text of its path."""
    return addresses.VARIABLE.sub(lambda one: STAND_IN.get(one[1] or one[2], "1"), route).rstrip("$")


@pytest.fixture
def browser(sign_in) -> Client:
    admin = sign_in(person("ada", roles.ADMIN, roles.OPERATOR, roles.REVIEWER))
    admin.raise_request_exception = False
    return admin


@pytest.mark.parametrize("routes", [addresses.API, addresses.ADMIN, [route for route, _ in addresses.PAGES]])
def test_it_is_told_what_it_sent(browser: Client, routes: list[str]) -> None:
    asked = [route for route in routes if route not in LEFT_OUT]
    assert asked
    for ask in (browser.get, browser.post):
        assert [route for route in asked if ask(addresses.filled(route), NULS).status_code >= 500] == []
        assert [route for route in asked if ask(with_a_nul(route)).status_code >= 500] == []


def test_a_form_that_nobody_looked_into_is_refused_in_words(browser: Client) -> None:
    letter = open_letter(clock.now(), kind="event", event=builders.event(), error_type="E", message="no")
    answer = browser.post(reverse("cause-assign", args=[letter.fingerprint]), {"to": "a\x00b"}, follow=True)
    told = {"sqlite": (200, "no active person"), "postgresql": (400, "a NUL character")}  # only one of them minds
    status, words = told[connection.vendor]
    assert answer.status_code == status
    assert words in answer.content.decode()
