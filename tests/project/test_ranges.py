"""Charts show the last hour, day or week, whichever the address says; every row is in the slot it lies in."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from project import chart, figures
from project.lib import clock
from project.people.models import User
from tests import builders
from triggers.models import DeadLetter, Event, Run, Source
from triggers.views.ranges import RANGES, Range

pytestmark = pytest.mark.django_db
AGO = {"1h": timedelta(minutes=20), "24h": timedelta(hours=7), "7d": timedelta(days=5)}


def rang(ago: timedelta, **facts: Any) -> Run:
    """An event that long ago, and the run it woke at once."""
    at = clock.now() - ago
    event = builders.event(source=Source.objects.first() or builders.source())
    Event.objects.filter(pk=event.pk).update(received_at=at)
    run = builders.run(event=Event.objects.get(pk=event.pk), **facts)
    Run.objects.filter(pk=run.pk).update(queued_at=at)
    return run


@pytest.mark.parametrize("span", RANGES.values(), ids=RANGES)
def test_the_slots_end_now_lie_side_by_side_and_begin_at_round_times(span: Range) -> None:
    now = datetime(2026, 11, 30, 21, 7, 33, tzinfo=UTC)
    slots = span.slots(now)
    assert len(slots) == span.count
    assert slots[-1] <= now < slots[-1] + span.slot
    assert {later - slot for slot, later in pairwise(slots)} == {span.slot}
    assert {slot.timestamp() % span.slot.total_seconds() for slot in slots} == {0}


@pytest.mark.parametrize("name", AGO)
def test_home_shows_the_span_of_its_address_and_each_column_leads_to_what_it_counts(
    owner: User, sign_in: Callable[[User], Client], name: str
) -> None:
    run = rang(AGO[name])
    client = sign_in(owner)
    page = client.get(f"/?range={name}")
    [bar] = page.context["bars"]
    assert bar.total == 1
    assert [row.pk for row in client.get(bar.url).context["list"].rows] == [run.event_id]
    current = page.content.decode().partition('aria-label="Of which time"')[2].partition('aria-current="page"')[0]
    assert current.count("<a ") == list(AGO).index(name) + 1
    others = [one for one in AGO if AGO[one] < AGO[name]]
    for shorter in others:
        assert not client.get(f"/?range={shorter}").context["bars"], "it lies before that"


def test_a_span_there_is_not_is_left_out_and_said(owner: User, sign_in: Callable[[User], Client]) -> None:
    page = sign_in(owner).get("/?range=year")
    assert page.context["range"] is RANGES["1h"]
    assert "“year” is none of 1h, 24h, 7d; it was left out." in page.content.decode()


@pytest.mark.parametrize("name", AGO)
def test_a_cause_is_marked_where_it_began(name: str) -> None:
    run, span, now = rang(AGO[name], status="dead", finished_at=clock.now()), RANGES[name], clock.now()
    at = now - AGO[name]
    DeadLetter.objects.create(
        kind="run", run=run, event=run.event, fingerprint="abc", error_type="Boom", first_at=at, last_at=at
    )
    [mark] = chart.incidents(now, span)
    bars = chart.columns(now, span)
    assert [number for number, bar in enumerate(bars) if bar.parts["fail"]] == [mark.at]


@pytest.mark.parametrize("name", AGO)
def test_the_page_of_a_trigger_shows_its_runs_of_the_span(
    owner: User, sign_in: Callable[[User], Client], name: str
) -> None:
    trigger = builders.trigger(slug="shop")
    run = rang(AGO[name], trigger=trigger)
    rang(AGO[name], trigger=builders.trigger(slug="other"))
    client = sign_in(owner)
    page = client.get(reverse("trigger-edit", args=["shop"]) + f"?range={name}").content.decode()
    assert ": 1 in all, 0 failed" in page
    link = page.partition('<a href="/runs?trigger=shop&amp;since=')[2].partition('"')[0].replace("&amp;", "&")
    assert [row.pk for row in client.get(f"/runs?trigger=shop&since={link}").context["list"].rows] == [run.pk]
    for shorter in [one for one in AGO if AGO[one] < AGO[name]]:
        assert "No run in the last" in client.get(f"/triggers/shop?range={shorter}").content.decode()


def test_a_week_is_counted_for_all_who_look_every_few_minutes(owner: User, sign_in: Callable[[User], Client]) -> None:
    client = sign_in(owner)
    client.get("/?range=7d")
    rang(AGO["7d"])
    assert not client.get("/?range=7d").context["bars"]
    figures.forget()
    assert client.get("/?range=7d").context["bars"]


@pytest.mark.parametrize("name", RANGES)
def test_what_is_counted_for_all_who_look_is_told_by_the_clock_of_each(
    name: str, owner: User, ann: User, sign_in: Callable[[User], Client]
) -> None:
    User.objects.filter(pk=owner.pk).update(time_zone="Asia/Kolkata")  # half an hour off everybody else's
    User.objects.filter(pk=ann.pk).update(time_zone="UTC")
    rang(timedelta(0))
    titles = [sign_in(person).get(f"/?range={name}").context["bars"][0].title for person in (owner, ann)]
    assert titles[0] != titles[1]
