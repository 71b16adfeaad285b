"""Lists of the desk: what is asked for stands in the address, the same as in the API, and is also a table."""

import csv
import io
import json
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from project import trouble
from project.lib import clock
from tests import builders
from triggers import schemas
from triggers.models import DeadLetter
from triggers.views import audit, dead_letters, events, runs
from triggers.views import lists as pages

MOST = 15  # questions a page asks of the database
PAGED = ("events", "runs", "dead-letters", "handlers", "triggers", "sources")


def table(answer):
    assert answer["Content-Type"].startswith("text/csv"), answer.content
    return list(csv.DictReader(io.StringIO(answer.getvalue().decode())))


@pytest.mark.parametrize(
    "address",
    [
        "events?q=PUSH",
        "events?type=github.*&status=routed",
        "events?type=github.push&type=github.issues.opened",
        "events?source=github&subject=acme/shop%231",
        "runs?status=dead&status=waiting",
        "runs?handler=triage-issue&trigger=triage-issue&event=1",
        "dead-letters?kind=run&status=open",
        "actions?tier=medium&status=awaiting&run=1",
        "audit?subject=event&actor=/nightdesk&verb=deliver",
        "events?until=2020-01-01T00:00:00Z",
    ],
)
def test_one_address_means_the_same_rows_on_the_page_and_in_the_api(desk, operator, address):
    name, _, query = address.partition("?")
    page, api = (operator.get(f"{place}{name}?{query}&format=csv") for place in ("/", "/api/v1/"))
    assert table(page) == table(api)


@pytest.mark.parametrize("name", ["events", "runs", "dead-letters"])
def test_a_list_as_json_says_what_the_api_says(desk, operator, name):
    page = operator.get(f"/{name}?format=json")
    assert page["Content-Disposition"] == f'attachment; filename="{name}.json"'
    told, api = json.loads(page.getvalue()), operator.get(f"/api/v1/{name}?format=json").json()["items"]
    assert told, "an empty list would prove nothing"
    assert [row["id"] for row in told] == [row["id"] for row in api]
    assert all(row[member] == value for row, said in zip(told, api, strict=True) for member, value in said.items())


@pytest.mark.parametrize("name", [*PAGED, "actions", "audit", "bulk", "connections", "policies"])
def test_every_list_is_two_files_and_one_of_a_filter_nobody_knows_is_none(desk, operator, name):
    address = reverse(name)
    json.loads(operator.get(f"{address}?format=json").getvalue())
    table(operator.get(f"{address}?format=csv"))
    for wrong in ("format=json&colour=red", "format=xml"):
        answer = operator.get(f"{address}?{wrong}")
        assert answer.status_code == (400 if "json" in wrong else 200)
        assert "it was left out" in answer.content.decode()


@pytest.mark.parametrize(
    ("page", "api"),
    [
        (events.FILTERS, schemas.EventFilters),
        (runs.FILTERS, schemas.RunFilters),
        (dead_letters.FILTERS, schemas.LetterFilters),
    ],
)
def test_a_page_has_exactly_the_filters_of_the_api(page, api):
    assert set(page) == set(api.model_fields) - {"limit", "after", "format"}


@pytest.mark.parametrize(
    ("name", "query", "found"),
    [
        ("events", "source=github&status=ignored&status=suppressed", ["ignored"]),
        ("events", "source=github&status=ignored&status=routed", ["ignored", "event", "done", "waiting", "dead"]),
        ("events", "type=github.push&type=nothing", ["ignored"]),
        ("events", "type=github.pu*", ["ignored"]),
        ("events", "since=24h&q=push", ["ignored"]),
        ("runs", "handler=triage-issue&status=dead", ["dead"]),
        ("runs", "trigger=triage-issue&status=waiting&status=blocked", ["waiting"]),
    ],
)
def test_a_filter_given_twice_means_either(desk, operator, name, query, found):
    rows = operator.get(f"{reverse(name)}?{query}").context["list"].rows
    wanted = [getattr(desk, one) for one in found]
    if name == "events":
        wanted = [getattr(one, "event", one) for one in wanted]
    assert {row.pk for row in rows} == {one.pk for one in wanted}


def test_what_is_ticked_stays_ticked_and_the_address_drops_what_is_empty(desk, operator):
    page = operator.get(reverse("runs") + "?handler=&status=dead&status=blocked&event=&since=")
    text = page.content.decode()
    assert text.count('name="status"') == 8
    assert 'value="dead" checked' in text
    assert 'value="blocked" checked' in text
    assert 'value="queued" checked' not in text
    assert page["HX-Push-Url"] == "/runs?status=dead&status=blocked"
    assert 'data-here="/runs?status=dead&amp;status=blocked"' in text


def test_a_second_value_of_a_text_filter_is_shown_and_can_be_taken_out(desk, operator):
    text = operator.get(reverse("events") + "?type=github.push&type=github.*").content.decode()
    assert "or type github.*" in text
    assert 'href="?type=github.push"' in text


@pytest.mark.parametrize(
    ("name", "query", "said"),
    [
        ("events", "status=lost", "is none of accepted"),
        ("runs", "colour=red", "is no filter of this list"),
        ("runs", "event=soon", "is a number such as E-17"),
        ("events", "after=x", "is a whole number above 0"),
        ("dead-letters", "after=x", "is no place in this list"),
        ("dead-letters", "kind=letter", "is none of run, action, event"),
        ("events", "since=yesterday", "is a time such as"),
        ("events", "since=0001-01-01T00:00:00%2B14:00", "is a time such as"),
        ("runs", "until=9999-12-31T23:59:59-14:00", "is a time such as"),
        ("audit", "since=9999-12-31T23:59:59-14:00", "is a time such as"),
    ],
)
def test_what_makes_no_sense_is_said_and_no_table_is_made_of_it(desk, operator, name, query, said):
    page = operator.get(f"{reverse(name)}?{query}")
    assert page.status_code == 200
    assert said in page.content.decode()
    if not query.startswith("after"):
        refused = operator.get(f"{reverse(name)}?{query}&format=csv")
        assert refused.status_code == 400
        assert "No file was made" in refused.content.decode()


def test_nothing_yet_and_nothing_matches_are_two_things(owner, sign_in):
    browser = sign_in(owner)
    for name in ("events", "runs", "dead-letters"):
        assert "Nothing matches" not in browser.get(reverse(name)).content.decode()
    builders.run()
    text = browser.get(reverse("events") + "?type=other").content.decode()
    assert "Nothing matches" in text
    assert "1 without the filter" in text
    assert "Clear filters" in text


def test_a_list_is_also_a_table_of_every_row_that_matches(desk, operator):
    for number in range(120):
        builders.event(type="=cmd", subject=f"s/{number}", status="ignored")
    rows = table(operator.get(reverse("events") + "?status=ignored&format=csv"))
    assert len(rows) == 121
    assert rows[0]["type"] == "'=cmd"
    assert {row["status"] for row in rows} == {"ignored"}
    assert [row["status"] for row in table(operator.get(reverse("runs") + "?status=dead&format=csv"))] == ["dead"]
    assert (
        'href="?status=ignored&amp;format=csv"' in operator.get(reverse("events") + "?status=ignored").content.decode()
    )


def test_the_tables_of_sources_triggers_connections_and_handlers(desk, operator):
    assert {row["slug"] for row in table(operator.get(reverse("sources") + "?format=csv"))} == {"github", "daily"}
    assert [row["slug"] for row in table(operator.get(reverse("triggers") + "?format=csv"))] == ["triage-issue"]
    assert [row["slug"] for row in table(operator.get(reverse("connections") + "?format=csv"))] == ["practice-github"]
    assert "triage-issue" in [row["name"] for row in table(operator.get(reverse("handlers") + "?format=csv"))]


def test_what_an_error_quotes_is_in_no_table_of_whoever_sees_no_payloads(desk, ben, operator, sign_in):
    """SE-02."""
    DeadLetter.objects.update(message="no such customer 4711")
    address = reverse("dead-letters") + "?format=csv"
    assert "4711" in table(operator.get(address))[0]["error"]
    assert "4711" not in table(sign_in(ben).get(address))[0]["error"]


def test_causes_come_fifty_a_page_and_none_twice(desk, operator):
    now = clock.now()
    for number in range(120):
        run = builders.run(status="dead", started_at=now, finished_at=now)
        DeadLetter.objects.create(
            kind="run", run=run, fingerprint=f"{number:016x}", error_type="Boom", first_at=now, last_at=now
        )
    seen, address = [], reverse("dead-letters")
    while address:
        page = operator.get(address)
        seen += [group["fingerprint"] for group in page.context["groups"]]
        older = page.context["older"]
        address = f"{reverse('dead-letters')}{older}" if older else ""
    assert len(seen) == len(set(seen)) == 121


def crowd(desk, many):
    now = clock.now()
    for number in range(many):
        row = builders.event(subject=f"more/{number}")
        run = builders.run(event=row, trigger=desk.trigger, status="dead", started_at=now, finished_at=now)
        letter = {"kind": "run", "run": run, "event": row, "first_at": now, "last_at": now}
        DeadLetter.objects.create(fingerprint=f"{number:016x}", error_type="Boom", handler="triage-issue", **letter)
        builders.source(f"s{number}")
        builders.trigger(slug=f"t{number}")


def asked(browser, address):
    browser.get(address)
    with CaptureQueriesContext(connection) as queries:
        assert browser.get(address).status_code == 200
    return len(queries)


@pytest.mark.usefixtures("one_look")
def test_a_page_asks_few_questions_however_much_there_is(desk, owner, sign_in, monkeypatch):
    """Every list and every page of one thing, with three hundred rows more as with few."""
    monkeypatch.setattr(trouble, "KEPT", 3600.0)  # what the banner tells is asked every few seconds, by whichever page
    browser = sign_in(owner)
    one = {"pk": desk.dead.pk}
    addresses = [
        *(reverse(name) for name in PAGED),
        reverse("events") + "?status=routed&rows=300",
        reverse("runs") + "?status=dead&rows=300",
        reverse("event", args=[desk.event.pk]),
        *(
            reverse("run", kwargs=one) + query
            for query in ("", "?tab=log", "?tab=payload", "?tab=history", "?step=diagnose")
        ),
        reverse("dead-letter", args=[desk.letter.pk]),
        reverse("dead-letter-edit", args=[desk.letter.pk]),
        reverse("dead-letter-group", args=[desk.letter.fingerprint]),
        reverse("trigger-edit", args=["triage-issue"]),
        reverse("trigger-new"),
        reverse("source-edit", args=["github"]),
        reverse("handler", args=["triage-issue"]),
    ]
    few = {address: asked(browser, address) for address in addresses}
    crowd(desk, 300)
    many = {address: asked(browser, address) for address in addresses}
    assert {address: count for address, count in many.items() if count > max(few[address], MOST) or count > MOST} == {}


def test_the_rows_shown_are_those_of_the_page(desk, monkeypatch, operator):
    monkeypatch.setattr(pages, "LONGEST", 10)
    for number in range(25):
        builders.event(subject=f"s/{number}")
    page = operator.get(reverse("events") + "?rows=10")
    assert len(page.context["list"].rows) == 10
    below = operator.get(reverse("events") + page.context["list"].older)
    assert not {row.pk for row in page.context["list"].rows} & {row.pk for row in below.context["list"].rows}
    assert "Newest" in below.content.decode()


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/triggers/new?source=%00", 200),
        ("/triggers/new?source=%00&handler=%00&type_pattern=%00", 200),
        ("/handlers/a%00b", 404),
        ("/practice?kind=%00", 200),
        ("/events?q=%00&source=%00&type=%00&status=%00&subject=%00", 200),
        ("/audit?actor=%00&verb=%00&subject=%00", 200),
        ("/api/v1/sources/%00", 404),
        ("/api/v1/sources/a%00/refusals", 404),
        ("/api/v1/triggers/%00", 404),
        ("/api/v1/connections/%00", 404),
    ],
)
def test_no_question_to_the_database_holds_what_none_can_store(desk, owner, sign_in, address, status):
    browser = sign_in(owner)
    asked = []

    def ask(execute, sql, given, many, context):
        asked.append(given)
        return execute(sql, given, many, context)

    with connection.execute_wrapper(ask):
        answer = browser.get(address)
    assert answer.status_code == status
    assert not [given for given in asked if r"\x00" in repr(given)]


def test_an_event_whose_matches_started_nothing_says_what_became_of_them(operator):
    for slug in ("aaa", "mmm", "zzz"):
        builders.trigger("triage-issue", slug=slug)
    told = [{"trigger": "aaa", "outcome": "not_matched"}, {"trigger": "mmm", "outcome": "dropped", "detail": "full"}]
    event = builders.event(status="routed", outcomes=told)
    for page in (reverse("events"), reverse("event", args=[event.pk])):
        text = operator.get(page).content.decode()
        shown = text.partition('<tbody id="event-rows"')[2] or text.partition('id="event-head"')[2].partition("<nav")[0]
        assert re.search(r'class="st retry">.{0,600}?Dropped</span>', shown, re.S), page
        assert "Routed</span>" not in shown, page
    assert re.findall(r'<option value="(\w+)">', text) == ["mmm", "aaa", "zzz"], "the one that dropped it comes first"


def test_what_is_said_beside_a_deed_is_written_in_words():
    saw = {"title": "Put to api.example.org", "rules": ["one", "two"], "given": 0}
    assert audit.said(saw) == "title Put to api.example.org, rules one, two, given 0"
    assert audit.said(2.243000030517578) == "2.2"
