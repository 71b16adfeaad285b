"""The admin is a window: nothing about events, runs or actions can be changed there, by anybody."""

import re

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group
from django.urls import reverse

from approvals.models import Action, Asking, Channel, Click, Notice
from project import urls
from project.admin import EDITABLE, HIDDEN
from project.lib import clock
from project.people import roles
from project.people.models import ApiToken, User
from tests import builders
from tests.conftest import PASSWORD, person
from triggers.models import Audit, Run

assert urls.urlpatterns  # the admin is furnished when the addresses are read
WINDOWS = [model for model in admin.site._registry if model not in EDITABLE]


def address(model, page, *args):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


@pytest.fixture
def desk(owner, sign_in):
    return sign_in(owner)


@pytest.fixture
def fresh(desk):
    desk.post("/step-up", {"password": PASSWORD, "next": "/"})
    return desk


@pytest.mark.parametrize("model", WINDOWS, ids=lambda model: model._meta.label)
def test_a_window_opens_and_takes_nothing_in(model, fresh):
    assert fresh.get(address(model, "changelist")).status_code == 200
    assert fresh.post(address(model, "add"), {}).status_code == 403
    assert b"delete_selected" not in fresh.get(address(model, "changelist")).content


def test_a_row_can_be_read_but_neither_changed_nor_deleted(fresh):
    """AD-07: nothing happens by opening an address."""
    run = builders.run()
    page = fresh.get(address(Run, "change", run.pk))
    assert (page.status_code, "⟨U+" in page.text) == (200, False)
    assert fresh.post(address(Run, "change", run.pk), {"status": "succeeded"}).status_code == 403
    assert fresh.post(address(Run, "delete", run.pk), {"post": "yes"}).status_code == 403
    fresh.post(address(Run, "changelist"), {"action": "delete_selected", "_selected_action": run.pk, "post": "yes"})
    run.refresh_from_db()
    assert run.status == "queued"


def test_windows_show_no_secret_and_no_foreign_payload(fresh):
    source = builders.source()
    event = builders.event(source=source, data={"word": "foreign-payload"})
    for row in (source, event):
        page = fresh.get(address(type(row), "change", row.pk)).content.decode()
        assert "foreign-payload" not in page
        assert all(f"field-{name}" not in page for name in HIDDEN)


def test_what_people_were_told_and_what_they_pressed_can_be_read_there(fresh, ann):
    way = builders.connection("slack", practice=False)
    own = {"connection": way, "person": ann}
    channel = Channel.objects.create(address="U1", code="hash-of-the-code", created_at=clock.now(), **own)
    asking = Asking.objects.create(action=builders.action(), revision=1, asked_at=clock.now())
    notice = Notice.objects.create(asking=asking, channel=channel, person=ann, what="ask", due_at=clock.now())
    click = Click.objects.create(claim="T1.2", identity="T1/U1", outcome="self_approval", at=clock.now(), **own)
    for row, words in ((notice, ("ann", "due")), (click, ("T1/U1", "self_approval")), (channel, ("U1",))):
        for page in (address(type(row), "changelist"), address(type(row), "change", row.pk)):
            told = fresh.get(page).content.decode()
            assert [word for word in words if word not in told] == [], page
            assert "hash-of-the-code" not in told
        assert fresh.post(address(type(row), "change", row.pk), {"outcome": "approved"}).status_code == 403
        assert fresh.post(address(type(row), "delete", row.pk), {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("model", EDITABLE, ids=lambda model: model._meta.label)
def test_what_can_be_changed_asks_for_a_fresh_sign_in(model, desk):
    assert desk.get(address(model, "changelist")).status_code == 200
    answer = desk.get(address(model, "add"))
    assert answer.status_code == 302
    assert answer.url.startswith("/step-up?next=%2Fadmin%2F")


def test_a_second_person_is_made_with_a_first_password(fresh, owner):
    page = fresh.get(address(User, "add")).content.decode()
    names = ("username", "password1", "password2")
    assert [f'name="{name}"' in page for name in names] == [True] * 3
    answer = fresh.post(address(User, "add"), dict(zip(names, ("wei", *["a long enough password"] * 2), strict=True)))
    assert answer.status_code == 302, answer.context["errors"]
    assert User.objects.get(username="wei").check_password("a long enough password")
    assert Audit.objects.get(verb="create", kind="user").by == owner


def test_a_password_that_an_admin_set_is_changed_at_the_next_sign_in(fresh, ann, client):
    page = fresh.get(address(User, "add")).content.decode()
    ticked = re.search(r'<input[^>]*name="must_change_password"[^>]*>', page)
    assert ticked, "somebody who made the password need not leave it on"
    assert "checked" in ticked[0]
    given = {"username": "wei", **dict.fromkeys(("password1", "password2"), "a long enough password")}
    fresh.post(address(User, "add"), {**given, "must_change_password": "on"})
    new = dict.fromkeys(("password1", "password2"), "quite another long one")
    fresh.post(f"/admin/people/user/{ann.pk}/password/", {**new, "usable_password": "true"})
    for name, password in (("wei", "a long enough password"), ("ann", "quite another long one")):
        client.post("/sign-in", {"username": name, "password": password})
        assert client.get("/approvals").url == "/password"
        client.post("/sign-out")


def test_a_person_is_changed_and_the_audit_log_says_by_whom(fresh, owner, ann):
    form = {"username": "ann", "first_name": "Ann", "last_name": "", "email": "", "is_active": "on"}
    answer = fresh.post(address(User, "change", ann.pk), form)
    assert answer.status_code == 302, answer.context["errors"]
    ann.refresh_from_db()
    assert ann.first_name == "Ann"
    row = Audit.objects.get(verb="change", kind="user", ref=str(ann.pk))
    assert row.by == owner
    assert "first_name" in row.detail["fields"]


def test_a_new_password_is_set_only_after_a_fresh_sign_in(desk, ann):
    assert desk.get(f"/admin/people/user/{ann.pk}/password/").url.startswith("/step-up")


def test_a_token_is_never_shown_again(fresh, ann):
    token, secret = ApiToken.objects.all().issue(user=ann, service="", name="laptop", scopes=["read"])
    page = fresh.get(address(ApiToken, "change", token.pk)).content.decode()
    assert secret not in page
    assert token.hash not in page
    assert fresh.post(address(ApiToken, "add"), {}).status_code == 403


def test_each_role_that_is_given_or_taken_has_its_row_in_the_log(fresh, owner, ben):
    wanted = Group.objects.filter(name__in=[roles.VIEWER, roles.OPERATOR])
    form = {"username": "ben", "first_name": "", "last_name": "", "email": "", "is_active": "on"}
    answer = fresh.post(address(User, "change", ben.pk), {**form, "groups": [group.pk for group in wanted]})
    assert answer.status_code == 302, answer.context["errors"]
    told = Audit.objects.filter(kind="group").order_by("pk")
    assert [(row.verb, row.by, row.detail) for row in told] == [
        ("join", owner, {"name": "operator", "person": "ben"}),
        ("leave", owner, {"name": "reviewer", "person": "ben"}),
    ]


def test_a_token_that_was_revoked_stays_revoked(fresh, ann):
    token, _ = ApiToken.objects.all().issue(user=ann, service="", name="laptop", scopes=["read"])
    token.revoke()
    form = {"name": "old laptop", "revoked_at_0": "", "revoked_at_1": "", "revoked_at": ""}
    assert fresh.post(address(ApiToken, "change", token.pk), form).status_code == 302
    token.refresh_from_db()
    assert (token.name, token.revoked_at is not None) == ("old laptop", True)


@pytest.mark.parametrize("held", [(), (roles.VIEWER, roles.OPERATOR, roles.REVIEWER)])
def test_the_admin_is_closed_to_everybody_else(held, db, sign_in):
    client = sign_in(person("x", *held))
    assert client.get("/admin/").status_code == 403
    assert client.get(address(Run, "changelist")).status_code == 403


def test_a_superuser_without_the_role_is_nobody_here(sign_in, db):
    root = User.objects.create_superuser("root", password=PASSWORD)
    roles.grant(root, roles.VIEWER)
    assert sign_in(root).get("/admin/").status_code == 403


def test_the_index_calls_every_kind_of_row_by_a_word(fresh):
    index = fresh.get(reverse("admin:index")).content.decode().lower()
    assert "deliveries seen" in index
    for odd in ("switchs", "seens", "tallys", "counteds", "watchs"):
        assert odd not in index


def test_a_button_asks_first_and_then_calls_the_door_of_everybody(fresh, owner):
    run = builders.run()
    button = address(Run, "cancel", run.pk)
    assert button in fresh.get(address(Run, "change", run.pk)).content.decode()
    asked = fresh.get(button).content.decode()
    assert "Cancel this run: R-" in asked or f"Cancel this run: {run}" in asked
    run.refresh_from_db()
    assert run.status == "queued", "looking changes nothing"
    assert fresh.post(button, {"reason": "a test"}).url == address(Run, "change", run.pk)
    run.refresh_from_db()
    assert (run.status, run.ended_by) == ("cancelled", owner)
    assert Audit.objects.filter(kind="run", ref=run.pk, by=owner).exists()
    again = fresh.post(button, {"reason": "once more"}, follow=True).content.decode()
    assert "ended" in again


def test_what_a_button_may_not_do_it_says_and_leaves(fresh, ann, sign_in):
    ended = {"decided_at": clock.now(), "settled_at": clock.now()}
    action = builders.action(by=ann, status="delivered", **ended)
    told = fresh.post(address(Action, "withdraw", action.pk), {"reason": "too late"}, follow=True).content.decode()
    assert "decided" in told or "ended" in told
    action.refresh_from_db()
    assert action.status == "delivered"
    run = builders.run()
    admin_only = sign_in(person("adam", roles.ADMIN))
    assert admin_only.post(address(Run, "cancel", run.pk)).status_code == 403
    assert fresh.delete(address(Run, "cancel", run.pk)).status_code == 404
    assert fresh.get(address(Run, "cancel", run.pk + 1)).status_code == 404
