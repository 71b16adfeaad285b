"""A trigger's `rate_limit` holds for every start: by an event, by a person, and of what waited before."""

from datetime import timedelta
from typing import Any

import pytest

from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import registered, work
from triggers import configure, redrive
from triggers.models import Run, Trigger

pytestmark = pytest.mark.django_db(transaction=True)
HOURLY = {"limit": 1, "period": 3600}


def limited(**rate: Any) -> Trigger:
    builders.source()
    return builders.trigger("story", limits={"rate_limit": rate} if rate else {})


def started() -> int:
    return Run.objects.exclude(started_at=None).count()


def ended(trigger: Trigger, customer: int = 1) -> Run:
    """A run that was started, and is over, before there was any rate."""
    event, now = builders.event(data={"customer": customer}), clock.now()
    return builders.run("story", trigger=trigger, event=event, status="succeeded", started_at=now, finished_at=now)


def hours_left() -> list[int]:
    now = clock.now()
    waiting = Run.objects.filter(started_at=None).order_by("due_at")
    return [round((due - now) / timedelta(hours=1)) for due in waiting.values_list("due_at", flat=True)]


def test_runs_that_a_person_starts_take_one_turn_each(ann: User) -> None:
    with registered("story", lambda run: None):
        trigger = limited(**HOURLY)
        for run in [ended(trigger) for _ in range(4)]:
            redrive.rerun(run, by=ann)
        before = started()
        work()
        assert started() - before == 1
        assert hours_left() == [1, 2, 3]


def test_a_run_that_a_person_starts_goes_behind_those_that_have_a_turn(ann: User) -> None:
    with registered("story", lambda run: None):
        trigger = limited(**HOURLY)
        now = clock.now()
        turns = [now + timedelta(hours=n) for n in (1, 2)]
        planned = [builders.run("story", trigger=trigger, rate_key="", not_before=at, due_at=at) for at in turns]
        again = redrive.rerun(ended(trigger), by=ann)
        work()
        assert Run.objects.get(pk=again.pk).started_at is None
        assert hours_left() == [1, 2, 3]
        assert list(Run.objects.filter(pk__in=[run.pk for run in planned]).values_list("due_at", flat=True)) == turns


@pytest.mark.parametrize("before", [{}, HOURLY, {**HOURLY, "key": "event.type"}])
def test_a_new_rate_with_a_key_holds_for_what_waits(ann: User, before: dict[str, Any]) -> None:
    with registered("story", lambda run: None):
        trigger = limited(**before)
        old = {"rate_key": "old", "not_before": clock.now()} if before else {}
        for customer in (1, 1, 2, 1):
            builders.run("story", trigger=trigger, event=builders.event(data={"customer": customer}), **old)
        rate = {**HOURLY, "key": "event.data.customer"}
        configure.change_trigger(trigger, by=ann, version=trigger.version, limits={"rate_limit": rate})
        work()
        keys = list(Run.objects.exclude(started_at=None).order_by("pk").values_list("rate_key", flat=True))
        assert keys == ["1", "2"], "the first of each customer"
        assert hours_left() == [1, 2]
