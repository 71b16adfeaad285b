"""Every page of the machine opens for whoever may read it, for nobody else, and changes nothing by being opened."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests import builders
from tests.conftest import PASSWORD
from tests.triggers.desk import CLOSING, HOSTILE, Desk
from triggers.models import Audit, DeadLetter, Event, Run, Step


def pages(desk: Desk) -> list[str]:
    """The address of every page that is only read."""
    run = [reverse("run", args=[run.pk]) for run in (desk.done, desk.waiting, desk.dead)]
    return [
        reverse("events"),
        reverse("event", args=[desk.event.pk]),
        reverse("event", args=[desk.ignored.pk]),
        reverse("runs"),
        *run,
        *(f"{run[0]}?tab={tab}" for tab in ("log", "payload", "history")),
        f"{run[0]}?step=diagnose&full=1&problems=1",
        reverse("dead-letters"),
        reverse("dead-letters") + "?status=dismissed",
        reverse("dead-letter-group", args=[desk.letter.fingerprint]),
        reverse("dead-letter", args=[desk.letter.pk]),
        reverse("triggers"),
        reverse("trigger-edit", args=[desk.trigger.slug]),
        reverse("sources"),
        reverse("source-edit", args=[desk.source.slug]),
        reverse("source-edit", args=[desk.clock.slug]),
        reverse("connections"),
        reverse("connection-edit", args=[desk.connection.slug]),
        reverse("handlers"),
    ]


def test_every_page_opens_for_a_viewer_and_says_the_same_twice(desk, ben, ann, owner, sign_in):
    for person in (ben, ann, owner):
        browser = sign_in(person)
        for page in pages(desk):
            answer = browser.get(page)
            assert answer.status_code == 200, (person, page)
            assert "Content-Security-Policy" in answer


def test_what_an_error_quotes_is_for_those_who_see_payloads(desk, ben, ann, sign_in):
    """Ben reviews and may read, but sees no payloads: type, place and step are left."""
    quoted = "KeyError of customer 4711"
    told = {"type": "KeyError", "message": quoted, "traceback": f"Traceback: {quoted}"}
    Run.objects.filter(pk=desk.dead.pk).update(error=told)
    Run.objects.filter(pk=desk.waiting.pk).update(error=told, status="retrying")
    Step.objects.filter(run=desk.dead).update(error=told, status="failed")
    DeadLetter.objects.update(message=quoted)
    run = reverse("run", args=[desk.dead.pk])
    letter, group = (
        reverse("dead-letter", args=[desk.letter.pk]),
        reverse("dead-letter-group", args=["0123456789abcdef"]),
    )
    shown = [run, f"{run}?step=read+the+issue", reverse("run", args=[desk.waiting.pk]), letter, group]
    for page in [*shown, reverse("dead-letters"), reverse("home")]:
        assert quoted in sign_in(ann).get(page).content.decode(), page
        text = sign_in(ben).get(page).content.decode()
        assert quoted not in text, page
        assert "KeyError" in text, page


def test_what_was_not_saved_is_said_on_top_with_the_way_to_its_field(owner, sign_in):
    browser = sign_in(owner)
    browser.post("/step-up", {"password": PASSWORD, "next": "/"})
    forms = {
        reverse("trigger-new"): ({"slug": "No Name"}, "id_slug"),
        reverse("source-new"): ({"kind": "webhook", "slug": "No Name"}, "id_slug"),
        reverse("connection-new"): ({"system": "http", "slug": "No Name"}, "id_slug"),
    }
    for page, (fields, place) in forms.items():
        answer = browser.post(page, fields)
        top = answer.content.decode().partition('id="not-saved" role="alert"')[2].partition("</div>")[0]
        assert (answer.status_code, "Not saved: " in top, f'href="#{place}"' in top) == (422, True, True), page
        assert f'id="{place}"' in answer.content.decode(), page


def test_pages_of_an_empty_desk_teach_the_first_step(owner, sign_in):
    browser = sign_in(owner)
    for name in ("events", "runs", "dead-letters", "triggers", "sources", "connections", "handlers"):
        answer = browser.get(reverse(name))
        assert answer.status_code == 200
        assert 'class="empty"' in answer.content.decode() or name == "handlers"


def test_a_stranger_and_the_signed_out_see_nothing(desk, eve, sign_in):
    for page in pages(desk):
        assert sign_in(eve).get(page).status_code == 403
        assert Client().get(page).status_code == 302


def test_opening_pages_changes_nothing(desk, owner, sign_in):
    before = list(Run.objects.values()), list(Event.objects.values()), Audit.objects.count()
    for page in pages(desk):
        sign_in(owner).get(page)
    assert (list(Run.objects.values()), list(Event.objects.values()), Audit.objects.count()) == before


def test_what_changes_something_refuses_a_get(desk, owner, sign_in):
    browser = sign_in(owner)
    for address in (
        reverse("event-run-again", args=[desk.event.pk]),
        reverse("run-cancel", args=[desk.waiting.pk]),
        reverse("run-again", args=[desk.done.pk]),
        reverse("run-unblock", args=[desk.waiting.pk]),
        reverse("dead-letter-redrive", args=[desk.letter.pk]),
        reverse("dead-letter-dismiss", args=[desk.letter.pk]),
        reverse("trigger-switch", args=[desk.trigger.slug]),
        reverse("trigger-archive", args=[desk.trigger.slug]),
        reverse("source-switch", args=[desk.source.slug]),
        reverse("source-archive", args=[desk.source.slug]),
        reverse("source-secret-end", args=[desk.source.slug]),
        reverse("connection-archive", args=[desk.connection.slug]),
    ):
        assert browser.get(address).status_code == 405, address


def test_hostile_texts_are_shown_and_never_run(desk, owner, sign_in):
    """XS-01, XS-02: type, subject, id, header, log line, error, title and payload are words on the page."""
    browser = sign_in(owner)
    for page in pages(desk):
        text = browser.get(page).content.decode()
        assert HOSTILE not in text, page
        assert CLOSING not in text, page
    assert (
        "&lt;img src=x onerror=window.__x=1&gt;" in browser.get(reverse("event", args=[desk.event.pk])).content.decode()
    )


def test_big_integers_are_exact_on_the_page_and_in_the_editor(desk, owner, sign_in):
    """JS-04."""
    text = sign_in(owner).get(reverse("event", args=[desk.event.pk])).content.decode()
    assert text.count("3544790567247868102") >= 2  # in the tree, in the raw text
    assert "9007199254740993" in text
    assert "3544790567247868102" in sign_in(owner).get(reverse("dead-letter", args=[desk.letter.pk])).content.decode()


def test_payloads_are_for_operators(desk, ben, sign_in):
    browser = sign_in(ben)
    for page in pages(desk):
        assert "3544790567247868102" not in browser.get(page).content.decode(), page
    assert browser.get(reverse("event-raw", args=[desk.event.pk])).status_code == 403


def test_the_exact_bytes_are_a_download(desk, ann, sign_in):
    answer = sign_in(ann).get(reverse("event-raw", args=[desk.event.pk]))
    assert answer.content == bytes(desk.event.raw)
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.usefixtures("one_look")
@pytest.mark.parametrize("name", ["events", "runs", "dead-letters", "triggers", "sources", "connections"])
def test_lists_ask_the_same_number_of_questions_however_long(desk, owner, sign_in, name):
    browser = sign_in(owner)
    browser.get(reverse(name))
    with CaptureQueriesContext(connection) as few:
        browser.get(reverse(name))
    for number in range(20):
        row = builders.event(subject=f"more/{number}")
        builders.run(event=row, trigger=desk.trigger)
        builders.source(f"s{number}")
        builders.trigger(slug=f"t{number}")
        builders.connection("http", slug=f"c{number}")
    with CaptureQueriesContext(connection) as many:
        browser.get(reverse(name))
    assert len(many) <= len(few) <= 25


def test_lists_never_read_payloads(desk, owner, sign_in):
    for name in ("events", "runs"):
        with CaptureQueriesContext(connection) as asked:
            sign_in(owner).get(reverse(name))
        assert not any('"raw"' in query["sql"] for query in asked), name
