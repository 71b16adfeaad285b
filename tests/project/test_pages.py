"""Every page opens for those who may, refuses the others, changes nothing by being looked at, and keeps its policy."""

import hashlib
from html.parser import HTMLParser

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from approvals.models import PracticeItem
from project import figures, samples
from project.lib import clock
from tests import builders
from tests.conftest import PASSWORD
from triggers.models import Audit, DeadLetter, Source, Step

LISTS = ("home", "approvals", "events", "runs", "dead-letters", "triggers", "trigger-new", "sources", "source-new")
MORE = ("connections", "connection-new", "handlers", "practice", "settings", "step-up", "password-change")
EVIL = "</script><script>window.__x=1</script><img src=x onerror=window.__x=1>\u202e"
MOST_QUERIES = 15  # of a page
EDITABLE = {"textarea", "option"}  # what people edit is shown as it is, or they would save the marks


@pytest.fixture
def world(ann):
    """One row of everything, written by somebody hostile."""
    source = builders.source()
    trigger = builders.trigger(slug="triage")
    event = builders.event(
        type=EVIL, subject=EVIL, source=source, data={EVIL: [EVIL, {"html_url": "javascript:alert(1)"}]}
    )
    run = builders.run(event=event, trigger=trigger, status="dead", finished_at=clock.now(), error=evil_error())
    Step.objects.create(
        run=run, name=EVIL[:100], seq=1, fence=0, started_at=clock.now(), error=evil_error(), status="failed"
    )
    letter = DeadLetter.objects.create(
        kind="run",
        run=run,
        event=event,
        fingerprint="abc",
        error_type=EVIL,
        message=EVIL,
        first_at=clock.now(),
        last_at=clock.now(),
    )
    link = builders.connection()
    words = {"title": EVIL, "reason": EVIL, "evidence": [{"text": EVIL, "for": False, "url": "javascript:alert(1)"}]}
    action = builders.action(
        by=ann,
        run=run,
        connection=link,
        arguments={"repo": EVIL, "title": EVIL},
        reversible=EVIL,
        blast_radius=EVIL,
        **words,
    )
    done = {"result": {"url": "javascript:alert(1)"}, "action_id": action.pk, "at": clock.now(), "title": EVIL}
    PracticeItem.objects.create(connection=link, kind="github.comment", key="k", arguments={"body": EVIL}, **done)
    return {
        "event": reverse("event", args=[event.pk]),
        "run": reverse("run", args=[run.pk]),
        "dead-letter": reverse("dead-letter", args=[letter.pk]),
        "dead-letter-group": reverse("dead-letter-group", args=["abc"]),
        "trigger-edit": reverse("trigger-edit", args=["triage"]),
        "source-edit": reverse("source-edit", args=["github"]),
        "connection-edit": reverse("connection-edit", args=[link.slug]),
        "action": reverse("action", args=[action.pk]),
    }


class Reader(HTMLParser):
    """What a browser would make of a page: its text, and everything in it that a strict policy forbids."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.forbidden, self.inside = "", [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.inside = tag
        names = dict(attrs)
        if tag in ("style", "img", "iframe") or (tag == "script" and not names.get("src")):
            self.forbidden.append(tag)
        self.forbidden += [name for name in names if name == "style" or name.startswith(("on", "hx-on"))]
        links = (names.get("href"), names.get("action"), names.get("src"))
        self.forbidden += [link for link in links if link and link.strip().lower().startswith("javascript:")]

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside not in EDITABLE:
            self.text += data


def evil_error() -> dict[str, str]:
    return {"type": EVIL, "message": EVIL, "traceback": EVIL}


def addresses(world: dict[str, str]) -> list[str]:
    return [*(reverse(name) for name in (*LISTS, *MORE)), *world.values()]


def admin_addresses() -> list[str]:
    pages = [reverse("admin:index")]
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        row = model._default_manager.order_by("-pk").first()
        pages.append(reverse(f"{name}_changelist"))
        pages += [reverse(f"{name}_change", args=[row.pk]), reverse(f"{name}_delete", args=[row.pk])] if row else []
    return pages


def fingerprint() -> dict[str, str]:
    """What stands in every table; sessions may be touched by signing in, so they are left out."""
    marks = {}
    for model in apps.get_models():
        if model._meta.app_label in ("sessions", "axes"):
            continue
        with connection.cursor() as cursor:
            cursor.execute(f'SELECT * FROM "{model._meta.db_table}" ORDER BY 1')
            marks[model._meta.label] = hashlib.sha256(repr(cursor.fetchall()).encode()).hexdigest()
    return marks


def test_every_page_opens_for_the_owner(world, owner, sign_in):
    client = sign_in(owner)
    assert {page: client.get(page).status_code for page in addresses(world)} == dict.fromkeys(addresses(world), 200)


def test_every_page_refuses_a_stranger(world, eve, sign_in):
    client = sign_in(eve)
    personal = {reverse(name) for name in ("settings", "password-change")}
    pages = [page for page in addresses(world) if page not in personal]
    assert {page: client.get(page).status_code for page in pages} == dict.fromkeys(pages, 403)


def test_every_page_asks_who_is_not_signed_in_to_do_so(world):
    client = Client()
    assert all(client.get(page).url.startswith("/sign-in?next=") for page in addresses(world))


def test_what_is_not_there_is_not_found(owner, sign_in):
    client = sign_in(owner)
    for page in ("/actions/999999", "/events/999999", "/runs/999999", "/dead-letters/999999", "/nowhere"):
        assert client.get(page).status_code == 404


def test_looking_at_pages_changes_nothing(world, owner, sign_in):
    """AD-07: nothing happens by opening an address."""
    client = sign_in(owner)
    client.post("/step-up", {"password": PASSWORD, "next": "/"})  # so that forms of the admin open too
    before = fingerprint()
    for page in [*addresses(world), *admin_addresses()]:
        client.get(page)
        client.head(page)
    assert fingerprint() == before


def test_foreign_text_is_only_ever_text(world, owner, sign_in):
    client = sign_in(owner)
    client.post("/step-up", {"password": PASSWORD, "next": "/"})
    for page in addresses(world):
        read = Reader(client.get(page).content.decode())
        assert read.forbidden == [], page
        assert "\u202e" not in read.text, page
    for page in admin_addresses():
        html = client.get(page).content.decode()
        assert "<script>window" not in html, page
        assert "<img src=x" not in html, page


def test_no_page_asks_for_an_exception_from_the_policy(world, owner, sign_in):
    client = sign_in(owner)
    for page in addresses(world):
        assert "unsafe" not in client.get(page)["Content-Security-Policy"], page


def test_the_policy_of_a_page_is_strict(owner, sign_in):
    policy = sign_in(owner).get("/")["Content-Security-Policy"]
    told = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert told["default-src"] == told["base-uri"] == told["frame-ancestors"] == "'none'"
    assert told["script-src"] == told["style-src"] == told["connect-src"] == told["form-action"] == "'self'"


def test_the_admin_has_a_policy_of_its_own(owner, sign_in):
    policy = sign_in(owner).get("/admin/")["Content-Security-Policy"]
    assert "script-src 'self' 'unsafe-eval'" in policy
    assert "style-src 'self' 'unsafe-inline'" in policy
    assert "script-src 'self' 'unsafe-eval' 'unsafe-inline'" not in policy


def test_an_error_page_keeps_the_policy(owner, sign_in):
    assert "default-src 'none'" in sign_in(owner).get("/nowhere")["Content-Security-Policy"]


def test_a_new_desk_tells_how_to_ring_it(owner, sign_in):
    page = sign_in(owner).get("/").content.decode()
    assert "Waiting for the first event" in page
    assert "make ring NAME=github-issue" in page
    assert "Send a test delivery" in page
    assert "Nothing needs you" in page


def test_the_panel_follows_the_first_event(owner, ann, sign_in):
    client = sign_in(owner)
    run = builders.run(event=builders.event(source=builders.source()))
    assert "The event is in" in client.get("/").content.decode()
    action = builders.action(by=ann, run=run)
    assert f"Read A-{action.pk}" in client.get("/").content.decode()


def test_an_alarm_of_the_desk_does_not_end_the_first_minutes(owner, ann, sign_in):
    """Nobody who may decide was reached: that is told through the practice connection, as its first delivery."""
    action = builders.action(by=ann, run=builders.run(event=builders.event(source=builders.source())))
    told = {"connection": builders.connection("notify"), "key": "alarm", "arguments": {"text": "x"}, "at": clock.now()}
    PracticeItem.objects.create(kind="notify.send", title="Nobody was reached", **told)
    assert f"Read A-{action.pk}" in sign_in(owner).get("/").content.decode()
    PracticeItem.objects.create(kind="github.create_pr", title="A pull request", **told | {"key": "done"})
    assert f"Read A-{action.pk}" not in sign_in(owner).get("/").content.decode()


def test_home_costs_few_queries_however_much_happened(owner, ann, sign_in, monkeypatch):
    """What is counted from many rows is counted for all who look, every few seconds; the page looks again by itself."""
    monkeypatch.setattr(figures, "KEEP", figures.HOUR)  # also on a machine that is slow
    source, trigger, now = builders.source(), builders.trigger(), clock.now()
    for number in range(30):
        run = builders.run(event=builders.event(source=source), trigger=trigger, status="dead", finished_at=now)
        builders.action(by=ann, run=run, status="awaiting" if number % 2 else "unknown")
        letter = {"kind": "run", "run": run, "event": run.event, "first_at": now, "last_at": now}
        DeadLetter.objects.create(fingerprint=f"{number % 7:016x}", error_type="Boom", **letter)
    builders.action(by=ann, status="delivered", settled_at=now)  # the first ten minutes are over
    client = sign_in(owner)
    first = client.get("/")
    assert first.context["look_again"] is None
    with CaptureQueriesContext(connection) as queries:
        again = client.get("/")
    assert len(queries) <= MOST_QUERIES, "\n".join(one["sql"][:120] for one in queries)
    assert again.context["look_again"] > now
    assert again.context["needs"][0].title == "30 approvals waiting"
    assert again.context["needs"][1].words.startswith("5 × Boom")
    assert "and 6 more causes" in again.context["needs"][1].words


def test_the_chart_leads_to_the_events_of_a_minute_and_says_where_a_cause_began(owner, sign_in):
    event = builders.event(source=builders.source())
    letter = {"kind": "run", "event": event, "first_at": event.received_at, "last_at": event.received_at}
    DeadLetter.objects.create(fingerprint="abc", error_type="Boom", run=builders.run(event=event), **letter)
    client = sign_in(owner)
    page = client.get("/")
    bar = page.context["bars"][0]
    assert bar.url in page.content.decode().replace("&amp;", "&")
    found = client.get(bar.url)
    assert [row.pk for row in found.context["list"].rows] == [event.pk]
    assert found.context["filters"].notes == []
    assert 'class="incident" href="/dead-letters/g/abc"' in page.content.decode()


@pytest.mark.parametrize(
    ("today", "before", "words"),
    [
        (0, 0, "none at this hour yesterday"),
        (5, 5, "as many as at this hour yesterday"),
        (9, 6, "50% more than at this hour yesterday"),
        (3, 6, "50% fewer than at this hour yesterday"),
        (3, figures.YESTERDAY, "at least 10,000 at this hour yesterday"),
    ],
)
def test_a_number_is_compared_in_words(today, before, words):
    assert figures.compared(today, before) == words


def test_who_sent_a_test_delivery_is_written_down(ann, sign_in, monkeypatch):
    builders.source("github")
    told = {}
    monkeypatch.setattr(samples, "send", lambda name, **more: told.update(more) or samples.Sent("accepted", 7, "/e/7"))
    assert sign_in(ann).post(reverse("send-test")).status_code == 302
    assert told == {"by": ann.pk}, "and stands behind what the delivery wakes"
    row = Audit.objects.get(verb="send test")
    assert (row.by, row.kind, row.ref, row.detail) == (ann, "source", "github", {"event": 7})


def test_a_test_delivery_whose_secret_is_lost_is_said(ann, sign_in):
    builders.source("github")
    Source.objects.update(sealed_secrets="sealed with a key that is gone")
    answer = sign_in(ann).post(reverse("send-test"), follow=True)
    assert "The test delivery did not arrive: A stored secret" in answer.content.decode()
    assert not Audit.objects.filter(verb="send test").exists()


def test_home_names_the_biggest_cause_of_dead_letters_and_how_many_others_there_are(ann, sign_in):
    for mark, kind, number in (("a", "KeyError", 1), ("b", "Timeout", 3)):
        for one in range(number):
            told = {"fingerprint": mark * 16, "error_type": kind, "message": f"customer {one}"}
            DeadLetter.objects.create(kind="run", run=builders.run(), first_at=clock.now(), last_at=clock.now(), **told)
    assert "3 × Timeout: customer 2, and 1 more cause<" in sign_in(ann).get("/").content.decode()


def test_home_tells_runs_that_are_due_from_those_that_are_held(ann, sign_in):
    builders.run()
    for _ in range(2):
        builders.run(trigger=builders.trigger(mode="paused"))
    assert "Queue: 1 due, 2 held" in sign_in(ann).get("/").content.decode()
