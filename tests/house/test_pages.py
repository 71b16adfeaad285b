"""Every address of the desk, also one that is added tomorrow: closed to strangers, and harmless to look at."""

import pytest
from django.test import Client

from tests import addresses

OPEN = {"sign-in", "readyz", "metrics"}  # answer anybody, the last two on this machine
FOR_EVERYBODY = {"password-change", "settings"}  # one's own account: any person who is signed in
ALL = sorted(
    (addresses.filled(route), name) for route, name in addresses.PAGES
)  # the admin and the API: tests/contract


def test_addresses_are_found_and_named():
    assert len(ALL) > 40
    assert [path for path, name in ALL if not name or "<" in path] == []


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "name"), ALL)
def test_a_stranger_sees_nothing(path, name):
    answer = Client().get(path)
    if name in OPEN:
        assert answer.status_code in (200, 503)
    elif answer.status_code == 302:
        assert answer["location"].startswith("/sign-in")
    else:
        assert answer.status_code in (401, 403, 404, 405)


@pytest.mark.parametrize(("path", "name"), ALL)
def test_somebody_without_a_role_sees_nothing(eve, sign_in, path, name):
    expected = {200} if name in OPEN | FOR_EVERYBODY else {302, 403, 404, 405}
    answer = sign_in(eve).get(path)
    assert answer.status_code in expected | ({302, 503} if name in OPEN else set())
    assert answer.status_code != 302 or answer["location"].split("?")[0] in ("/sign-in", "/")


@pytest.mark.parametrize(("path", "name"), ALL)
def test_a_form_needs_the_token_of_its_page(owner, path, name):
    """Nothing is done for a POST that another site made the browser send."""
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    assert browser.post(path).status_code in (403, 405)
