"""Limits of a trigger with two real connections on PostgreSQL: never above, and nothing lost."""

from collections.abc import Iterator
from typing import Any

import pytest

from project.lib import clock
from tests import builders
from tests.handlers import registered, work
from tests.races.together import together
from triggers import claims, dispatch
from triggers.durable import Durable
from triggers.envelope import Arrival
from triggers.errors import TriggerFull
from triggers.execute import execute
from triggers.ingest import Outcome, ingest
from triggers.limits import read_limits
from triggers.models import Event, Gathered, Run, Slot, Source, Trigger

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ROUNDS = 15


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
        Run.objects.all().delete() if not Gathered.objects.exists() else None


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


def test_a_slot_is_freed_with_the_last_word_of_its_run_whoever_speaks_it(source: Source) -> None:
    trigger(concurrency={"limit": 1})
    for round in range(ROUNDS):
        outcome = ring(source, round)
        assert outcome
        together(lambda: execute(outcome.runs[0]), dispatch.free_slots, lambda: execute(outcome.runs[0]))
        assert Run.objects.get(pk=outcome.runs[0]).status == "succeeded"
        assert not Slot.objects.exists()
