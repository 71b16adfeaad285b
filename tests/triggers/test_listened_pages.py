"""A source that is listened to is made in the browser and over the API, and its page says how the listening goes."""

import pytest
from django.urls import reverse

from project.lib import clock
from tests.contract.world import API
from tests.imap_server import PASSWORD, ImapServer
from tests.listening import listened
from triggers.models import Source, Watch

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(owner, sign_in):
    return sign_in(owner)


@pytest.fixture
def far(settings):
    with ImapServer() as server:
        settings.EGRESS_ALLOW = [f"127.0.0.1:{server.port}"]
        yield server


def typed(**config):
    """A filled-in form of a mailbox."""
    given = {"host": "127.0.0.1", "security": "none", "username": "desk@example.org", "folders": "INBOX\nOrders"}
    fields = {
        f"config-{name}": value for name, value in {**given, "start": "new", "automatic": "suppress", **config}.items()
    }
    return {"kind": "email", "slug": "post", **fields}


def test_a_mailbox_is_made_by_a_form_and_then_asked_for_its_password(admin, far):
    page = admin.get(reverse("source-new"), {"kind": "email"}).content.decode()
    assert "IMAP server" in page
    answer = admin.post(reverse("source-new"), typed(port=far.port))
    row = Source.objects.get(slug="post")
    assert answer.url == reverse("source-secret", args=["post"])
    assert row.config == {
        "host": "127.0.0.1",
        "port": far.port,
        "security": "none",
        "username": "desk@example.org",
        "folders": ["INBOX", "Orders"],
    }
    admin.post(reverse("step-up"), {"password": "a long enough password", "next": "/"})
    page = admin.get(reverse("source-secret", args=["post"])).content.decode()
    assert ("Give it a password" in page, "Address for the sender" in page) == (True, False)
    admin.post(reverse("source-secret", args=["post"]), {"value": PASSWORD})
    row.refresh_from_db()
    assert [one["value"] for one in row.secrets] == [PASSWORD]
    page = admin.get(reverse("source-edit", args=["post"])).content.decode()
    assert (PASSWORD in page, "Change the password" in page) == (False, True)


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"host": ""}, "host", "Field required"),
        ({"host": "192.168.7.1"}, "host", "EGRESS_ALLOW can name it"),
        ({"port": "70000"}, "port", "65535"),
        ({"port": "25"}, "host", "not a mail port"),
        ({"folders": ""}, "folders", "at least 1 item"),
    ],
)
def test_what_makes_no_sense_is_refused_at_its_field(admin, far, changes, field, said):
    answer = admin.post(reverse("source-new"), typed(port=far.port) | {f"config-{k}": v for k, v in changes.items()})
    assert answer.status_code == 422
    assert said in answer.context["form"].inner.errors[field][0]
    assert not Source.objects.exists()


@pytest.mark.parametrize(
    ("health", "said"),
    [
        (None, "Nobody listens right now"),
        ({"status": "watching", "facts": {"lag": 7}}, "Lag</dt><dd>7"),
        ({"status": "watching", "detail": "3 entries were trimmed"}, "3 entries were trimmed"),
        ({"status": "held", "detail": "The queue is full."}, "It waits for room"),
        ({"status": "failed", "detail": "no way"}, "It cannot be listened to"),
    ],
)
def test_its_page_says_how_the_listening_goes(admin, far, health, said):
    source = listened("email", "post", secret=PASSWORD, host="127.0.0.1", username="desk")
    if health:
        Watch.objects.create(source=source, since=clock.now(), looked_at=clock.now(), **health)
    assert said in admin.get(reverse("source-edit", args=["post"])).content.decode()
    assert admin.get(reverse("sources")).status_code == 200


def test_the_connection_is_tried_by_a_button_and_over_the_api(admin, far, owner, sign_in, ann):
    given = {"host": "127.0.0.1", "port": far.port, "security": "none", "username": "desk"}
    row = listened("email", "post", secret="wrong", **given)
    page = admin.post(reverse("source-try", args=["post"]), follow=True).content.decode()
    assert "does not let desk in" in page
    row.sealed_secrets = listened("email", "other", secret=PASSWORD, **given).sealed_secrets
    row.save()
    assert "Signed in as desk" in admin.post(reverse("source-try", args=["post"]), follow=True).content.decode()
    answer = admin.post(f"{API}/sources/post/try")
    assert (answer.status_code, answer.json()["detail"][:17]) == (200, "Signed in as desk")
    far.hang_up()
    row.config = {**row.config, "port": 143}
    row.save()
    refused = admin.post(f"{API}/sources/post/try")
    assert (refused.status_code, "cannot be reached" in refused.json()["detail"]) == (422, True)
    assert sign_in(ann).post(f"{API}/sources/post/try").status_code == 403


def test_the_api_makes_one_and_shows_how_it_goes(admin, far):
    body = {
        "slug": "orders",
        "kind": "redis_stream",
        "config": {"url": "redis://10.0.0.7/0", "stream": "orders"},
    }
    refused = admin.post(f"{API}/sources", body, content_type="application/json")
    assert (refused.status_code, refused.json()["field"]) == (422, "url")
    body["config"]["url"] = "redis://ann:secret@10.0.0.7/0"
    refused = admin.post(f"{API}/sources", body, content_type="application/json")
    assert "holds a password" in refused.json()["detail"]
    source = listened("redis_stream", "orders", url="redis://10.0.0.7/0", stream="orders")
    Watch.objects.create(source=source, looked_at=clock.now(), facts={"pending": 0, "lag": 3, "trimmed": 0})
    told = admin.get(f"{API}/sources/orders").json()
    assert told["health"]["facts"] == {"pending": 0, "lag": 3, "trimmed": 0}


@pytest.mark.parametrize("fresh", [False, True])
def test_a_password_is_led_elsewhere_only_by_an_admin_who_confirmed_who_he_is(admin, far, with_token, owner, fresh):
    source = listened("email", "post", secret=PASSWORD, host="mail.example.org", username="desk@example.org")
    told = {"version": source.version, "config": {"host": "127.0.0.1", "port": far.port, "security": "none"}}
    told["config"]["username"] = "desk@example.org"
    program = with_token(owner, "configure")
    assert program.patch(f"{API}/sources/post", told, content_type="application/json").status_code == 403
    if fresh:
        admin.post(reverse("step-up"), {"password": "a long enough password", "next": "/"})
    answer = admin.post(reverse("source-edit", args=["post"]), typed(port=far.port) | {"version": source.version})
    assert answer.url.startswith(reverse("step-up")) is not fresh
    source.refresh_from_db()
    assert source.config["host"] == ("127.0.0.1" if fresh else "mail.example.org")


def test_what_is_read_there_is_changed_without_ceremony(admin, far):
    source = listened("email", "post", secret=PASSWORD, host="127.0.0.1", port=far.port, username="d", security="none")
    told = {"version": source.version, "config": source.config | {"folders": ["Orders"]}}
    assert admin.patch(f"{API}/sources/post", told, content_type="application/json").status_code == 200
