"""Limits of a trigger with two real connections on PostgreSQL: never above, and nothing lost."""

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from project.lib import clock
from tests import builders
from tests.handlers import registered, work
from tests.races.together import rounds, together
from triggers import breakers, claims, dispatch, endings
from triggers.durable import Durable
from triggers.envelope import Arrival
from triggers.errors import TriggerFull
from triggers.execute import execute
from triggers.ingest import Outcome, ingest
from triggers.limits import read_limits
from triggers.models import Breaker, Event, Run, Slot, Source, Trigger

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ROUNDS = rounds(15)
GIVE_WAY = {  # each makes the door ask for a run that a worker may be taking up just now
    "cancel_running": {"concurrency": {"limit": 1, "when_busy": "cancel_running"}},
    "drop_oldest": {"concurrency": {"limit": 5}, "queue": {"limit": 1, "when_full": "drop_oldest"}},
    "debounce": {"concurrency": {"limit": 5}, "debounce": {"period": 1}},
}


@pytest.fixture
def source() -> Source:
    return builders.source("shop", provider="generic")


@pytest.fixture(autouse=True)
def _story() -> Iterator[None]:
    with registered("story", lambda run: None):
        yield


def trigger(**limits: Any) -> Trigger:
    return builders.trigger("story", slug="orders", source="shop", limits=read_limits(limits))


def ring(source: Source, number: int) -> Outcome | None:
    """None: the sender is to come again."""
    arrival = Arrival(
        source_id=source.pk,
        source=source.slug,
        ce_id=f"order-{number}",
        ce_source="/shop",
        type="shop.order",
        datacontenttype="application/json",
        raw=b"{}",
        keys=[(f"order-{number}", "duplicate")],
        window=60,
    )
    try:
        return ingest([arrival])[0]
    except TriggerFull:
        return None


def rung_by_two(source: Source, first: int) -> list[Outcome | None]:
    return together(lambda: ring(source, first), lambda: ring(source, first + 1))


def test_two_workers_never_take_more_slots_than_there_are(source: Source) -> None:
    trigger(concurrency={"limit": 2})
    for round in range(ROUNDS):
        runs = [ring(source, 10 * round + number) for number in range(4)]
        ids = [outcome.runs[0] for outcome in runs if outcome]
        together(*[lambda pk=pk: claims.claim(whole(pk), owner="test") for pk in ids])
        assert Run.objects.filter(status="running").count() == Slot.objects.count() <= 2
        for run in Run.objects.exclude(status="succeeded"):
            if run.status == "queued":
                claims.claim(whole(run.pk), owner="test")
        assert Slot.objects.count() == 2, "whoever lost takes what is free"
        for run in Run.objects.filter(status="running"):
            run.move("succeed", finished_at=clock.now(), leased_until=None)
        Run.objects.filter(status="queued").update(status="cancelled", finished_at=clock.now())


def whole(pk: int) -> Run:
    return Run.objects.select_related("trigger", "event").get(pk=pk)


def test_two_workers_keep_to_the_rate(source: Source) -> None:
    trigger(rate_limit={"limit": 1, "period": 3600})
    for round in range(ROUNDS):
        outcomes = rung_by_two(source, 10 * round)
        ids = [outcome.runs[0] for outcome in outcomes if outcome]
        Run.objects.filter(pk__in=ids).update(due_at=clock.now())  # as after a pause
        together(*[lambda pk=pk: claims.claim(whole(pk), owner="test") for pk in ids])
        assert Run.objects.filter(status="running").count() == 1
        Run.objects.all().delete()


def test_events_gathered_by_two_doors_are_one_run_with_all_of_them(source: Source) -> None:
    trigger(debounce={"period": 30})
    for round in range(ROUNDS):
        first, second = rung_by_two(source, 10 * round)
        run = Run.objects.get(status="queued")
        assert first
        assert second
        assert set(run.gathered.values_list("event", flat=True)) == {first.seq, second.seq}
        assert run.event_id == max(first.seq, second.seq)
        Run.objects.filter(pk=run.pk).update(status="cancelled", finished_at=clock.now())


def test_an_event_that_comes_while_its_run_is_taken_up_is_in_that_run_or_in_the_next(source: Source) -> None:
    seen: list[int] = []

    def story(run: Durable) -> None:
        seen.extend(event.pk for event in run.events)

    with registered("gathers", story):
        builders.trigger("gathers", source="shop", limits=read_limits({"debounce": {"period": 30}}))
        came = []
        for round in range(ROUNDS):
            first = ring(source, 10 * round)
            assert first
            Run.objects.filter(status="queued").update(due_at=clock.now())
            late, _ = together(lambda: ring(source, 10 * round + 1), lambda: execute(first.runs[0]))
            came += [first.seq, late.seq]
            Run.objects.filter(status="queued").update(due_at=clock.now())
            work()
    assert sorted(seen) == sorted(came), "each event is seen once"


@pytest.mark.parametrize("when_full", ["drop_newest", "drop_oldest", "block"])
def test_two_doors_never_fill_a_queue_over_its_limit(source: Source, when_full: str) -> None:
    trigger(queue={"limit": 3, "when_full": when_full})
    for round in range(ROUNDS):
        outcomes = [ring(source, 10 * round), ring(source, 10 * round + 1), *rung_by_two(source, 10 * round + 2)]
        waiting = Run.objects.filter(status="queued", cancel_requested_at=None)
        assert waiting.count() == 3
        stored = Event.objects.filter(pk__in=[outcome.seq for outcome in outcomes if outcome])
        assert len(stored) == (3 if when_full == "block" else 4)
        assert all("run" in event.outcomes[0] or event.outcomes[0]["outcome"] == "dropped" for event in stored)
        Run.objects.exclude(status="cancelled").update(status="cancelled", finished_at=clock.now())


def test_replacing_a_run_and_what_that_run_emits_never_wait_for_each_other(source: Source) -> None:
    """cancel_running holds the trigger and asks for the run; emit holds the run, and its event is matched after."""
    with registered("emits", lambda run: run.emit(type="shop.order.seen")):
        limits = read_limits({"concurrency": {"limit": 1, "when_busy": "cancel_running"}})
        builders.trigger("emits", source="*", type_pattern="shop.order.**", limits=limits)
        for round in range(ROUNDS):
            outcome = ring(source, 10 * round)
            assert outcome
            together(lambda: execute(outcome.runs[0]), lambda: ring(source, 10 * round + 1))
            Run.objects.exclude(status__in=["succeeded", "cancelled"]).update(cancel_requested_at=clock.now())
            dispatch.tick()
            assert not Slot.objects.exists()


def until_somebody_waits() -> None:
    """For a lock of another transaction."""
    with connection.cursor() as cursor:
        for _ in range(2000):
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE pid IN (SELECT pid FROM pg_locks WHERE NOT granted)"
            )
            if cursor.fetchone()[0]:
                return
            time.sleep(0.005)
    raise AssertionError("nobody came")


@pytest.mark.parametrize("limits", GIVE_WAY.values(), ids=GIVE_WAY)
def test_a_door_that_waits_for_a_run_lets_its_worker_commit(source: Source, limits: dict[str, Any]) -> None:
    """The door holds the trigger and asks for the run; the worker holds the run, and its slot refers to the trigger."""
    trigger(**limits)
    first = ring(source, 1)
    assert first
    Run.objects.update(due_at=clock.now())
    run, taken = whole(first.runs[0]), threading.Event()

    def worker() -> bool:
        with transaction.atomic():
            done = claims.claim(run, owner="test")
            taken.set()
            until_somebody_waits()
        return done

    def door() -> Outcome | None:
        taken.wait(20)
        return ring(source, 2)

    done, second = together(worker, door)
    assert done is True
    assert isinstance(second, Outcome), second


def test_a_claim_that_the_database_refuses_for_a_deadlock_is_made_again(source: Source) -> None:
    trigger(rate_limit={"limit": 1, "period": 60})
    outcome = ring(source, 1)
    assert outcome
    run, held = whole(outcome.runs[0]), threading.Event()

    def other() -> None:
        """Takes the locks in the wrong order, and is patient: it is the claim that gives way."""
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = '30s'")
            Run.objects.filter(pk=run.pk).update(reason="")
            held.set()
            until_somebody_waits()
            Trigger.objects.filter(pk=run.trigger_id).update(name="Orders")

    def worker() -> bool:
        held.wait(20)
        return claims.claim(run, owner="test")

    assert together(other, worker) == [None, True]


@pytest.mark.parametrize("limits", GIVE_WAY.values(), ids=GIVE_WAY)
def test_two_workers_and_a_door_never_stop_each_other(
    source: Source, limits: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    trigger(**limits)
    closed = threading.Event()

    def door() -> list[Outcome | None]:
        try:
            return [ring(source, number) for number in range(4 * ROUNDS)]
        finally:
            closed.set()

    def worker() -> None:
        while not closed.is_set():
            fresh = Run.objects.filter(status="queued", cancel_requested_at=None).order_by("-pk").first()
            if (
                fresh
                and Run.objects.filter(pk=fresh.pk).update(due_at=clock.now())
                and claims.claim(run := whole(fresh.pk), owner="test")
            ):
                with transaction.atomic():
                    endings.end(run, "succeed", clock.now())

    with caplog.at_level(logging.WARNING, logger="nightdesk.database"):
        told, *ends = together(door, worker, worker)
    assert isinstance(told, list), told
    assert ends == [None, None]
    assert not [record for record in caplog.records if record.name == "nightdesk.database"], "done again"


def test_a_slot_is_freed_with_the_last_word_of_its_run_whoever_speaks_it(source: Source) -> None:
    trigger(concurrency={"limit": 1})
    for round in range(ROUNDS):
        outcome = ring(source, round)
        assert outcome
        together(lambda: execute(outcome.runs[0]), dispatch.free_slots, lambda: execute(outcome.runs[0]))
        assert Run.objects.get(pk=outcome.runs[0]).status == "succeeded"
        assert not Slot.objects.exists()


def test_a_breaker_that_goes_away_while_a_failure_is_counted_counts_it_anew() -> None:
    """One run succeeded and wipes the row just when another gives up."""
    good, bad = builders.run("story"), builders.run("story")
    Breaker.objects.create(handler="story", failures=4)
    wiped = threading.Event()

    def success() -> None:
        with transaction.atomic():
            breakers.succeeded(good)
            wiped.set()
            until_somebody_waits()

    def failure() -> None:
        wiped.wait(20)
        with transaction.atomic():
            breakers.gave_up(bad, clock.now())

    assert together(success, failure) == [None, None]
    assert Breaker.objects.get().failures == 1
