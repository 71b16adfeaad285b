"""Signing in, the first password, proving again who one is, and who sees pages at all."""

import pytest
from django.test import Client

from project.people import doors, roles
from project.people.models import User
from tests import builders
from tests.conftest import PASSWORD, person


def enter(client: Client, name: str, password: str, **more: str):
    return client.post("/sign-in", {"username": name, "password": password, **more})


def test_the_right_password_opens_the_page_that_was_asked_for(ann):
    client = Client()
    asked = client.get("/approvals?tab=decided")
    assert asked.url == "/sign-in?next=/approvals%3Ftab%3Ddecided"
    assert enter(client, "ann", PASSWORD, next="/approvals?tab=decided").url == "/approvals?tab=decided"
    assert client.get("/approvals").status_code == 200


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil.example"]
)
def test_signing_in_never_leads_out_of_the_desk(elsewhere, ann):
    assert enter(Client(), "ann", PASSWORD, next=elsewhere).url == "/"


def test_a_wrong_password_says_nothing_about_who_exists(ann):
    texts = {
        enter(Client(), name, "wrong").content.count(b"Please enter a correct username") for name in ("ann", "nobody")
    }
    assert texts == {1}


def test_ten_wrong_passwords_rest_the_name_for_a_while(ann):
    client = Client()
    answers = [enter(client, "ann", "wrong").status_code for _ in range(10)]
    assert answers[:9] == [400] * 9
    rested = enter(client, "ann", PASSWORD)
    assert rested.status_code == 429
    assert rested["Retry-After"] == "900"
    assert "_auth_user_id" not in client.session


def test_signing_out_takes_a_click(ann, sign_in):
    client = sign_in(ann)
    assert client.get("/sign-out").status_code == 405
    assert client.get("/").status_code == 200
    client.post("/sign-out")
    assert client.get("/").status_code == 302


def test_a_password_that_was_printed_must_be_changed_first(ann, sign_in):
    User.objects.filter(pk=ann.pk).update(must_change_password=True)
    client = sign_in(ann)
    assert client.get("/approvals").url == "/password"
    weak = client.post("/password", {"new_password1": "short", "new_password2": "short"})
    assert weak.status_code == 400
    fresh = "quite another long one"
    assert client.post("/password", {"new_password1": fresh, "new_password2": fresh}).url == "/"
    assert client.get("/approvals").status_code == 200
    assert enter(Client(), "ann", fresh).status_code == 302


def test_an_open_browser_alone_gets_no_new_password(ann, sign_in):
    client, fresh = sign_in(ann), "quite another long one"
    wish = {"new_password1": fresh, "new_password2": fresh}
    for old in ({}, {"password": "a guess"}):
        assert client.post("/password", wish | old).status_code == 400
    assert client.post("/password", wish | {"password": PASSWORD}).url == "/"
    assert enter(Client(), "ann", fresh).status_code == 302


def test_a_step_up_is_over_after_five_minutes(ann, sign_in, later):
    client = sign_in(ann)
    client.post("/step-up", {"password": PASSWORD, "next": "/"})
    request = client.get("/").wsgi_request
    assert doors.is_fresh(request)
    later(seconds=240)
    assert doors.is_fresh(request)
    later(seconds=61)
    assert not doors.is_fresh(request)


def test_what_was_just_done_is_said_where_the_password_is_asked_for(owner, sign_in):
    client = sign_in(owner)
    builders.source("github")
    client.post("/sources/github/secrets/end", {"number": "0", "hint": ""})
    assert "Confirm that it is you, then end the secret." in client.get("/step-up?next=/").content.decode()


def test_the_rules_of_a_password_are_sentences(ann, sign_in):
    rules = sign_in(ann).get("/password").content.decode()
    assert "characters. Your password can" in rules


@pytest.mark.parametrize(
    ("referer", "back"),
    [
        ("http://testserver/sources/backups?tab=1", "/sources/backups?tab=1"),
        ("http://testserver/step-up?next=/tokens", "/"),
        ("https://elsewhere.example/", "/"),
        ("http://testserver//elsewhere.example/", "/"),
        ("", "/"),
    ],
)
def test_back_from_a_step_up_leads_to_where_the_person_was(referer, back, ann, sign_in):
    client = sign_in(ann)
    page = client.get("/step-up?next=/sources/backups/secret", headers={"referer": referer})
    assert f'href="{back}">Back</a>' in page.content.decode()
    wrong = client.post("/step-up", {"password": "a guess", "next": "/", "back": page.context["back"]})
    assert f'href="{back}">Back</a>' in wrong.content.decode()


def test_a_step_up_is_good_in_its_own_browser_for_its_own_person(ann, ben, sign_in):
    client = sign_in(ann)
    client.post("/step-up", {"password": PASSWORD, "next": "/"})
    assert not doors.is_fresh(sign_in(ann).get("/").wsgi_request)
    client.force_login(ben, backend="django.contrib.auth.backends.ModelBackend")
    assert not doors.is_fresh(client.get("/").wsgi_request)


def test_a_step_up_that_was_taken_does_not_come_back_with_an_old_session(ann, sign_in):
    client = sign_in(ann)
    client.post("/step-up", {"password": PASSWORD, "next": "/"})
    request = client.get("/").wsgi_request
    old = client.session
    assert doors.use_up(request)
    old.save()
    assert not doors.is_fresh(request)
    assert not doors.use_up(request)


def test_a_stranger_without_a_role_sees_no_page(eve, sign_in):
    client = sign_in(eve)
    answer = client.get("/")
    assert answer.status_code == 403
    assert "You have no role yet" in answer.content.decode()
    assert client.get("/settings").status_code == 200


def test_a_part_that_refreshes_itself_is_not_sent_to_a_form():
    assert Client().get("/", headers={"x-parts": "feed"}).status_code == 401


def test_who_was_made_inactive_is_out_at_once(ann, sign_in):
    client = sign_in(ann)
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert client.get("/").status_code == 302


def test_only_operators_ring_the_desk(db, sign_in):
    viewer = sign_in(person("vic", roles.VIEWER))
    answer = viewer.post("/test-delivery")
    assert answer.status_code == 403
    assert "This needs the role operator" in answer.content.decode()


def test_times_are_said_in_the_zone_of_who_reads(ann, sign_in):
    client = sign_in(ann)
    client.post("/settings", {"time_zone": "Asia/Shanghai", "theme": "dark", "keys": "on"})
    page = client.get("/").content.decode()
    assert 'data-theme="dark"' in page
    assert "UTC+8" in page


def test_a_zone_that_is_none_is_refused(ann, sign_in):
    assert sign_in(ann).post("/settings", {"time_zone": "Mars/Base", "theme": "pink"}).status_code == 400


def test_single_keys_can_be_turned_off(ann, sign_in):
    client = sign_in(ann)
    client.post("/settings", {"time_zone": "", "theme": ""})
    assert 'data-keys="off"' in client.get("/").content.decode()


def test_pages_are_not_kept_by_the_browser(ann, sign_in):
    assert "no-store" in sign_in(ann).get("/approvals")["Cache-Control"]


def test_a_form_from_before_the_sign_in_is_explained(ann):
    client = Client(enforce_csrf_checks=True)
    answer = enter(client, "ann", PASSWORD)
    assert answer.status_code == 403
    assert "This form is too old" in answer.content.decode()


@pytest.mark.parametrize("path", ["/sign-in", "/settings/zone", "/step-up", "/test-delivery"])
@pytest.mark.parametrize("wanted", ["1", "home", "https://testserver/runs", "//elsewhere.example"])
def test_the_way_back_is_a_path_of_this_desk_or_none(path, wanted, owner, sign_in, client):
    browser = client if path == "/sign-in" else sign_in(owner)
    given = {"time_zone": "Europe/Berlin", "username": owner.username, "password": PASSWORD, "next": wanted}
    answer = browser.post(path, given)
    assert answer.status_code < 500
    assert answer.headers.get("Location", "/").startswith("/")
    assert wanted not in answer.headers.get("Location", "/")
