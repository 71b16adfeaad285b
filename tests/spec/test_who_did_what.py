"""Every door that people use writes down who did what to which row, in words anybody finds again."""

import csv
import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from approvals.models import Connection
from project.lib import clock
from project.people import roles
from project.people.models import ApiToken
from tests import builders
from tests.approvals.test_pages import text_of
from tests.conftest import PASSWORD, person
from tests.contract.world import make_world
from tests.handlers import registered
from triggers.models import Audit, Run

pytestmark = pytest.mark.django_db
API = "/api/v1"


def send(client: Client, method: str, path: str, body: Any = None) -> Any:
    answer = getattr(client, method)(f"{API}{path}", body or {}, content_type="application/json")
    assert answer.status_code < 300, answer.content
    return answer


def post(client: Client, path: str, **fields: Any) -> Any:
    answer = client.post(path, fields)
    assert answer.status_code == 302, answer.content
    return answer


def decided(client: Client, verdict: str, **more: Any) -> str:
    action = builders.action(
        run=builders.run(), connection=builders.connection(slug=f"c-{verdict}-{len(more)}"), **more
    )
    seen = {"verdict": verdict, "digest": action.digest, "revision": 1, "reason": "because"}
    post(client, f"/actions/{action.pk}/decisions", **seen)
    return str(action.pk)


def edited(client: Client) -> str:
    given = {"repo": "acme/shop", "number": 7, "body": "Hi"}
    action = builders.action("github.comment", connection=builders.connection(), arguments=given)
    body = {"verdict": "approve", "digest": action.digest, "revision": 1, "arguments": {**given, "body": "Hello"}}
    send(client, "post", f"/actions/{action.pk}/decisions", body)
    return str(action.pk)


def taken_back(client: Client) -> str:
    pk = decided(client, "approve")
    post(client, f"/actions/{pk}/take-back")
    return pk


def withdrawn(client: Client) -> str:
    action = builders.action()
    post(client, f"/actions/{action.pk}/cancel")
    return str(action.pk)


def settled(status: str) -> Callable[[Client], str]:
    def settle(client: Client) -> str:
        action = builders.action(
            status="unknown", tries=1, run=builders.run(), execute_by=clock.now().replace(year=2100)
        )
        action.decisions.create(
            by=person("rob", roles.REVIEWER), verdict="approve", digest=action.digest, revision=1, at=clock.now()
        )
        type(action).objects.filter(pk=action.pk).update(given=1)
        post(client, f"/actions/{action.pk}/outcome", status=status, note="I looked")
        return str(action.pk)

    return settle


def in_world(what: str, body: Any = None, *, run: str = "queued") -> Callable[[Client], str]:
    """A deed over the API on the rows of the contract tests' world: `PATCH /sources/{sources}`."""

    def deed(client: Client) -> str:
        keys = {name.replace("-", "_"): key for name, key in make_world(person("asker", roles.OPERATOR)).keys.items()}
        Run.objects.update(status=run, finished_at=clock.now())
        method, path = what.split()
        send(client, method.lower(), path.format(**keys), body)
        named = re.search(r"{(\w+)}", path)
        return str(keys[named[1]] if named else (body or {}).get("slug", ""))

    return deed


def person_changed(client: Client) -> str:
    ann = person("ann", roles.VIEWER)
    page = reverse("admin:people_user_change", args=[ann.pk])
    form = client.get(page).context["adminform"].form
    fields = {name: value for name, value in form.initial.items() if value not in (None, [])}
    times = {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    wish = {**fields, **times, "groups": [], "username": "ann", "is_active": "on"}
    post(client, page, **wish)
    return str(ann.pk)


def password_set(client: Client) -> str:
    ann = person("ann", roles.VIEWER)
    new = {"password1": "quite another long one", "password2": "quite another long one", "usable_password": "true"}
    post(client, reverse("admin:auth_user_password_change", args=[ann.pk]), **new)
    return str(ann.pk)


def own_password(client: Client) -> str:
    new = {"new_password1": "quite another long one", "new_password2": "quite another long one"}
    post(client, "/password", password=PASSWORD, **new)
    return str(client.get("/").wsgi_request.user.pk)


def token_revoked(client: Client) -> str:
    row, _ = ApiToken.objects.all().issue(user=None, service="build", name="ci", scopes=["read"])
    page = reverse("admin:people_apitoken_change", args=[row.pk])
    post(client, page, name="ci", revoked_at_0="2026-01-01", revoked_at_1="00:00:00")
    return str(row.pk)


PAUSED = {"scope": "all", "paused": True, "reason": "odd"}
SCHEDULE = {"slug": "mine", "kind": "schedule", "config": {"every": 60}}
WAY = {"slug": "mine", "system": "github", "practice": True}
NAMED = {"version": 1, "name": "x"}
DEEDS: dict[str, tuple[str, str, Callable[[Client], str]]] = {
    "approves": ("approve", "action", lambda client: decided(client, "approve")),
    "rejects": ("reject", "action", lambda client: decided(client, "reject")),
    "edits": ("edit", "action", edited),
    "takes back": ("take back", "action", taken_back),
    "withdraws": ("cancel", "action", withdrawn),
    "says that it happened": ("say delivered", "action", settled("delivered")),
    "says that it did not": ("say not_sent", "action", settled("not_sent")),
    "gives it up": ("say failed", "action", settled("failed")),
    "pauses": ("pause", "switch", in_world("POST /switch", PAUSED)),
    "makes a source": ("create", "source", in_world("POST /sources", SCHEDULE)),
    "changes a source": ("change", "source", in_world("PATCH /sources/{sources}", NAMED)),
    "archives a source": ("archive", "source", in_world("DELETE /sources/{sources}")),
    "changes a trigger": ("change", "trigger", in_world("PATCH /triggers/{triggers}", NAMED)),
    "archives a trigger": ("archive", "trigger", in_world("DELETE /triggers/{triggers}")),
    "makes a connection": ("create", "connection", in_world("POST /connections", WAY)),
    "changes a connection": ("change", "connection", in_world("PATCH /connections/{connections}", NAMED)),
    "archives a connection": ("archive", "connection", in_world("DELETE /connections/{connections}")),
    "dismisses": ("dismiss", "deadletter", in_world("POST /dead-letters/{dead_letters}/dismiss", {"reason": "known"})),
    "runs again from a dead letter": (
        "redrive",
        "deadletter",
        in_world("POST /dead-letters/{dead_letters}/redrive", run="dead"),
    ),
    "runs an event again": (
        "run again",
        "event",
        in_world("POST /events/{events}/run-again", {"trigger": "watch"}, run="dead"),
    ),
    "runs a run again": ("run again", "run", in_world("POST /runs/{runs}/rerun", {"reason": "once more"}, run="dead")),
    "cancels a run": ("cancel", "run", in_world("POST /runs/{runs}/cancel")),
    "changes a person": ("change", "user", person_changed),
    "sets a password": ("set password", "user", password_set),
    "changes the own password": ("change password", "user", own_password),
    "revokes a token": ("change", "apitoken", token_revoked),
}


@pytest.fixture(autouse=True)
def _code() -> Iterator[None]:
    with registered("contract-test", lambda run: None):
        yield


@pytest.fixture
def owner_acts(owner, sign_in) -> Client:
    client = sign_in(owner)
    client.post("/step-up", {"password": PASSWORD, "next": "/"})
    return client


@pytest.mark.parametrize("deed", DEEDS)
def test_the_log_says_who_did_what_to_what(deed, owner, owner_acts):
    verb, kind, act = DEEDS[deed]
    ref = act(owner_acts)
    mine = Audit.objects.filter(by=owner, verb=verb, kind=kind).order_by("-pk").first()
    assert mine is not None, list(Audit.objects.values_list("verb", "kind", "by__username"))
    assert ref in ("", mine.ref)


def test_a_token_that_is_made_is_written_down_without_its_text(owner, capsys):
    call_command("create_token", "owner", "--name", "laptop", "--scope", "read")
    secret = capsys.readouterr().out.strip()
    row = Audit.objects.get(kind="apitoken")
    assert (row.verb, row.detail["name"]) == ("create", "laptop")
    assert secret not in str(row.detail)


def test_nothing_that_was_refused_is_written_down(ann, sign_in):
    action = builders.action(by=ann)
    sign_in(ann).post(f"/actions/{action.pk}/outcome", {"status": "failed", "note": "x"})
    assert not Audit.objects.exists()


class TestReading:
    @pytest.fixture
    def log(self, ann, ben):
        action, link = builders.action(), builders.connection()
        Audit.write("approve", action, by=ben, reason="=1+1", revision=1)
        Audit.write("change", link, by=ann, fields=["name"])
        Audit.write("expire", action)
        return action

    @pytest.mark.parametrize(
        ("query", "verbs"),
        [
            ("", ["expire", "change", "approve"]),
            ("actor=ben", ["approve"]),
            ("actor=ben&actor=ann", ["change", "approve"]),
            ("actor=/nightdesk", ["expire"]),
            ("actor=/nightdesk&actor=ann", ["expire", "change"]),
            ("verb=approve&verb=change", ["change", "approve"]),
            ("subject=action", ["expire", "approve"]),
            ("subject=action/{action}", ["expire", "approve"]),
            ("subject=A-{action}", ["expire", "approve"]),
            ("subject=connection/practice-github", ["change"]),
            ("subject=action&actor=ben", ["approve"]),
            ("since=2100-01-01T00:00:00Z", []),
            ("until=2000-01-01T00:00:00Z", []),
        ],
    )
    def test_filters_mean_the_same_on_the_page_and_over_the_api(self, log, query, verbs, ben, sign_in):
        client, asked = sign_in(ben), query.format(action=log.pk)
        assert [row.verb for row in client.get(f"/audit?{asked}").context["list"].rows] == verbs
        assert [row["verb"] for row in client.get(f"{API}/audit?{asked}").json()["items"]] == verbs

    def test_a_row_leads_to_what_it_is_about(self, log, ben, sign_in):
        page = sign_in(ben).get("/audit").content.decode()
        assert f'href="/actions/{log.pk}"' in page
        assert "reason: =1+1; revision: 1" in text_of(sign_in(ben).get("/audit"))

    def test_the_next_page_goes_on_where_this_one_ends(self, log, ben, sign_in):
        first = sign_in(ben).get(f"{API}/audit?limit=2").json()
        rest = sign_in(ben).get(f"{API}/audit?limit=2&after={first['next']}").json()
        assert [row["verb"] for row in first["items"] + rest["items"]] == ["expire", "change", "approve"]
        assert rest["next"] is None

    @pytest.mark.parametrize("where", ["/audit?format=csv", f"{API}/audit?format=csv"])
    def test_it_is_a_table_too(self, log, where, ben, sign_in):
        rows = list(csv.DictReader(io.StringIO(sign_in(ben).get(where).getvalue().decode())))
        assert [(row["actor"], row["verb"]) for row in rows] == [
            ("/nightdesk", "expire"),
            ("ann", "change"),
            ("ben", "approve"),
        ]

    def test_an_unknown_filter_is_said(self, log, ben, sign_in):
        assert "is no filter of this list" in text_of(sign_in(ben).get("/audit?who=ben"))
        assert sign_in(ben).get(f"{API}/audit?who=ben").json()["code"] == "unknown_filter"

    def test_without_any_it_says_what_will_stand_here(self, ben, sign_in):
        assert "Nothing was done yet" in text_of(sign_in(ben).get("/audit"))

    def test_nobody_changes_it(self, log, owner, sign_in):
        for path in ("/audit", f"{API}/audit"):
            for method in ("post", "put", "patch", "delete"):
                assert getattr(sign_in(owner), method)(path).status_code in (403, 405)
        assert Audit.objects.count() == 3
        assert Connection.objects.count() == 1
