"""Every action is found again: by filters in the address, page by page, and as a table nobody can be tricked by."""

import csv
import io
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals.models import Action
from project.lib import clock
from project.people import roles
from tests import builders
from tests.approvals.test_pages import text_of
from tests.conftest import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann_reads(ann, sign_in):
    return sign_in(ann)


def titles(answer) -> list[str]:
    return [action.title for action in answer.context["list"].rows]


def table(answer) -> list[dict[str, str]]:
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.getvalue().decode())))


def test_without_any_it_says_what_an_action_is_and_how_to_see_one(ann_reads):
    page = text_of(ann_reads.get("/actions"))
    assert "Nothing was asked for yet" in page
    assert "make ring NAME=github-issue" in page


def test_every_filter_narrows_and_a_repeated_one_means_either(ann_reads, ann, owner):
    run = builders.run()
    builders.action(by=ann, title="one", kind="github.comment", tier="low", status="approved", run=run)
    builders.action(by=owner, title="two", kind="github.create_pr", tier="medium")
    builders.action(title="three", kind="http.request", tier="high", created_at=clock.now() - timedelta(days=3))
    for query, expected in {
        "": ["three", "two", "one"],
        "kind=github.comment": ["one"],
        "kind=github.comment&kind=http.request": ["three", "one"],
        "tier=high": ["three"],
        "status=awaiting": ["three", "two"],
        f"run=R-{run.pk}": ["one"],
        f"run={run.pk}": ["one"],
        "requester=ann&requester=owner": ["two", "one"],
        "since=24h": ["two", "one"],
        "until=" + (clock.now() - timedelta(days=1)).strftime("%Y-%m-%d"): ["three"],
        "kind=github.comment&tier=high": [],
    }.items():
        assert titles(ann_reads.get(f"/actions?{query}")) == expected, query


@pytest.mark.parametrize("query", ["colour=red", "tier=purple", "run=many", "since=yesterday", "status=gone"])
def test_what_is_no_filter_is_said_and_left_out(ann_reads, query):
    builders.action(title="here")
    answer = ann_reads.get(f"/actions?{query}")
    assert answer.status_code == 200
    assert "was left out" in text_of(answer)
    assert titles(answer) == ["here"]
    assert ann_reads.get(f"/actions?{query}&format=csv").status_code == 400


def test_what_nobody_knows_the_outcome_of_stands_above_everything(ann_reads):
    builders.action(title="where is it", status="unknown", tries=1)
    builders.action(title="newer")
    answer = ann_reads.get("/actions")
    page = answer.content.decode()
    assert page.index("Did it happen?") < page.index("where is it") < page.index("newer")
    assert titles(answer) == ["newer"]
    assert titles(ann_reads.get("/actions?status=unknown")) == ["where is it"]


def test_the_next_page_goes_on_where_this_one_ends(ann_reads):
    for number in range(60):
        builders.action(title=f"n{number}")
    first = ann_reads.get("/actions")
    builders.action(title="came meanwhile")
    rest = ann_reads.get(f"/actions?after={first.context['list'].last}")
    assert titles(first) + titles(rest) == [f"n{number}" for number in reversed(range(60))]


def test_nothing_matches_says_how_many_there_are(ann_reads):
    builders.action()
    assert "1 without the filter" in text_of(ann_reads.get("/actions?tier=high"))


@pytest.mark.parametrize("where", ["/actions?format=csv&", "/api/v1/actions?format=csv&"])
class TestTable:
    def test_it_has_the_rows_of_the_filters_without_formulas(self, where, ann_reads):
        builders.action(title='=HYPERLINK("http://evil.example")', tier="high")
        builders.action(title="plain", arguments={"body": "@SUM(1)"})
        rows = table(ann_reads.get(f"{where}tier=high"))
        assert [row["title"] for row in rows] == ['\'=HYPERLINK("http://evil.example")']
        assert table(ann_reads.get(where))[0]["title"] == "plain"

    def test_arguments_are_for_who_may_see_payloads_and_hidden_values_for_nobody(self, where, ann_reads, sign_in):
        builders.action(arguments={"headers": {"Authorization": "hidden:0123456789abcdef"}, "body": "private"})
        assert "private" in table(ann_reads.get(where))[0]["arguments"]
        assert "hidden:0123456789abcdef" in table(ann_reads.get(where))[0]["arguments"]
        for name, held in (("vic", roles.VIEWER), ("rob", roles.REVIEWER)):
            answer = sign_in(person(name, held)).get(where)
            assert table(answer)[0]["arguments"] == ""
            assert "private" not in answer.getvalue().decode()


@pytest.mark.usefixtures("one_look")
@pytest.mark.parametrize("address", ["/actions", "/actions?format=csv"])
def test_a_list_costs_the_same_however_long_it_is(ann_reads, ann, address):
    ann_reads.get(address)

    def cost(rows: int) -> int:
        for _ in range(rows):
            builders.action(by=ann, run=builders.run(), connection=None)
        with CaptureQueriesContext(connection) as asked:
            answer = ann_reads.get(address)
            assert (answer.status_code, bool(answer.getvalue())) == (200, True)
        return len(asked)

    few = cost(3)
    assert cost(30) == few <= 20


def test_titles_from_outside_are_only_text(ann_reads):
    builders.action(title="<img src=x onerror=window.__x=1>\u202e")
    page = ann_reads.get("/actions").content.decode()
    assert "<img src=x" not in page
    assert "U+202E" in page
    assert Action.objects.count() == 1
