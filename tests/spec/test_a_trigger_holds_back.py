"""A trigger starts no more than its limits allow, and whatever came has its run or a named outcome."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import fresh, registered, work
from triggers import claims, configure, dispatch, redrive, upkeep
from triggers.durable import Durable
from triggers.envelope import Arrival
from triggers.errors import NotValid, TriggerFull
from triggers.execute import reclaim
from triggers.ingest import Outcome, ingest
from triggers.limits import read_limits
from triggers.models import Event, Run, Slot, Source, Tally, Trigger

pytestmark = pytest.mark.django_db
Rings = Callable[..., Outcome]


def trigger(**limits: Any) -> Trigger:
    return builders.trigger("story", slug="orders", source="shop", limits=read_limits(limits))


@pytest.fixture
def ring() -> Rings:
    source = builders.source("shop", provider="generic")

    def one(number: int, customer: str = "anna", key: str = "") -> Outcome:
        return ingest([arrival(source, number, customer, key)])[0]

    return one


def arrival(source: Source, number: int, customer: str = "anna", key: str = "") -> Arrival:
    raw = b'{"number": %d, "customer": "%s"}' % (number, customer.encode())
    return Arrival(
        source_id=source.pk,
        source=source.slug,
        ce_id=f"order-{number}",
        ce_source="/shop",
        type="shop.order",
        datacontenttype="application/json",
        raw=raw,
        keys=[(key or f"order-{number}", "duplicate")],
        window=60,
    )


@pytest.fixture(autouse=True)
def story() -> Iterator[list[int]]:
    """The handler notes which orders it saw."""
    seen: list[int] = []

    def handler(run: Durable) -> None:
        seen.extend(event.data["number"] for event in run.events)

    with registered("story", handler):
        yield seen


def runs(status: str = "") -> list[Run]:
    rows = Run.objects.order_by("pk")
    return list(rows.filter(status=status) if status else rows)


def told(outcome: Outcome) -> tuple[str, str]:
    [said] = Event.objects.get(pk=outcome.seq).outcomes
    return said["outcome"], said.get("detail", "")


def claimed(run: Run) -> bool:
    """Whether a worker may take it; it then stays at work."""
    from_queue = Run.objects.select_related("event", "trigger").get(pk=run.pk)
    return claims.claim(from_queue, owner="test")


# Slots


def test_no_more_runs_work_at_a_time_than_the_limit_says(ring: Rings) -> None:
    trigger(concurrency={"limit": 2})
    for number in range(4):
        ring(number)
    first, second, third, _ = runs()
    assert [claimed(run) for run in runs()] == [True, True, False, False]
    assert dispatch.next_due() is None, "who has no slot is not due"
    finish(first)
    assert dispatch.next_due() == third.pk
    assert fresh(second).status == "running"


def finish(run: Run) -> None:
    fresh(run).move("succeed", finished_at=clock.now(), leased_until=None)


def test_each_key_has_slots_of_its_own(ring: Rings) -> None:
    trigger(concurrency={"limit": 1, "key": "event.data.customer"})
    ring(1, "anna")
    ring(2, "anna")
    ring(3, "bert")
    assert [claimed(run) for run in runs()] == [True, False, True]
    assert set(Slot.objects.values_list("key", flat=True)) == {"anna", "bert"}


def test_what_has_no_key_shares_one_slot(ring: Rings) -> None:
    trigger(concurrency={"limit": 1, "key": "event.data.nobody"})
    ring(1)
    ring(2)
    assert [claimed(run) for run in runs()] == [True, False]


@pytest.mark.parametrize("reason", ["worker_lost", "timed_out"])
def test_a_slot_comes_back_from_a_worker_that_is_gone(ring: Rings, reason: str) -> None:
    """BP-04 (a, b, c): killed in the run, killed before its first step, out of time."""
    trigger(concurrency={"limit": 1})
    ring(1)
    ring(2)
    first, second = runs()
    assert claimed(first)
    assert reclaim(first.pk, fresh(first).fence, reason=reason)
    assert Slot.objects.count() == 0
    assert claimed(second)


def test_a_cancelled_run_frees_its_slot_and_the_next_one_starts(ring: Rings, ann: User, story: list[int]) -> None:
    """BP-04 (d)."""
    trigger(concurrency={"limit": 1})
    ring(1)
    ring(2)
    first, second = runs()
    assert claimed(first)
    redrive.cancel(fresh(first), by=ann)
    assert not claimed(second), "it is still at work"
    reclaim(first.pk, fresh(first).fence, reason="worker_lost")
    assert fresh(first).status == "cancelled"
    work()
    assert fresh(second).status == "succeeded"


def waits(run: Durable) -> None:
    run.sleep("a while", timedelta(days=3))


@pytest.mark.parametrize(("counts", "starts"), [(False, True), (True, False)])
def test_a_waiting_run_gives_its_slot_back_unless_waiting_counts(ring: Rings, counts: bool, starts: bool) -> None:
    """BP-04 (e)."""
    with registered("waits", waits):
        builders.trigger(
            "waits", source="shop", limits=read_limits({"concurrency": {"limit": 1, "waiting_counts": counts}})
        )
        ring(1)
        work()
        ring(2)
        first, second = runs()
        assert fresh(first).status == "waiting"
        assert claimed(second) is starts
        assert Slot.objects.get().run == (second if starts else first)


def test_a_run_that_kept_its_slot_goes_on_with_it(ring: Rings, later: Callable[..., None]) -> None:
    with registered("waits", waits):
        builders.trigger(
            "waits", source="shop", limits=read_limits({"concurrency": {"limit": 1, "waiting_counts": True}})
        )
        ring(1)
        work()
        later(days=4)
        dispatch.tick()
        work()
        assert [run.status for run in runs()] == ["succeeded"]
        assert not Slot.objects.exists()


def test_a_lowered_limit_starts_nothing_before_there_is_room_and_a_raised_one_at_once(ring: Rings) -> None:
    """BP-04 (f)."""
    row = trigger(concurrency={"limit": 3})
    for number in range(5):
        ring(number)
    at_work = [run for run in runs() if claimed(run)]
    assert len(at_work) == 3
    row = configure.change_trigger(row, by=None, version=row.version, limits={"concurrency": {"limit": 1}})
    finish(at_work[0])
    finish(at_work[1])
    assert dispatch.next_due() is None
    configure.change_trigger(row, by=None, version=row.version, limits={"concurrency": {"limit": 2}})
    assert dispatch.next_due() is not None


def test_a_slot_that_was_lost_is_found_by_tick(ring: Rings) -> None:
    trigger(concurrency={"limit": 1})
    ring(1)
    [run] = runs()
    assert claimed(run)
    Run.objects.filter(pk=run.pk).update(status="queued")  # as a hand in the database would
    dispatch.tick()
    assert not Slot.objects.exists()


@pytest.mark.parametrize("counts", [True, False])
def test_a_run_that_goes_waiting_keeps_its_slot_as_the_trigger_says_by_then(ring: Rings, counts: bool) -> None:
    row = trigger(concurrency={"limit": 1, "waiting_counts": not counts})
    ring(1)
    [run] = runs()
    at_work = Run.objects.select_related("event", "trigger").get(pk=run.pk)
    assert claims.claim(at_work, owner="test")
    limits = {"concurrency": {"limit": 1, "waiting_counts": counts}}
    configure.change_trigger(row, by=None, version=row.version, limits=limits)
    at_work.move("wait", leased_until=None)
    assert Slot.objects.exists() is counts


@pytest.mark.parametrize("kept", [True, False], ids=["the limit stays", "no limit any more"])
def test_a_place_kept_while_waiting_is_free_once_no_wait_keeps_one(ring: Rings, kept: bool) -> None:
    with registered("waits", waits):
        row = builders.trigger(
            "waits", source="shop", limits=read_limits({"concurrency": {"limit": 1, "waiting_counts": True}})
        )
        ring(1)
        work()
        dispatch.tick()
        assert Slot.objects.exists()
        limits = {"concurrency": {"limit": 1}} if kept else {}
        configure.change_trigger(row, by=None, version=row.version, limits=limits)
        dispatch.tick()
        assert not Slot.objects.exists()


def test_runs_queued_before_the_limit_was_set_obey_it(ring: Rings) -> None:
    row = trigger()
    ring(1)
    ring(2)
    configure.change_trigger(row, by=None, version=row.version, limits={"concurrency": {"limit": 1}})
    assert [claimed(run) for run in runs()] == [True, False]
    assert dispatch.next_due() is None


# When all slots are taken


def test_skip_starts_nothing_and_says_so(ring: Rings) -> None:
    """CR-15: five ticks, each run takes two and a half of them."""
    trigger(concurrency={"limit": 1, "when_busy": "skip", "waiting_counts": True})
    first = ring(1)
    [run] = runs()
    assert claimed(run)
    second, third = ring(2), ring(3)
    finish(run)
    fourth = ring(4)
    assert claimed(runs()[-1])
    fifth = ring(5)
    assert [told(one)[0] for one in (first, second, third, fourth, fifth)] == [
        "matched", "skipped", "skipped", "matched", "skipped",
    ]  # fmt: skip
    assert told(second)[1] == "an earlier run of this trigger is still at work"
    assert Tally.objects.get(name="skipped").value == 3


def test_queue_one_lets_one_wait(ring: Rings) -> None:
    """CR-15: never more than one buffered."""
    trigger(concurrency={"limit": 1, "when_busy": "queue_one"})
    outcomes = [ring(1)]
    assert claimed(runs()[0])
    outcomes += [ring(number) for number in (2, 3, 4)]
    assert [told(one)[0] for one in outcomes] == ["matched", "matched", "skipped", "skipped"]
    assert told(outcomes[2])[1] == "one run of this trigger is at work and one waits"


def test_cancel_running_ends_the_run_before_and_then_starts_the_new_one(ring: Rings) -> None:
    """CR-15: the previous one is cancelled before the new one starts."""
    trigger(concurrency={"limit": 1, "when_busy": "cancel_running"})
    ring(1)
    [first] = runs()
    assert claimed(first)
    ring(2)
    second = runs()[1]
    assert fresh(first).cancel_requested_at is not None
    assert not claimed(second)
    reclaim(first.pk, fresh(first).fence, reason="worker_lost")
    assert (fresh(first).status, fresh(first).reason) == ("cancelled", "replaced")
    work()
    assert fresh(second).status == "succeeded"


def test_cancel_running_ends_those_that_only_waited_in_the_queue(ring: Rings, story: list[int]) -> None:
    trigger(concurrency={"limit": 1, "when_busy": "cancel_running"})
    for number in (1, 2, 3):
        ring(number)
    dispatch.tick()
    work()
    assert [(run.status, run.reason) for run in runs()] == [
        ("cancelled", "replaced"), ("cancelled", "replaced"), ("succeeded", ""),
    ]  # fmt: skip
    assert story == [3]


def test_cancel_running_takes_no_more_than_must_give_way(ring: Rings) -> None:
    """Three of six were asked to go and have not gone yet: with three others at work there is room in the end."""
    trigger(concurrency={"limit": 6, "when_busy": "cancel_running"})
    for number in range(6):
        ring(number)
    assert all(claimed(run) for run in runs())
    for number in range(6, 9):
        ring(number)
    for run in runs()[3:6]:
        finish(run)
    assert all(claimed(run) for run in runs()[6:])
    ring(9)
    assert [run.cancel_requested_at is not None for run in runs()] == [True] * 3 + [False] * 7


def test_a_handler_sees_at_its_next_step_that_it_was_replaced(ring: Rings) -> None:
    def handler(run: Durable) -> None:
        if run.event.data["number"] == 1:
            ring(2)
        run.step("go on", lambda: 1)

    with registered("replaced", handler):
        builders.trigger(
            "replaced",
            source="shop",
            limits=read_limits({"concurrency": {"limit": 1, "when_busy": "cancel_running"}}),
        )
        ring(1)
        work()
        assert [(run.status, run.reason) for run in runs()] == [("cancelled", "replaced"), ("succeeded", "")]


# Rate


def test_runs_above_the_rate_start_later_and_none_is_lost(
    ring: Rings, story: list[int], later: Callable[..., None]
) -> None:
    trigger(rate_limit={"limit": 2, "period": 60})
    for number in range(5):
        ring(number)
    work()
    assert story == [0, 1]
    later(seconds=61)
    work()
    assert story == [0, 1, 2, 3]
    later(seconds=61)
    work()
    assert story == [0, 1, 2, 3, 4]


def test_the_rate_holds_after_a_pause_too(ring: Rings, story: list[int], later: Callable[..., None]) -> None:
    row = trigger(rate_limit={"limit": 2, "period": 60})
    Trigger.objects.update(mode="paused")
    for number in range(5):
        ring(number)
    later(hours=1)
    Trigger.objects.filter(pk=row.pk).update(mode="live")
    work()
    assert story == [0, 1]
    later(seconds=61)
    work()
    assert story == [0, 1, 2, 3]


def test_a_raised_rate_lets_the_backlog_go_in_order(ring: Rings, story: list[int]) -> None:
    """BP-02: the limit is changed while runs wait."""
    row = trigger(rate_limit={"limit": 1, "period": 3600})
    for number in range(4):
        ring(number)
    work()
    row = configure.change_trigger(
        row, by=None, version=row.version, limits={"rate_limit": {"limit": 3, "period": 3600}}
    )
    work()
    assert story == [0, 1, 2]
    configure.change_trigger(row, by=None, version=row.version, limits={})
    work()
    assert story == [0, 1, 2, 3]


def test_a_run_that_will_never_start_takes_no_turn(ring: Rings, ann: User) -> None:
    trigger(rate_limit={"limit": 1, "period": 60})
    for number in range(10):
        ring(number)
    for run in runs():
        redrive.cancel(run, by=ann)
    ring(10)
    assert runs()[-1].due_at <= clock.now()


def test_those_behind_a_run_that_was_dropped_move_up(ring: Rings) -> None:
    trigger(rate_limit={"limit": 1, "period": 60}, queue={"limit": 3, "when_full": "drop_oldest"})
    for number in range(20):
        ring(number)
    dispatch.tick()
    now = clock.now()
    assert [round((run.due_at - now).total_seconds(), -1) for run in runs("queued")] == [0, 60, 120]


def test_each_key_has_a_rate_of_its_own(ring: Rings, story: list[int]) -> None:
    trigger(rate_limit={"limit": 1, "period": 60, "key": "event.data.customer"})
    ring(1, "anna")
    ring(2, "anna")
    ring(3, "bert")
    work()
    assert story == [1, 3]


# Debounce


def test_events_that_follow_each_other_become_one_run_with_all_of_them(
    ring: Rings, story: list[int], later: Callable[..., None]
) -> None:
    trigger(debounce={"period": 30})
    first = ring(1)
    later(seconds=20)
    second, third = ring(2), ring(3)
    later(seconds=20)
    assert work() == 0, "the last one came less than 30 s ago"
    later(seconds=20)
    work()
    [run] = runs()
    assert story == [1, 2, 3]
    assert run.event_id == third.seq, "the newest one is the run's own"
    assert [told(one)[0] for one in (first, second, third)] == ["matched", "gathered", "gathered"]
    assert Event.objects.get(pk=second.seq).outcomes[0]["run"] == run.pk


def test_max_wait_ends_the_gathering(ring: Rings, story: list[int], later: Callable[..., None]) -> None:
    trigger(debounce={"period": 30, "max_wait": 60})
    for number in range(4):
        ring(number)
        later(seconds=20)
    work()
    assert story == [0, 1, 2, 3]
    ring(4)
    later(seconds=31)
    work()
    assert story == [0, 1, 2, 3, 4], "what came after the start is another run"
    assert len(runs()) == 2


def test_an_event_gathered_while_a_worker_reaches_for_the_run_is_worked_on(
    ring: Rings, story: list[int], later: Callable[..., None]
) -> None:
    trigger(debounce={"period": 30, "max_wait": 60})
    ring(1)
    later(seconds=61)
    [reached_for] = Run.objects.select_related("event", "trigger")
    newest = ring(2)
    assert not claims.claim(reached_for, owner="test"), "it would work on the event of before"
    work()
    assert story == [1, 2]
    assert [run.event_id for run in runs()] == [newest.seq]


def test_each_key_is_gathered_apart(ring: Rings, story: list[int], later: Callable[..., None]) -> None:
    trigger(debounce={"period": 30, "key": "event.data.customer"})
    ring(1, "anna")
    ring(2, "bert")
    ring(3, "anna")
    later(seconds=31)
    work()
    assert sorted(story) == [1, 2, 3]
    assert len(runs()) == 2


def test_a_debounced_run_that_is_run_again_has_all_its_events(
    ring: Rings, story: list[int], later: Callable[..., None], ann: User
) -> None:
    trigger(debounce={"period": 30})
    ring(1)
    ring(2)
    later(seconds=31)
    work()
    redrive.rerun(runs()[0], by=ann, data={"number": 20})
    work()
    assert story == [1, 2, 1, 20]


# The queue


def test_drop_newest_keeps_the_event_and_names_what_became_of_it(ring: Rings) -> None:
    row = trigger(queue={"limit": 2})
    outcomes = [ring(number) for number in range(4)]
    assert [told(one)[0] for one in outcomes] == ["matched", "matched", "dropped", "dropped"]
    assert told(outcomes[2])[1] == "2 runs of this trigger were waiting already"
    assert len(runs()) == 2
    assert drops(row, "drop_newest") == 2


def drops(row: Trigger, strategy: str) -> int:
    return int(Tally.objects.get(name="dropped", labels=f'["{row.slug}", "{strategy}"]').value)


def test_drop_oldest_ends_the_run_that_waited_longest(ring: Rings, story: list[int]) -> None:
    row = trigger(queue={"limit": 2, "when_full": "drop_oldest"})
    for number in range(4):
        ring(number)
    dispatch.tick()
    work()
    assert [(run.status, run.reason) for run in runs()] == [
        ("cancelled", "dropped"), ("cancelled", "dropped"), ("succeeded", ""), ("succeeded", ""),
    ]  # fmt: skip
    assert story == [2, 3]
    assert drops(row, "drop_oldest") == 2


def test_drop_oldest_spares_what_has_started(ring: Rings) -> None:
    trigger(queue={"limit": 1, "when_full": "drop_oldest"})
    ring(1)
    [tried] = runs()
    Run.objects.filter(pk=tried.pk).update(status="retrying", started_at=clock.now())
    assert told(ring(2))[0] == "dropped"
    assert fresh(tried).cancel_requested_at is None


def test_block_stores_nothing_and_the_sender_may_come_again(ring: Rings) -> None:
    trigger(queue={"limit": 1, "when_full": "block"})
    ring(1)
    with pytest.raises(TriggerFull) as full:
        ring(2)
    assert full.value.body()["trigger"] == "orders"
    assert Event.objects.count() == 1
    assert ring(9, key="order-1").status == "duplicate", "a repeat takes no place"
    work()
    assert told(ring(2))[0] == "matched"


def test_a_batch_that_does_not_fit_is_refused_whole(ring: Rings) -> None:
    trigger(queue={"limit": 2, "when_full": "block"})
    source = Source.objects.get(slug="shop")
    with pytest.raises(TriggerFull):
        ingest([arrival(source, number) for number in range(3)])
    assert not Event.objects.exists()
    assert not Run.objects.exists()


def test_a_batch_with_drop_oldest_keeps_its_newest(ring: Rings, story: list[int]) -> None:
    trigger(queue={"limit": 2, "when_full": "drop_oldest"})
    ingest([arrival(Source.objects.get(slug="shop"), number) for number in range(5)])
    dispatch.tick()
    work()
    assert story == [3, 4]


def test_a_full_queue_is_said_once_an_hour(ring: Rings, later: Callable[..., None]) -> None:
    trigger(queue={"limit": 1})
    said = Event.objects.filter(type="nightdesk.queue.full")
    ring(1)
    dispatch.tick()
    assert not said.exists()
    ring(2)
    dispatch.tick()
    ring(3)
    dispatch.tick()
    assert said.get().data == {
        "trigger": "orders", "limit": 1, "when_full": "drop_newest", "link": "/triggers/orders",
    }  # fmt: skip
    later(hours=2)
    ring(4)
    dispatch.tick()
    assert said.count() == 2


def test_a_queue_that_blocks_is_said_too(ring: Rings) -> None:
    trigger(queue={"limit": 1, "when_full": "block"})
    ring(1)
    with pytest.raises(TriggerFull):
        ring(2)
    dispatch.tick()
    assert Event.objects.get(type="nightdesk.queue.full").data["when_full"] == "block"


def test_a_slot_of_a_schedule_waits_for_room(later: Callable[..., None], story: list[int]) -> None:
    with registered("tell", lambda run: story.append(run.event.pk)):
        configure.make_source(by=None, slug="clock", kind="schedule", config={"every": 60})
        row = configure.make_trigger(by=None, slug="tick", source="clock", handler="tell", enabled=True)
        limits = {"queue": {"limit": 1, "when_full": "block"}, "concurrency": None}
        configure.change_trigger(row, by=None, version=row.version, limits={**limits, "concurrency": {"limit": 9}})
        dispatch.tick()
        for _ in range(3):
            later(seconds=60)
            dispatch.tick()
        assert len(runs()) == 1, "the queue takes one"
        for _ in range(3):
            work()
            later(seconds=11)
            dispatch.tick()
        work()
        slots = Source.objects.get(slug="clock").slots.order_by("fire_at")
        assert all(slot.event for slot in slots), "each has rung after all"
        assert len(story) == len(slots) >= 3


# Together


def test_every_event_has_its_run_or_a_named_outcome(ring: Rings, later: Callable[..., None]) -> None:
    trigger(
        concurrency={"limit": 2, "key": "event.data.customer", "when_busy": "queue_one"},
        rate_limit={"limit": 3, "period": 10},
        debounce={"period": 2, "key": "event.data.customer"},
        queue={"limit": 4, "when_full": "drop_oldest"},
    )
    seqs = []
    for number in range(40):
        seqs.append(ring(number, customer=f"c{number % 7}").seq)
        later(seconds=number % 3)
        if number % 5 == 0:
            dispatch.tick()
            work(2)
    for _ in range(30):
        later(seconds=10)
        dispatch.tick()
        work()
    for event in Event.objects.filter(pk__in=seqs):
        [said] = event.outcomes
        assert said["outcome"] in ("matched", "gathered", "skipped", "dropped")
        assert ("run" in said) == (said["outcome"] in ("matched", "gathered"))
    assert {run.status for run in runs()} <= {"succeeded", "cancelled"}
    assert {run.reason for run in runs()} <= {"", "dropped"}
    assert not Slot.objects.exists(), "no slot outlives its run"


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"concurrency": {"limit": 0}}, "limits.concurrency.limit"),
        ({"concurrency": {"key": "event.data.("}}, "limits.concurrency.key"),
        ({"rate_limit": {"limit": 3, "period": 0}}, "limits.rate_limit.period"),
        ({"debounce": {"period": 60, "max_wait": 5}}, "limits.debounce"),
        ({"queue": {"when_full": "explode"}}, "limits.queue.when_full"),
        ({"batch": {}}, "limits.batch"),
    ],
)
def test_limits_that_make_no_sense_are_refused_by_name(limits: dict[str, Any], field: str) -> None:
    with pytest.raises(NotValid) as refused:
        read_limits(limits)
    assert refused.value.facts["field"] == field


@pytest.mark.parametrize("mode", ["live", "paused"])
def test_an_archived_trigger_leaves_no_run_behind(mode: str, ann: User, later: Callable[..., None]) -> None:
    """What has not started is cancelled and says why; what has goes on to its end, though its trigger was paused."""

    def naps(run: Durable) -> str:
        run.sleep("a nap", timedelta(hours=1))
        return "rested"

    with registered("naps", naps):
        trigger = builders.trigger("naps")
        begun = builders.run("naps", trigger=trigger)
        work()
        fresh_one = builders.run("naps", trigger=trigger)
        Trigger.objects.filter(pk=trigger.pk).update(mode=mode)
        upkeep.archive(trigger, by=ann)
        dispatch.tick()
        ended = fresh(fresh_one)
        assert (ended.status, ended.reason, ended.ended_by, ended.started_at) == ("cancelled", "archived", ann, None)
        later(hours=1, seconds=1)
        dispatch.tick()
        work()
        assert fresh(begun).result == "rested"
        again = redrive.rerun(fresh(begun), by=ann)
        work()
        assert fresh(again).status == "waiting", "a person may still run it again"
