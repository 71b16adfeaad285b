"""A list in the order of a column: pages by key hold while rows come, end and share a time."""

from collections.abc import Callable
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse

from project.lib import clock
from project.people.models import User
from tests import builders
from triggers.models import Run
from triggers.views import lists

pytestmark = pytest.mark.django_db


def ended(*minutes: int) -> list[Run]:
    """Runs that ended so many minutes ago."""
    now = clock.now()
    return [builders.run(status="succeeded", finished_at=now - timedelta(minutes=back)) for back in minutes]


def walked(client: Client, sort: str, between: Callable[[], object] = lambda: None) -> list[int]:
    """The numbers of all runs, page after page; `between` happens between two of them."""
    seen: list[int] = []
    query = urlencode({"sort": sort})
    address = f"{reverse('runs')}?{query}"
    while address:
        found = client.get(address).context["list"]
        seen += [row.pk for row in found.rows]
        address = f"{reverse('runs')}{found.older}" if found.older else ""
        between()
    return seen


@pytest.fixture
def client(owner: User, sign_in: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(lists, "SIZE", 2)
    monkeypatch.setattr(lists, "LONGEST", 2)
    return sign_in(owner)


def test_the_last_that_ended_stands_first_and_turned_round_last(client: Client) -> None:
    first, last, middle = ended(30, 1, 10)
    builders.run(status="queued")
    assert walked(client, "-ended") == [last.pk, middle.pk, first.pk]
    assert walked(client, "ended") == [first.pk, middle.pk, last.pk]


def test_rows_that_share_a_time_are_each_listed_once(client: Client) -> None:
    rows = ended(5)
    for _ in range(6):
        again = builders.run(status="succeeded", finished_at=rows[0].finished_at)
        rows.append(again)
    for sort in ("-ended", "ended"):
        seen = walked(client, sort)
        assert sorted(seen) == [row.pk for row in rows]
        assert seen == sorted(seen, reverse=sort == "-ended")


def test_what_ends_meanwhile_moves_no_row_to_another_page(client: Client) -> None:
    rows = ended(50, 40, 30, 20, 10)
    seen = walked(client, "-ended", between=lambda: ended(0))
    assert seen == [row.pk for row in reversed(rows)]


def test_only_a_column_with_an_index_is_an_order_and_the_heads_say_which_it_is(client: Client) -> None:
    ended(1)
    odd = client.get(reverse("runs") + "?sort=worked").content.decode()
    assert "“sort” can only be oldest, ended, -ended; it was left out." in odd
    shown = client.get(reverse("runs") + "?sort=-ended&status=succeeded").content.decode()
    head = shown.partition("<thead>")[2].partition("</thead>")[0]
    assert head.count("aria-sort") == 1
    assert 'aria-sort="descending"><a class="name" href="?sort=ended&amp;status=succeeded">Ended' in head
    assert '<input type="hidden" name="sort" value="-ended">' in shown, "a filter keeps the order"
    assert ", those that have this time" in shown


@pytest.mark.parametrize("after", ["7", "yesterday~3", "2026-11-30T00:00:00Z~x", "~", "2026-11-30T00:00:00Z~0"])
def test_a_place_that_is_none_is_left_out_and_said(client: Client, after: str) -> None:
    rows = ended(2, 1)
    answer = client.get(reverse("runs"), {"sort": "ended", "after": after})
    assert [row.pk for row in answer.context["list"].rows] == [row.pk for row in rows]
    assert "is no place in this order" in answer.content.decode()


def test_actions_stand_in_the_order_they_were_decided_or_ended_in(client: Client, ann: User) -> None:
    now = clock.now()
    early, late = (
        builders.action(by=ann, status="rejected", decided_at=now - back, settled_at=now + back)
        for back in (timedelta(hours=1), timedelta(minutes=1))
    )
    builders.action(by=ann)
    for sort, order in (("-decided", [late, early]), ("-ended", [early, late]), ("oldest", [early, late])):
        rows = client.get(reverse("actions"), {"sort": sort}).context["list"].rows
        assert [row.pk for row in rows] == [one.pk for one in order], sort


def test_the_files_of_a_list_hold_every_row_whatever_its_order(client: Client) -> None:
    ended(1)
    builders.run(status="queued")
    lines = client.get(reverse("runs") + "?sort=-ended&format=csv").getvalue().decode().splitlines()
    assert len(lines) == 3
