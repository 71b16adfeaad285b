"""Runs whose time has come wake in batches: all of them, once, and no more bells ring than workers can hear."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import fresh, registered, work
from triggers import bells, dispatch, redrive, waking
from triggers.models import Run, Wait

pytestmark = pytest.mark.django_db(transaction=True)
LATE = timedelta(seconds=5)


def sleepers(count: int) -> None:
    """Runs that wait for a time which is over, made as a handler's `sleep` leaves them."""
    now = clock.now()
    event = builders.event()
    due = {"status": "waiting", "queued_at": now, "due_at": now, "wake_at": now - LATE, "waiting_for": "nap"}
    runs = Run.objects.bulk_create(Run(handler="story", event=event, **due) for _ in range(count))
    Wait.objects.bulk_create(
        Wait(run=run, step="nap", since=now, registered_at=now, expires_at=now - LATE) for run in runs
    )


def test_more_than_a_batch_wakes_in_one_round_and_few_bells_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[int] = []
    monkeypatch.setattr(bells, "ring", lambda ids: rung.extend(ids) or len(list(ids)))
    monkeypatch.setattr(waking, "EXPIRED", 50)
    sleepers(170)
    this = dispatch.tick()
    assert this.done["woken"] == 170
    assert Run.objects.filter(status="queued", wake_at=None, waiting_for="").count() == 170
    assert Wait.objects.filter(status="expired").count() == 170
    assert len(rung) == dispatch.BELLS
    assert dispatch.tick().done["woken"] == 0


def test_what_does_not_fit_into_the_time_of_a_round_is_left_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "EXPIRED", 50)
    sleepers(120)
    assert [waking.expire_due(clock.now(), seconds=0) for _ in range(4)] == [50, 50, 20, 0]


@pytest.fixture
def postgres() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite plans without statistics, and a commit there is on the disk before the next one")


def asked(question: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(question)
        return cursor.fetchone()[0]


@pytest.mark.usefixtures("postgres")
def test_the_queue_is_counted_anew_when_many_woke(monkeypatch: pytest.MonkeyPatch) -> None:
    """Autovacuum does so a minute later; until then each look at the head read and sorted the whole queue."""
    monkeypatch.setattr(waking, "MANY", 100)
    sleepers(170)
    waking.have_counted()
    assert asked("SELECT reltuples FROM pg_class WHERE relname = 'runs_due'") == 0
    waking.expire_due(clock.now())
    assert asked("SELECT reltuples FROM pg_class WHERE relname = 'runs_due'") == 170


@pytest.mark.usefixtures("postgres")
def test_only_the_waking_itself_does_not_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(waking, "all_changed", lambda *_: seen.append(asked("SHOW synchronous_commit")))
    before = asked("SHOW synchronous_commit")
    sleepers(1)
    waking.expire_due(clock.now())
    assert (seen, asked("SHOW synchronous_commit")) == (["off"], before)


def test_those_that_were_due_first_wake_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "EXPIRED", 1)
    sleepers(3)
    middle = Run.objects.order_by("pk")[1]
    Run.objects.filter(pk=middle.pk).update(wake_at=clock.now() - 2 * LATE)
    waking.expire_due(clock.now(), seconds=0)
    assert fresh(middle).status == "queued"
    assert Run.objects.filter(status="queued").count() == 1


def test_one_whose_time_is_not_over_sleeps_on() -> None:
    with registered("story", lambda run: run.sleep("nap", timedelta(hours=1))):
        run = builders.run("story")
        work()
        assert waking.expire_due(clock.now()) == 0
        assert fresh(run).status == "waiting"


def test_one_that_was_cancelled_in_its_sleep_stays_cancelled(ann: User) -> None:
    with registered("story", lambda run: run.sleep("nap", timedelta(0))):
        run = builders.run("story")
        work(1)
        redrive.cancel(run, by=ann)
        assert waking.expire_due(clock.now()) == 0
        assert (fresh(run).status, Wait.objects.get().status) == ("cancelled", "cancelled")
