"""The admin, every address and verb as the router has them: who is let in, and that nothing there goes past a door."""

import re
from collections.abc import Callable
from itertools import cycle, product

import pytest
from django.test import Client

from project.admin import EDITABLE
from project.people import roles
from project.people.models import SCOPES, User
from tests import addresses
from tests.conftest import PASSWORD, person
from tests.contract.world import API, OPERATIONS
from tests.dump import differences, everything

pytestmark = pytest.mark.django_db
SignIn = Callable[[User], Client]
ADMIN = [addresses.filled(route) for route in addresses.ADMIN]
ELSEWHERE = {
    "/admin/login/": "/sign-in",
    "/admin/password_change/": "/password",
    "/admin/password_change/done/": "/settings",
}
# Of the API, no operations: what describes it, what answers for an unknown address, and the clicks that a chat signs.
BESIDE = {"/api/v1/", "/api/v1/openapi.json", "/api/v1/docs", "/api/(?P<rest>.*)$", "/api/v1/chat/<slug:slug>"}
EDITED = [model._meta.label_lower.replace(".", "/") for model in EDITABLE]
# All windows are one class: one of them, whatever can be changed, and what belongs to no model.
EACH = [
    path for path in ADMIN if path.count("/") < 5 or any(f"/{model}/" in path for model in [*EDITED, "triggers/run"])
]
VERBS = ("GET", "POST", "HEAD", "OPTIONS", "DELETE")  # five, and a model has six addresses: each meets each


def test_no_address_of_the_router_is_forgotten() -> None:
    """Pages, operations of the API and the admin are all there is; the tests of who may walk each of the three."""
    assert len(addresses.PAGES) > 80
    assert len(ADMIN) > 300
    offered = {re.sub(r"<\w+:(\w+)>", r"{\1}", route) for route in {*addresses.API} - BESIDE}
    assert offered == {f"{API}{operation.path}" for operation in OPERATIONS}
    assert {*addresses.API} >= BESIDE


def test_it_is_for_admins(sign_in: SignIn) -> None:
    client = sign_in(person("all-but-admin", *(role for role in roles.ROLES if role != roles.ADMIN)))
    before = everything()
    for path, verb in product(ADMIN, VERBS):
        assert client.generic(verb, path).status_code == 403, (verb, path)
    assert differences(before, everything()) == {}


def test_no_token_and_no_stranger_opens_it(owner: User, with_token: Callable[..., Client]) -> None:
    for client in (with_token(owner, *SCOPES), Client()):
        for path, verb in zip(ADMIN, cycle(VERBS), strict=False):
            assert client.generic(verb, path)["location"].startswith("/sign-in"), (verb, path)


def test_no_verb_does_anything_without_the_mark_of_its_form(owner: User, sign_in: SignIn) -> None:
    """AD-07: not even for an admin who has just proved who he is: another site may have made the browser send it."""
    browser = sign_in(owner)
    browser.post("/step-up", {"password": PASSWORD, "next": "/"})
    browser.handler.enforce_csrf_checks = True
    for path, verb in zip(EACH * 2, cycle(("POST", "POST", "PUT", "PATCH", "DELETE")), strict=False):
        assert browser.generic(verb, path).status_code == 403, (verb, path)


def test_what_may_be_changed_there_is_changed_by_nobody_before_a_fresh_sign_in(owner: User, sign_in: SignIn) -> None:
    browser = sign_in(owner)
    form = {"username": "eve", "name": "eve", "post": "yes", "action": "delete_selected", "_selected_action": owner.pk}
    before = everything()
    for path in EACH:
        if path.endswith(("/add/", "/change/", "/delete/", "/password/", "/user/", "/apitoken/")):
            browser.post(path.replace("/1/", f"/{owner.pk}/"), form)
    assert differences(before, everything()) == {}


@pytest.mark.parametrize("path", ELSEWHERE)
def test_signing_in_and_passwords_are_pages_of_the_desk(path: str, owner: User, sign_in: SignIn) -> None:
    """Which throttle guesses, and write into the audit log: the admin has no second way."""
    browser, before = sign_in(owner), everything()
    given = {"old_password": "guess", "new_password1": "a longer one still", "new_password2": "a longer one still"}
    for answer in (browser.get(path), browser.post(path, given)):
        assert (answer.status_code, answer["location"]) == (302, ELSEWHERE[path])
    assert differences(before, everything()) == {}
