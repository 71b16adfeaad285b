"""Beside a trigger's form is a bench: past events, the next ones, made-up ones, and how often it would have run."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from project import samples
from project.lib import clock
from project.people import roles
from project.people.models import User
from tests import builders
from tests.conftest import person
from tests.handlers import registered
from triggers import picking, trying, upkeep
from triggers.errors import NotValid
from triggers.matching import Rule, compile_filter, match
from triggers.models import Audit, Event, Run, Trigger
from triggers.sources.verify import catalogue
from triggers.viewing import event_view

pytestmark = pytest.mark.django_db
OPENED = 'event.data.action == "opened"'


@pytest.fixture
def browser(owner: User, sign_in: Callable[[User], Client]) -> Any:
    builders.source()
    with registered("deploy", lambda run: None):
        yield sign_in(owner)


def typed(**fields: Any) -> dict[str, Any]:
    plain = {"source": "github", "type_pattern": "**", "filter": "", "handler": "deploy", "slug": "mine", "name": ""}
    how = {"timeout": 300, "retries": 3, "mode": "live", "priority": 5, "config": ""}
    return {**plain, **how, **fields}


def issues(*actions: str) -> list[Event]:
    return [builders.event("github.issues", data={"action": action, "n": 7}) for action in actions]


def test_waiting_shows_what_comes_next_also_while_the_trigger_is_off(browser: Client) -> None:
    issues("opened")
    page = browser.post("/triggers/new", typed(filter=OPENED, capture="now"))
    assert "Waiting for the first event…" in page.text
    since = page.context["bench"].since
    [closed, opened] = issues("closed", "opened")
    builders.event("other.thing", source_slug="other")
    again = browser.post("/triggers/new", typed(filter=OPENED, waiting_since=since, **{"try": "1"}))
    assert [trial.event.pk for trial in again.context["bench"].trials] == [opened.pk, closed.pk]
    assert "2 came since you wait; 1 would start it" in again.text
    assert "was &#x27;closed&#x27;, wanted &#x27;opened&#x27;" in again.text
    assert Run.objects.count() == 0
    past = browser.post("/triggers/new", typed(filter=OPENED, waiting_since=since, **{"try": "past"}))
    assert past.context["bench"].since is None
    assert browser.post("/triggers/new", typed(waiting_since=since)).status_code == 302, (
        "waiting keeps nobody from saving"
    )
    assert not Trigger.objects.get(slug="mine").enabled


def test_the_estimate_says_how_often_it_would_have_run_and_how_many_approvals(browser: Client) -> None:
    issues(*["opened", "closed", "edited"] * 4)
    first = browser.post("/triggers/new", typed(filter=OPENED, **{"try": "past"}))
    assert "It would have run <b>4 times</b>" in first.text
    assert "how many approvals nobody knows" in first.text
    for _ in range(2):
        run = builders.run("deploy", status="succeeded", finished_at=clock.now())
        builders.action(run=run)
    builders.run("deploy", status="succeeded", finished_at=clock.now())
    told = browser.post("/triggers/new", typed(filter=OPENED, **{"try": "past"})).text
    assert "with about 3 approvals" in told, "two of three runs asked: 4 × ⅔"


def test_every_sample_of_a_provider_can_be_tried(browser: Client) -> None:
    known = trying.samples()
    assert {make()[0].provider for make in known.values()} == set(catalogue()) - {"cloudevents"}
    assert set(known) <= set(samples.SAMPLES)
    rule = trying.rule_of("*", "**", "")
    for name in set(known) - {"github-ping"}:
        [trial] = trying.try_on(rule, [trying.sample_of(name, "*")])
        assert trial.verdict.matched, name
    with pytest.raises(NotValid, match="greeting"):
        trying.sample_of("github-ping", "*")
    page = browser.post("/triggers/new", typed(sample="github-issue", **{"try": "sample"}))
    assert page.context["bench"].would == 1
    told = browser.post(
        "/triggers/new", typed(sample="github-issue", filter='event.data.action == "x"', **{"try": "sample"})
    )
    assert "was &#x27;opened&#x27;, wanted &#x27;x&#x27;" in told.text
    assert browser.post("/triggers/new", typed(sample="nothing", **{"try": "sample"})).status_code == 422
    assert Event.objects.count() == 0


def test_a_click_on_a_field_adds_its_clause_without_a_script(browser: Client) -> None:
    issues("opened", "closed")
    page = browser.post("/triggers/new", typed(**{"try": "past"}))
    clauses = {one.path: one.clause for one in page.context["bench"].fields}
    assert clauses["event.data.action"] == 'event.data.action == "closed"'
    assert 'name="pick"' in page.text
    picked = browser.post("/triggers/new", typed(filter="event.data.n > 3", pick=clauses["event.data.action"]))
    assert picked.context["form"]["filter"].value() == 'event.data.n > 3 && event.data.action == "closed"'
    assert picked.context["bench"].would == 1
    either = picking.joined("event.data.n > 3 || event.data.n < 1", "event.data.x == 1")
    assert either == "(event.data.n > 3 || event.data.n < 1) && event.data.x == 1"


def test_fields_to_click_are_those_of_the_newest_event_of_its_type(browser: Client) -> None:
    wanted = issues("opened")[0]
    for _ in range(60):  # more than are listed
        builders.event(type="github.push", data={"ref": "refs/heads/main"})
    page = browser.post("/triggers/new", typed(type_pattern="github.issues", **{"try": "past"}))
    assert "event.data.action" in {one.path for one in page.context["bench"].fields}
    assert f"E-{wanted.pk}, the newest of its type" in page.text
    since = Event.objects.latest("pk").pk - 1
    waiting = browser.post("/triggers/new", typed(type_pattern="github.issues", waiting_since=since, **{"try": "1"}))
    assert waiting.context["bench"].fields == [], "what came meanwhile is of another type"
    none = browser.post("/triggers/new", typed(type_pattern="github.star.*", **{"try": "past"}))
    assert "Nothing of its type came yet" in none.text


@pytest.mark.parametrize(
    ("before", "clause", "after"),
    [
        ("event.data.n == 10", "event.data.n == 1", "event.data.n == 10 && event.data.n == 1"),
        ('!(event.type == "a")', 'event.type == "a"', '!(event.type == "a") && event.type == "a"'),
        ("event.data.n > 3 && event.data.m == 1", "event.data.m == 1", "event.data.n > 3 && event.data.m == 1"),
        ("event.data.m  ==  1", "event.data.n == 1", "event.data.m  ==  1 && event.data.n == 1"),
        ("event.data.n == 1 // one", "event.data.m == 1", "event.data.n == 1 // one\n&& event.data.m == 1"),
        ("event.data.n ==", "event.data.m == 1", "event.data.n == && event.data.m == 1"),  # still to be mended
    ],
)
def test_a_click_adds_what_is_not_asked_for_yet(before: str, clause: str, after: str) -> None:
    assert picking.joined(before, clause) == after


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
def test_every_clause_one_can_click_compiles_and_matches_its_own_event(value: Any) -> None:
    event = Event(type="a.b", source_slug="shop", subject='it"s', data_json=json.dumps(value), received_at=None)
    for field in picking.fields_of(event):  # type: ignore[arg-type]
        rule = Rule(1, "mine", "shop", "**", compile_filter(field.clause), "deploy")
        assert match(rule, event_view(event)).matched, field  # type: ignore[arg-type]


def test_saving_shows_what_it_changes_and_keeps_what_was(browser: Client) -> None:
    browser.post("/triggers/new", typed())
    row = Trigger.objects.get(slug="mine")
    look = browser.post("/triggers/mine", typed(filter=OPENED, priority=2, version=1, look="changes"))
    assert {one["name"]: (one["before"], one["after"]) for one in look.context["changes"]} == {
        "filter": ("", OPENED),
        "priority": (5, 2),
    }
    row.refresh_from_db()
    assert (row.version, row.filter) == (1, "")
    assert (
        "Nothing: it says what version 1 says" in browser.post("/triggers/mine", typed(version=1, look="changes")).text
    )
    browser.post("/triggers/mine", typed(filter=OPENED, priority=2, version=1))
    assert list(row.versions.order_by("version").values_list("version", "facts__priority", "by__username")) == [
        (1, 5, "owner"),
        (2, 2, "owner"),
    ]
    page = browser.get("/triggers/mine")
    newest, first = page.context["versions"]
    assert [one["name"] for one in newest["changes"]] == ["filter", "priority"]
    assert first["changes"] == []
    assert 'id="versions"' in page.text


def test_what_a_seeded_trigger_said_before_its_first_change_is_kept(ann: User, browser: Client) -> None:
    row = builders.trigger("deploy")
    assert browser.get(f"/triggers/{row.slug}").context["versions"] == []
    upkeep.switch(row, on=False, by=ann, reason="too loud")
    assert Audit.objects.get(verb="disable").detail["reason"] == "too loud"
    assert list(row.versions.order_by("version").values_list("version", "facts__enabled")) == [(1, True), (2, False)]


class TestOverTheApi:
    @pytest.fixture
    def ask(self, browser: Client, ann: User, with_token: Callable[..., Client]) -> Callable[..., Any]:
        builders.trigger("deploy", slug="mine", filter=OPENED, filter_plan=compile_filter(OPENED), enabled=False)
        client = with_token(ann, "read")
        return lambda **body: client.post("/api/v1/triggers/mine/test", body, content_type="application/json")

    def test_a_sample(self, ask: Callable[..., Any]) -> None:
        assert ask(sample="github-issue").json()["matched"] == 1
        assert ask(sample="github-push").json()["matched"] == 0
        refused = ask(sample="nothing")
        assert (refused.status_code, "github-issue" in refused.json()["known"]) == (422, True)

    def test_what_came_after_a_number(self, ask: Callable[..., Any]) -> None:
        [first, *_] = issues("opened", "opened", "closed")
        told = ask(after=first.pk).json()
        assert (told["matched"], len(told["events"])) == (1, 2)
        assert ask(after=first.pk + 99).json()["events"] == []

    def test_an_estimate(self, ask: Callable[..., Any]) -> None:
        issues("opened", "opened", "closed")
        lately = ask(estimate=True).json()["estimate"]
        assert (lately["looked"], lately["matched"], lately["approvals"], lately["is_cut"]) == (3, 2, None, False)
        assert ask().json()["estimate"] is None

    def test_what_is_not_saved_yet(self, with_token: Callable[..., Client], owner: User, browser: Client) -> None:
        """A changed filter, or a trigger that is not there: for who configures and reads payloads."""
        builders.trigger("deploy", slug="mine", filter=OPENED, filter_plan=compile_filter(OPENED), enabled=False)
        issues("opened", "opened", "closed")

        def ask(client: Client, slug: str, **draft: str) -> Any:
            body = {"draft": draft, "estimate": True}
            return client.post(f"/api/v1/triggers/{slug}/test", body, content_type="application/json")

        admin = with_token(owner, "configure", "operate")
        closed = 'event.data.action == "closed"'
        assert ask(admin, "mine", filter=closed).json()["matched"] == 1
        assert ask(admin, "mine", type_pattern="github.push").json()["matched"] == 0
        told = ask(admin, "to-come", source="github", type_pattern="github.*", handler="deploy", filter=closed).json()
        assert (told["matched"], told["estimate"]["matched"]) == (1, 1)
        refused = ask(admin, "to-come", filter="event.data.action ==")
        assert (refused.status_code, refused.json()["field"]) == (422, "filter")
        for scopes in (("read",), ("configure",), ("read", "operate")):
            assert ask(with_token(owner, *scopes), "mine", filter=closed).status_code == 403
        assert [row.slug for row in Trigger.objects.all()] == ["mine"]
        assert Trigger.objects.get().filter == OPENED


def test_a_filter_is_asked_of_events_only_for_who_may_read_them(sign_in: Callable[[User], Client]) -> None:
    """The answer says what stands in them."""
    builders.trigger("deploy", slug="mine")
    issues("opened")
    adam = sign_in(person("adam", roles.VIEWER, roles.ADMIN))
    form = {"source": "github", "type_pattern": "**", "handler": "deploy", "filter": OPENED, "try": "past"}
    page = adam.post("/triggers/mine", form)
    assert (page.status_code, page.context.get("bench")) == (422, None)
    assert "is for who may read them" in page.content.decode()
