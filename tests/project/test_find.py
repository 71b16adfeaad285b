"""One box finds rows by number, things by name and events by words, and shows nobody what is hidden from him."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from project import finding
from tests import builders
from triggers import agents, search
from triggers.models import Bulk, DeadLetter

MOST = 15  # questions of the database


@pytest.fixture
def desk(ann):
    builders.source("shop-orders")
    builders.trigger("greet", slug="daily-hello", source="shop-orders")
    event = builders.event(type="order.paid", subject="acme/shop#7", data={"iban": "DE44500105175407324931"})
    run = builders.run("greet", event=event)
    action = builders.action(by=ann, run=run, title="Refund 40.00 to Acme")
    at = event.received_at
    letter = DeadLetter.objects.create(
        kind="run", run=run, event=event, fingerprint="abc", error_type="ValueError", first_at=at, last_at=at
    )
    job = Bulk.objects.create(verb="redrive", total=1, mark="m", created_at=at, paced_at=at, resumed_at=at)
    agents.make("night-coder", "code-agent", by=ann)
    search.index()
    return {"E": event, "R": run, "A": action, "D": letter, "B": job}


@pytest.fixture
def find(sign_in):
    return lambda who, words: sign_in(who).get("/find", {"q": words})


def links(answer):
    return [hit.url for group in answer.context["groups"] for hit in group.hits]


def test_a_number_with_its_letter_opens_the_row(desk, ann, find):
    pages = {"E": "/events/", "R": "/runs/", "A": "/actions/", "D": "/dead-letters/", "B": "/bulk/"}
    for letter, row in desk.items():
        for written in (f"{letter}-{row.pk}", f" {letter.lower()}-{row.pk} "):
            assert find(ann, written)["location"] == f"{pages[letter]}{row.pk}"


def test_a_bare_number_shows_every_row_that_has_it(desk, ann, find):
    assert f"/runs/{desk['R'].pk}" in links(find(ann, str(desk["R"].pk)))


def test_a_number_nobody_has_is_said_so(desk, ann, find):
    answer = find(ann, "R-999999")
    assert answer.status_code == 200
    assert "Nothing is called so" in answer.content.decode()


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("daily", "/triggers/daily-hello"),
        ("shop-ord", "/sources/shop-orders"),
        ("dead le", "/dead-letters"),
        ("connections", "/connections"),
        ("coder", "/agents/night-coder"),
        ("acme/shop#7", "/events/{E}"),
        ("order.paid", "/events/{E}"),
        ("refund 40", "/actions/{A}"),
    ],
)
def test_a_name_or_a_word_finds_what_carries_it(desk, ann, find, words, where):
    assert where.format(**{letter: row.pk for letter, row in desk.items()}) in links(find(ann, words))


def test_words_of_a_payload_find_for_those_who_may_read_it_and_for_nobody_else(desk, ann, ben, find):
    assert f"/events/{desk['E'].pk}" in links(find(ann, "DE44500105175407324931"))
    assert links(find(ben, "DE44500105175407324931")) == []  # ben reviews, and reads no payloads
    assert "DE445" not in find(ben, "order.paid").content.decode()


@pytest.mark.parametrize(
    "words", ["", "   ", "\x00", "%", "' OR 1=1 --", "E-", "E-99999999999999999999", "x" * 5000, "<b>"]
)
def test_nothing_anybody_types_breaks_it(desk, ann, find, words):
    assert find(ann, words).status_code == 200


@pytest.mark.usefixtures("one_look")
def test_a_question_costs_few_queries(desk, ann, sign_in):
    client = sign_in(ann)
    client.get("/find?q=1")  # what keeps the desk from its work is asked every few seconds, by whichever page
    for words in ("1", "order", "daily"):
        with CaptureQueriesContext(connection) as queries:
            client.get("/find", {"q": words})
        assert len(queries) <= MOST, "\n".join(one["sql"][:150] for one in queries)


def test_every_page_has_the_box_and_it_is_a_plain_form(ann, sign_in):
    text = sign_in(ann).get("/runs").content.decode()
    assert 'class="find" action="/find"' in text
    assert "Ctrl K" in text


def test_the_letters_are_those_of_the_pages():
    assert "".join(kind.letter for kind in finding.NUMBERED) == "ERADB"
