"""What is counted of a day is counted by the hour, and an hour that has passed is counted once."""

from collections import Counter
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.db.models import Count, Q
from django.test.utils import CaptureQueriesContext

from project import chart, figures, hours
from project.lib import clock
from tests import builders
from triggers.models import Run
from triggers.views.ranges import LAST_HOUR

pytestmark = pytest.mark.django_db
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
NOON = datetime.fromisoformat("2026-05-04T12:20:30+00:00")
TOLD = {"good": Count("pk", filter=Q(status="succeeded")), "dead": Count("pk", filter=Q(status="dead"))}


def ended(at: datetime, status: str = "succeeded") -> Run:
    return builders.run(event=builders.event(), status=status, finished_at=at)


def counted(since: datetime = NOON - DAY, until: datetime = NOON) -> Counter[str]:
    found = hours.counted("ended", Run.objects.all(), "finished_at", TOLD, since, until)
    return sum(found, Counter())


@pytest.mark.parametrize("back", [timedelta(0), 20 * MINUTE + timedelta(seconds=30), 50 * MINUTE])
def test_a_span_holds_what_lies_in_it_wherever_its_hours_are_cut(back: timedelta) -> None:
    until = NOON - back
    for ago in (timedelta(microseconds=1), timedelta(hours=7), DAY):
        ended(until - ago)
    ended(until - timedelta(hours=3), "dead")
    for outside in (until, until - DAY - timedelta(microseconds=1)):
        ended(outside)
    for _ in range(2):  # counted, and known
        assert counted(until - DAY, until) == {"good": 3, "dead": 1}
    assert counted(until - timedelta(minutes=1), until) == {"good": 1}


def test_an_hour_that_has_passed_is_not_counted_again() -> None:
    ended(NOON - timedelta(hours=5))
    counted()
    with CaptureQueriesContext(connection) as asked:
        assert counted() == {"good": 1}
    spans = [query["sql"] for query in asked]
    assert len(spans) == 2, spans  # the first hour, which is cut, and the one that goes on
    assert all("2026-05-04 07" not in sql for sql in spans)


def test_what_comes_into_the_hour_that_goes_on_is_counted() -> None:
    counted()
    ended(NOON - MINUTE)
    assert counted() == {"good": 1}


def test_an_hour_is_known_only_when_nothing_can_be_added_to_it() -> None:
    """A run that ended at 11:59:59 may be committed a moment after twelve."""
    soon = NOON.replace(minute=1)
    counted(soon - DAY, soon)
    ended(NOON.replace(hour=11, minute=59, second=59))
    assert counted(soon - DAY, soon) == {"good": 1}


def test_hours_of_days_before_are_forgotten() -> None:
    counted()
    counted(NOON + 4 * DAY, NOON + 5 * DAY)
    assert {hour for _, hour in hours.KNOWN} == {
        NOON.replace(minute=0, second=0) + 4 * DAY + timedelta(hours=n) for n in range(1, 24)
    }


def test_home_tells_today_and_yesterday_apart() -> None:
    now = clock.now()
    for ago, status in ((1, "succeeded"), (5, "dead"), (30, "succeeded"), (31, "succeeded"), (49, "dead")):
        ended(now - timedelta(hours=ago), status)
    figure = figures.succeeded(now, chart.columns(now, LAST_HOUR))
    assert (figure.value, figure.words) == ("50", "1 of 2 runs gave up, 100% yesterday")


def test_the_chart_tells_a_run_without_a_trigger_and_no_older_one() -> None:
    """Machines start runs that no trigger asked for."""
    now, source = clock.now(), builders.source()
    for ago, trigger in ((5 * MINUTE, None), (6 * MINUTE, builders.trigger()), (DAY, builders.trigger(slug="old"))):
        event = builders.event(source=source, received_at=now - ago)
        builders.run(event=event, trigger=trigger, status="waiting", queued_at=now - ago)
    bars = chart.columns(now, LAST_HOUR)
    assert sum(bar.parts["wait"] for bar in bars) == 2
    assert sum(bar.total for bar in bars) == 2
