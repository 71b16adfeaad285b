"""/settings: oneself, tokens that are shown once, and checks; nobody sees or touches what is another's."""

import re

import pytest
from django.test import Client

from project.people import roles
from project.people.models import ApiToken, User
from tests.conftest import PASSWORD, person
from triggers.models import Audit, Trigger

pytestmark = pytest.mark.django_db

OUTSIDE = ("/sources", "/connections", "/policies", "/freezes")  # pages of the settings with a short address
SECRET = re.compile(r"nd_[\w-]{43}")


def confirmed(client: Client) -> Client:
    """The person has just given the password again."""
    client.post("/step-up", {"password": PASSWORD, "next": "/settings/tokens"})
    return client


def make(client: Client, **given: object) -> tuple[int, str]:
    answer = client.post("/settings/tokens", {"name": "scraper", "scopes": ["read"], **given})
    return answer.status_code, answer.content.decode()


def test_what_one_says_about_oneself_is_kept_and_written_down(ann, sign_in):
    client = sign_in(ann)
    told = {"name": "Ann Lee", "email": "ann@desk.example", "time_zone": "Asia/Shanghai", "theme": "dark", "keys": "on"}
    assert client.post("/settings", told).status_code == 302
    ann.refresh_from_db()
    assert (str(ann), ann.email, ann.time_zone, ann.theme) == ("Ann Lee", "ann@desk.example", "Asia/Shanghai", "dark")
    written = Audit.objects.get(verb="change", kind="user")
    assert (written.by, written.detail) == (ann, {"fields": ["email", "first_name", "last_name", "theme", "time_zone"]})
    client.post("/settings", told)
    assert Audit.objects.filter(verb="change", kind="user").count() == 1, "nothing changed, nothing is written"


@pytest.mark.parametrize(
    "wrong", [{"email": "no mail"}, {"name": "x\x1b[2Jy"}, {"time_zone": "Mars/Base"}, {"name": "x" * 151}]
)
def test_what_makes_no_sense_is_refused_beside_its_field_and_nothing_is_kept(ann, sign_in, wrong):
    answer = sign_in(ann).post("/settings", {"name": "Ann", "theme": "light", **wrong})
    assert answer.status_code == 400
    assert 'class="err"' in answer.content.decode()
    ann.refresh_from_db()
    assert (ann.first_name, ann.theme) == ("", "")


def test_a_new_token_is_shown_once_and_opens_what_it_may(ann, sign_in):
    client = confirmed(sign_in(ann))
    status, page = make(client, scopes=["read", "ingest"])
    assert status == 201
    [secret] = set(SECRET.findall(page))
    assert not SECRET.search(client.get("/settings/tokens").content.decode())
    bearer = Client(headers={"authorization": f"Bearer {secret}"})
    assert bearer.get("/api/v1/events").status_code == 200
    row = ApiToken.objects.get()
    assert (row.user, row.name, row.scopes, row.hint) == (ann, "scraper", ["read", "ingest"], secret[-4:])
    assert secret not in row.hash
    assert Audit.objects.get(verb="create", kind="apitoken").detail == {"name": "scraper", "scopes": ["read", "ingest"]}


def test_keys_and_sound_are_the_persons_own_in_every_browser(ann, sign_in):
    text = sign_in(ann).get("/runs").content.decode()
    assert 'data-keys="off"' not in text
    assert 'data-sound="on"' not in text, "silent until somebody wants it"
    sign_in(ann).post("/settings", {"email": ann.email, "sound": "on"})
    text = sign_in(ann).get("/runs").content.decode()
    assert 'data-keys="off"' in text
    assert 'data-sound="on"' in text
    assert Audit.objects.get(verb="change", kind="user").detail == {"fields": ["keys", "sound"]}


def test_who_only_found_the_browser_open_gets_no_token(ann, sign_in):
    client = sign_in(ann)
    assert "Confirm that it is you" in client.get("/settings/tokens").content.decode()
    status, page = make(client)
    assert status == 403
    assert "Confirm that it is you in another tab" in page
    assert not ApiToken.objects.exists()


def test_a_token_never_may_more_than_its_person(ben, sign_in):
    client = confirmed(sign_in(ben))
    assert 'value="decide"' in client.get("/settings/tokens").content.decode()
    for scope in ("ingest", "operate", "configure", "everything"):
        status, page = make(client, scopes=[scope])
        assert (status, "err" in page) == (400, True)
    assert make(client, scopes=["decide"])[0] == 201
    assert make(client, service="build-server")[0] == 201
    assert set(ApiToken.objects.values_list("user", "service")) == {(ben.pk, "")}, "a service is an admin's to make"


@pytest.mark.parametrize(("given", "words"), [({"name": ""}, "required"), ({"scopes": []}, "Pick at least one")])
def test_a_form_that_is_not_whole_says_what_is_missing(ann, sign_in, given, words):
    status, page = make(confirmed(sign_in(ann)), **given)
    assert status == 400
    assert words in page


def test_an_admin_makes_a_service_account_which_never_decides(owner, sign_in):
    client = confirmed(sign_in(owner))
    status, page = make(client, scopes=["read", "decide"], service="build-server")
    assert status == 400
    assert "A service account never gets: decide." in page
    assert make(client, scopes=["read"], service="not a slug")[0] == 400
    assert make(client, scopes=["ingest", "propose"], service="build-server")[0] == 201
    row = ApiToken.objects.get()
    assert (row.user, row.service, row.scopes) == (None, "build-server", ["ingest", "propose"])


def test_everybody_sees_his_own_and_an_admin_all(ann, ben, owner, sign_in, with_token):
    with_token(ann, "read")
    with_token("build-server", "read")
    ApiToken.objects.filter(user=ann).update(name="of-ann")
    ApiToken.objects.filter(user=None).update(name="of-nobody")
    assert {
        name: ["of-ann" in page, "of-nobody" in page]
        for name, user in {"ann": ann, "ben": ben, "owner": owner}.items()
        if (page := sign_in(user).get("/settings/tokens").content.decode())
    } == {"ann": [True, False], "ben": [False, False], "owner": [True, True]}


def test_an_empty_list_teaches_the_command(ben, sign_in):
    page = sign_in(ben).get("/settings/tokens").content.decode()
    assert "No token yet" in page
    assert "manage.py create_token ben" in page


def test_a_revoked_token_opens_nothing_any_more(ann, sign_in, with_token):
    bearer = with_token(ann, "read")
    row = ApiToken.objects.get()
    client = sign_in(ann)
    assert client.get(f"/settings/tokens/{row.pk}/revoke").status_code == 405
    assert bearer.get("/api/v1/events").status_code == 200
    assert client.post(f"/settings/tokens/{row.pk}/revoke").status_code == 302
    assert bearer.get("/api/v1/events").status_code == 401
    assert Audit.objects.filter(verb="revoke", by=ann).count() == 1
    client.post(f"/settings/tokens/{row.pk}/revoke")
    assert Audit.objects.filter(verb="revoke").count() == 1, "twice is once"


def test_another_s_token_is_not_there(ann, ben, eve, owner, sign_in, with_token):
    with_token(ann, "read")
    address = f"/settings/tokens/{ApiToken.objects.get().pk}/revoke"
    assert sign_in(ben).post(address).status_code == 404
    assert sign_in(eve).post(address).status_code == 403
    assert ApiToken.objects.get().revoked_at is None
    assert sign_in(owner).post(address).status_code == 302
    assert ApiToken.objects.get().revoked_at is not None


def test_checks_are_for_who_runs_the_desk(ann, ben, eve, owner, sign_in):
    answers = {user.username: sign_in(user).get("/settings/checks").status_code for user in (ann, ben, eve, owner)}
    assert answers == {"ann": 200, "ben": 403, "eve": 403, "owner": 200}


def test_checks_name_what_is_wrong_with_a_hint_and_the_worst_first(ann, sign_in, settings):
    settings.ALLOWED_HOSTS = ["*"]
    Trigger.objects.create(slug="lost", name="x", source="*", handler="no-such-handler")
    page = sign_in(ann).get("/settings/checks").content.decode()
    assert "ALLOWED_HOSTS is *: any name is believed." in page
    assert "Set ALLOWED_HOSTS to the names people use." in page
    assert "lost wants no-such-handler." in page
    assert page.index('id="nightdesk.E001"') < page.index('id="nightdesk.W002"') < page.index('id="nightdesk.I001"')
    assert page.index('id="nightdesk.I001"') < page.index('id="nightdesk.E007"'), "what is well comes last"


def test_the_hint_to_invite_somebody_leads_an_admin_to_where_that_is_done(ann, owner, sign_in):
    there = '<a href="/admin/people/user/">'
    ann.groups.remove(*ann.groups.filter(name="reviewer"))
    assert there in sign_in(owner).get("/settings/checks").content.decode()
    assert there not in sign_in(ann).get("/settings/checks").content.decode(), "she may not go there"


def test_the_tabs_show_only_where_one_may_go(ann, ben, eve, sign_in):
    told = {
        user.username: "/settings/checks" in sign_in(user).get("/settings").content.decode() for user in (ann, ben, eve)
    }
    assert told == {"ann": True, "ben": False, "eve": False}


def test_a_viewer_without_other_roles_makes_a_reading_token_only(db, sign_in):
    page = confirmed(sign_in(person("vic", roles.VIEWER))).get("/settings/tokens").content.decode()
    assert re.findall(r'name="scopes" value="(\w+)"', page) == ["read"]
    assert User.objects.get(username="vic").tokens.count() == 0


@pytest.mark.parametrize("page", ["", "/notifications", "/tokens", "/authenticator", "/teams", "/checks", *OUTSIDE])
def test_each_page_of_the_settings_leads_to_all_others(owner, sign_in, page):
    address = page if page in OUTSIDE else f"/settings{page}"
    tabs = sign_in(owner).get(address).content.decode().partition('aria-label="Settings"')[2].partition("</nav>")[0]
    assert tabs.count("<a ") == 10
    assert re.findall(r'href="([^"]*)" aria-current', tabs) == [address]
