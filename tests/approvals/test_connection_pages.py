"""Connections: an admin who has just proved who he is changes them; stored credentials are never shown."""

import pytest
from django.urls import reverse

from approvals.carriers import CARRIERS
from approvals.connection_systems import FORMS, SYSTEMS
from approvals.kinds import KINDS
from approvals.models import Connection
from project.lib import clock, crypto
from tests import builders
from triggers.models import Audit

pytestmark = pytest.mark.django_db
TOKEN = "ghp_a-very-secret-token"


@pytest.fixture
def admin(owner, sign_in):
    return sign_in(owner)


@pytest.fixture
def fresh(admin):
    admin.post(reverse("step-up"), {"password": "a long enough password", "next": "/"})
    return admin


def test_making_one_asks_for_the_password_first(admin):
    page = reverse("connection-new") + "?system=github"
    assert admin.get(reverse("connection-new")).status_code == 200
    assert admin.get(page).url.startswith(reverse("step-up"))
    answer = admin.post(reverse("connection-new"), {"system": "github", "slug": "acme", "token": TOKEN})
    assert answer.status_code == 403
    assert "Confirm that it is you" in answer.content.decode()
    assert not Connection.objects.exists()


def test_a_token_is_stored_sealed_and_never_shown(fresh, owner):
    fresh.post(reverse("connection-new"), {"system": "github", "slug": "acme", "token": TOKEN, "api_url": ""})
    row = Connection.objects.get(slug="acme")
    assert row.secrets == {"token": TOKEN}
    assert TOKEN not in row.sealed_secrets
    for page in (reverse("connections"), reverse("connection-edit", args=["acme"])):
        assert TOKEN not in fresh.get(page).content.decode()
    assert TOKEN not in str(list(Audit.objects.values()))
    assert Audit.objects.filter(verb="create", ref="acme", by=owner).exists()


def test_an_empty_token_keeps_the_stored_one(fresh):
    fresh.post(reverse("connection-new"), {"system": "github", "slug": "acme", "token": TOKEN})
    fields = {"name": "Acme", "api_url": "https://github.example/api/v3/", "token": "", "version": "1"}
    fresh.post(reverse("connection-edit", args=["acme"]), fields)
    row = Connection.objects.get(slug="acme")
    assert row.secrets == {"token": TOKEN}
    assert row.config == {"api_url": "https://github.example/api/v3"}
    assert row.version == 2


def test_a_stale_form_changes_nothing(fresh):
    row = builders.connection("github", slug="acme")
    fresh.post(reverse("connection-edit", args=["acme"]), {"name": "First", "practice": "on", "version": "1"})
    answer = fresh.post(reverse("connection-edit", args=["acme"]), {"name": "Second", "practice": "on", "version": "1"})
    row.refresh_from_db()
    assert answer.status_code == 409
    assert row.name == "First"


def test_a_real_one_needs_a_token_and_a_practice_one_does_not(fresh):
    answer = fresh.post(reverse("connection-new"), {"system": "github", "slug": "acme", "token": ""})
    assert answer.status_code == 422
    assert answer.context["form"].errors["token"]
    fresh.post(reverse("connection-new"), {"system": "github", "slug": "acme", "token": "", "practice": "on"})
    assert Connection.objects.get(slug="acme").practice


def test_headers_are_read_line_by_line(fresh):
    page = reverse("connection-new")
    bad = fresh.post(page, {"system": "http", "slug": "crm", "headers": "no colon here"})
    assert bad.context["form"].errors["headers"]
    headers = {
        "headers": "Authorization: Bearer abc\nX-Team: night: desk",
        "hosts": "api.example.org, crm.example:8443",
    }
    fresh.post(page, {"system": "http", "slug": "crm", **headers})
    row = Connection.objects.get(slug="crm")
    assert row.secrets == {"Authorization": "Bearer abc", "X-Team": "night: desk"}
    assert row.config == {"hosts": ["api.example.org", "crm.example:8443"]}


def test_headers_without_hosts_are_refused_also_later(fresh):
    page = reverse("connection-new")
    bad = fresh.post(page, {"system": "http", "slug": "crm", "headers": "Authorization: Bearer abc"})
    assert bad.context["form"].errors["hosts"]
    row = builders.connection("http", slug="crm", sealed_secrets=crypto.seal({"X-Key": "abc"}), config={"hosts": ["x"]})
    bad = fresh.post(reverse("connection-edit", args=["crm"]), {"version": row.version, "hosts": ""})
    assert bad.context["form"].errors["hosts"]


SMTP = {"system": "smtp", "slug": "post", "host": "smtp.invalid", "sender": "desk@example.org", "security": "starttls"}


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({**SMTP, "host": "127.0.0.1"}, "host"),
        ({**SMTP, "host": ""}, "host"),
        ({**SMTP, "sender": "Desk <desk@example.org>"}, "sender"),
        ({**SMTP, "security": "none", "username": "desk", "password": "x"}, "security"),
        ({"system": "slack", "slug": "s"}, "webhook_url"),
        ({"system": "slack", "slug": "s", "token": "xoxb-1"}, "channel"),
        ({"system": "feishu", "slug": "f", "webhook_url": "http://127.0.0.1/hook"}, "webhook_url"),
        ({"system": "feishu", "slug": "f", "secret": "x"}, "webhook_url"),
        ({"system": "wecom", "slug": "w"}, "webhook_url"),
        ({"system": "stripe", "slug": "p"}, "key"),
    ],
)
def test_what_would_fail_at_night_is_refused_when_it_is_saved(fresh, fields, wrong):
    answer = fresh.post(reverse("connection-new"), fields)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [wrong]


def test_every_system_has_a_form_that_stores_its_secrets_sealed(fresh):
    hook = {"webhook_url": f"https://hooks.invalid/{TOKEN}"}
    fresh.post(reverse("connection-new"), {**SMTP, "port": "2525", "username": "desk", "password": TOKEN})
    fresh.post(reverse("connection-new"), {"system": "slack", "slug": "s", "token": TOKEN, "channel": "C1"})
    fresh.post(reverse("connection-new"), {"system": "feishu", "slug": "f", "secret": TOKEN, **hook})
    fresh.post(reverse("connection-new"), {"system": "wecom", "slug": "w", **hook})
    fresh.post(reverse("connection-new"), {"system": "stripe", "slug": "p", "key": TOKEN})
    rows = {row.slug: row for row in Connection.objects.all()}
    mail = {"host": "smtp.invalid", "port": 2525, "security": "starttls", "username": "desk"}
    assert rows["post"].config == {**mail, "sender": "desk@example.org"}
    assert rows["post"].secrets == {"password": TOKEN}
    assert (rows["s"].config, rows["s"].secrets) == ({"channel": "C1"}, {"token": TOKEN})
    assert (rows["f"].secrets, rows["w"].secrets) == ({**hook, "secret": TOKEN}, hook)
    assert rows["p"].secrets == {"key": TOKEN}
    for slug in rows:
        assert TOKEN not in fresh.get(reverse("connection-edit", args=[slug])).content.decode()


def test_one_of_two_secrets_typed_anew_leaves_the_other(fresh):
    hook = f"https://hooks.invalid/{TOKEN}"
    fresh.post(reverse("connection-new"), {"system": "feishu", "slug": "f", "webhook_url": hook, "secret": "old"})
    fresh.post(reverse("connection-edit", args=["f"]), {"version": "1", "secret": "new"})
    assert Connection.objects.get(slug="f").secrets == {"webhook_url": hook, "secret": "new"}


def test_each_kind_has_a_form_for_its_connection():
    assert {kind.system for kind in KINDS.values()} - {""} | set(CARRIERS) == set(FORMS) == set(SYSTEMS)


def test_a_taken_name_is_said(fresh):
    builders.connection("github", slug="acme")
    answer = fresh.post(reverse("connection-new"), {"system": "github", "slug": "acme", "practice": "on"})
    assert answer.status_code == 422
    assert answer.context["form"].errors["slug"]


def test_who_may_only_look_sees_no_form_and_is_refused(ann, sign_in):
    builders.connection("github", slug="acme")
    browser = sign_in(ann)
    page = reverse("connection-edit", args=["acme"])
    assert '<form class="stack mid"' not in browser.get(page).content.decode()
    assert browser.post(page, {"name": "x", "version": "1"}).status_code == 403
    assert browser.get(reverse("connection-new")).status_code == 403
    assert browser.post(reverse("connection-archive", args=["acme"])).status_code == 403


def test_archiving_asks_for_the_password(admin, fresh, owner):
    row = builders.connection("github", slug="acme")
    fresh.post(reverse("connection-archive", args=["acme"]))
    row.refresh_from_db()
    assert row.archived_at


def test_an_archived_one_cannot_be_changed(fresh):
    row = builders.connection("http", archived_at=clock.now())
    answer = fresh.post(reverse("connection-edit", args=[row.slug]), {"practice": "on", "version": row.version})
    assert answer.status_code == 404
