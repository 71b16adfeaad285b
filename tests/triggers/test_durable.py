"""A handler's memory: what passed through a step is computed once, whatever happens to the worker."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from project.lib import clock
from tests import builders
from tests.conftest import until
from tests.handlers import fresh, registered, work
from triggers import dispatch, journal, registry, waking
from triggers.durable import Durable
from triggers.errors import NotValid, Permanent, Retry, TimedOut
from triggers.execute import execute, reclaim
from triggers.heartbeat import LOOK, SOON, Heart, Heartbeat
from triggers.models import DeadLetter, Event, Run, Step, Switch, Wait

pytestmark = pytest.mark.django_db(transaction=True)


class WorkerDied(BaseException):
    """Stands for kill -9: nothing after it is executed by this worker."""


def killed(run: Run) -> None:
    """What tick does once the dead worker's lease is over."""
    Run.objects.filter(pk=run.pk).update(leased_until=clock.now() - timedelta(seconds=1))
    dispatch.reclaim_lost()


def start(function: Callable[[Durable], Any], **fields: Any) -> Run:
    return builders.run("story", **fields)


def perform(function: Callable[[Durable], Any], **fields: Any) -> Run:
    """Run `function` as the handler of a fresh run, as far as it goes."""
    with registered("story", function):
        run = builders.run("story", **fields)
        work()
    return fresh(run)


def test_a_step_is_computed_once_although_the_worker_dies_after_it() -> None:
    counted: list[str] = []

    def story(run: Durable) -> str:
        run.step("first", lambda: counted.append("first"))
        if len(counted) == 1:
            counted.append("died")
            raise WorkerDied
        run.step("second", lambda: counted.append("second"))
        return "done"

    with registered("story", story):
        run = builders.run("story")
        with pytest.raises(WorkerDied):
            execute(run.pk)
        killed(run)
        lost = fresh(run)
        assert (lost.status, lost.crashes, lost.attempt, lost.reason) == ("queued", 1, 1, "worker_lost")
        work()
    assert counted == ["first", "died", "second"]
    assert fresh(run).status == "succeeded"


def test_now_random_and_uuid_are_the_same_again_after_a_crash() -> None:
    seen: list[tuple[Any, ...]] = []

    def story(run: Durable) -> None:
        began = run.now()
        time.sleep(0.002)  # a moment is kept to the millisecond
        seen.append((began, run.random(), run.uuid(), run.now()))
        if len(seen) == 1:
            raise WorkerDied

    with registered("story", story):
        run = builders.run("story")
        with pytest.raises(WorkerDied):
            execute(run.pk)
        killed(run)
        work()
    assert seen[0] == seen[1]
    assert seen[0][0] < seen[0][3], "the second now() is a later one"
    assert fresh(run).status == "succeeded"


@pytest.mark.parametrize("pause", [0.0, 1.5, SOON + 1.5])
def test_no_clock_runs_on_when_the_last_run_has_ended(pause: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would end a process that has nothing to do, minutes later."""
    monkeypatch.setattr(Heart, "own", None)  # what other tests left to beat for is not asked here
    row = builders.run("story")
    heart = Heart.of_process()
    for _ in range(2):
        with Heartbeat(row, timeout=300, note=lambda memory: None, overdue=lambda run: None):
            assert heart.watchdog_at > 0
        time.sleep(pause * LOOK)
    until(lambda: heart.watchdog_at == 0, seconds=30)


def test_a_zombie_writes_nothing_after_its_lease_was_taken() -> None:
    def story(run: Durable) -> str:
        if run.row.fence == 1:
            reclaim(run.row.pk, run.row.fence, reason="worker_lost")
            run.step("late", lambda: "zombie")
            raise AssertionError("a fenced run goes no further")
        return str(run.step("late", lambda: "owner"))

    run = perform(story)
    assert (run.status, run.result, run.crashes) == ("succeeded", "owner", 1)
    assert Step.objects.get(run=run).result == "owner"


def test_three_lost_workers_are_a_crash_loop_with_its_own_letter() -> None:
    def story(run: Durable) -> None:
        run.step("load", lambda: 1)
        raise WorkerDied

    with registered("story", story):
        run = builders.run("story")
        for _ in range(3):
            with pytest.raises(WorkerDied):
                execute(run.pk)
            killed(run)
    run = fresh(run)
    assert (run.status, run.reason, run.attempt) == ("dead", "crash_loop", 1)
    letter = DeadLetter.objects.get(run=run)
    assert (letter.error_type, letter.step) == ("CrashLoop", "load")


def test_failures_are_retried_with_back_off_and_then_buried_with_the_traceback(later: Callable[..., None]) -> None:
    tries: list[int] = []

    def story(run: Durable) -> None:
        tries.append(run.row.attempt)
        run.step("ask the far side", broken)

    with registered("story", story):
        run = builders.run("story")
        work(limit=1)  # the pause may be over at once
        first = fresh(run)
        assert (first.status, first.attempt, first.error["type"]) == ("retrying", 2, "ValueError")
        assert first.due_at <= clock.now() + timedelta(seconds=1)
        for _ in range(4):
            later(seconds=30)
            work()
    run = fresh(run)
    assert (run.status, tries) == ("dead", [1, 2, 3, 4])
    assert "in broken" in run.error["traceback"]
    letter = DeadLetter.objects.get()
    assert (letter.step, letter.place, letter.attempts) == ("ask the far side", "test_durable.py in broken", 4)


def broken() -> None:
    raise ValueError("no answer")


def test_a_permanent_error_is_never_tried_again() -> None:
    def story(run: Durable) -> None:
        raise Permanent("the issue is gone")

    run = perform(story)
    assert (run.status, run.attempt, run.error["message"]) == ("dead", 1, "the issue is gone")


def test_a_handler_may_say_when_to_try_again() -> None:
    def story(run: Durable) -> None:
        raise Retry("rate limit", after=timedelta(hours=2))

    run = perform(story)
    assert run.status == "retrying"
    assert timedelta(minutes=119) < run.due_at - clock.now() < timedelta(minutes=121)


@pytest.mark.parametrize(
    ("result", "path"),
    [({"a": [1, {"when": object()}]}, "$.a[1].when: object"), ({"x": float("nan")}, "$.x: nan"), ({1, 2}, "$: set")],
)
def test_a_result_that_is_no_json_fails_with_the_place_of_the_culprit(result: Any, path: str) -> None:
    run = perform(lambda run: run.step("odd", lambda: result))
    assert run.status == "dead"
    assert path in run.error["message"]


def test_a_result_over_eight_mebibytes_is_refused() -> None:
    run = perform(lambda run: run.step("big", lambda: "x" * (8 * 1024 * 1024)))
    assert (run.status, run.error["type"]) == ("dead", "ResultTooLarge")


def test_what_a_step_returns_first_is_what_it_returns_on_replay() -> None:
    run = perform(lambda run: run.step("pair", lambda: (1, {"a": (2, 3)})))
    assert run.result == [1, {"a": [2, 3]}]


def test_an_async_step_and_a_step_with_more_tries() -> None:
    tries: list[int] = []

    async def read() -> str:
        await asyncio.sleep(0)
        return "read"

    def flaky() -> str:
        tries.append(1)
        if len(tries) < 2:
            raise ConnectionError("no")
        return "answered"

    run = perform(lambda run: [run.step("async", read), run.step("flaky", flaky, retries=2)])
    assert run.result == ["read", "answered"]
    assert Step.objects.get(name="flaky").attempt == 2


def test_a_name_may_repeat_and_is_numbered() -> None:
    run = perform(lambda run: [run.step("look", lambda n: n, number) for number in (5, 6, 7)])
    assert run.result == [5, 6, 7]
    assert list(run.steps.order_by("seq").values_list("name", flat=True)) == ["look", "look#2", "look#3"]


def test_other_arguments_on_replay_block_the_run_and_burn_no_attempt() -> None:
    amounts = iter([100, 200])

    def story(run: Durable) -> None:
        run.step("charge", lambda amount: amount, next(amounts))
        if run.row.fence == 1:
            raise WorkerDied

    with registered("story", story):
        run = builders.run("story")
        with pytest.raises(WorkerDied):
            execute(run.pk)
        killed(run)
        work()
    run = fresh(run)
    assert (run.status, run.attempt) == ("blocked", 1)
    assert "“charge”" in run.error["message"]


def test_a_year_of_sleep_costs_one_row_and_no_worker(later: Callable[..., None]) -> None:
    def story(run: Durable) -> str:
        run.sleep("until next year", timedelta(days=365))
        return "awake"

    with registered("story", story):
        run = builders.run("story")
        work()
        asleep = fresh(run)
        assert (asleep.status, asleep.leased_until, asleep.attempt) == ("waiting", None, 1)
        dispatch.tick()
        assert work() == 0
        later(days=365, seconds=1)
        dispatch.tick()
        work()
    assert fresh(run).result == "awake"


def waits(run: Durable, timeout: timedelta | None = None) -> Any:
    return run.wait_for("payment", type="shop.paid", source="github", subject="order-7", timeout=timeout).data


def test_an_event_wakes_the_run_that_waits_for_it() -> None:
    with registered("story", waits):
        run = builders.run("story")
        work()
        assert fresh(run).status == "waiting"
        for wrong in ({"type": "shop.refunded"}, {"subject": "order-8"}, {"source_slug": "elsewhere"}):
            answer = builders.event(**{"type": "shop.paid", "subject": "order-7", **wrong})
            assert waking.wake_waits([answer.pk]) == 0
        paid = builders.event("shop.paid", subject="order-7", data={"amount": 3})
        assert waking.wake_waits([paid.pk]) == 1
        assert waking.wake_waits([paid.pk]) == 0
        work()
    assert fresh(run).result == {"amount": 3}


def test_an_event_that_came_before_the_wait_was_registered_is_not_lost() -> None:
    with registered("story", waits):
        run = builders.run("story")
        builders.event("shop.paid", subject="order-7", data={"amount": 4})
        work()
    assert fresh(run).result == {"amount": 4}


def test_an_event_with_a_lower_number_committed_late_still_wakes_the_run() -> None:
    early = builders.event("shop.paid", subject="order-7", data={"amount": 5})
    with registered("story", waits):
        run = builders.run("story")
        assert early.pk < run.event_id
        work()
    assert fresh(run).result == {"amount": 5}


def test_the_runs_own_event_and_a_spent_one_end_no_wait() -> None:
    def story(run: Durable) -> list[Any]:
        return [run.wait_for("a", type="t", source="*").data, run.wait_for("b", type="t", source="*").data]

    with registered("story", story):
        run = builders.run("story", event=builders.event("t", data="own"))
        builders.event("t", data="first")
        work()
        assert fresh(run).status == "waiting", "the first event ended wait a and cannot end wait b"
        second = builders.event("t", data="second")
        waking.wake_waits([second.pk])
        work()
    assert fresh(run).result == ["first", "second"]


def test_a_wake_up_lost_by_a_crash_is_repeated_by_tick() -> None:
    with registered("story", waits):
        run = builders.run("story")
        work()
        builders.event("shop.paid", subject="order-7", data={"amount": 6})
        dispatch.tick()
        work()
    assert fresh(run).result == {"amount": 6}


def test_a_timeout_is_remembered_although_the_event_comes_before_the_replay(later: Callable[..., None]) -> None:
    def story(run: Durable) -> str:
        try:
            waits(run, timedelta(hours=1))
        except TimedOut:
            run.step("note", lambda: 1)
            if run.row.crashes == 0:
                raise WorkerDied from None
            return "too late"
        return "paid"

    with registered("story", story):
        run = builders.run("story")
        work()
        later(hours=1, seconds=1)
        dispatch.tick()
        with pytest.raises(WorkerDied):
            execute(run.pk)
        late = builders.event("shop.paid", subject="order-7")
        waking.wake_waits([late.pk])
        killed(run)
        work()
    assert fresh(run).result == "too late"
    assert Wait.objects.get(run=run).status == "expired"


def test_a_run_gives_itself_back_at_its_next_step_when_the_desk_is_paused() -> None:
    def story(run: Durable) -> str:
        run.step("one", lambda: 1)
        if run.row.fence == 1:
            Switch.objects.create(scope="all", paused=True, at=clock.now())
            time.sleep(2 * journal.FRESH)  # else it may begin what is asked for in the same moment
        run.step("two", lambda: 2)
        return "done"

    with registered("story", story):
        run = builders.run("story")
        work()
        held = fresh(run)
        assert (held.status, held.attempt, held.crashes) == ("queued", 1, 0)
        assert work() == 0
        Switch.objects.update(paused=False)
        work()
    assert fresh(run).status == "succeeded"


def test_a_worker_that_stops_gives_its_run_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triggers.execute.terminate_handler_fired", lambda: True)  # what SIGTERM does to a worker

    def story(run: Durable) -> str:
        run.step("one", lambda: 1)
        if run.row.fence == 1:
            raise SystemExit(0)
        return "done"

    with registered("story", story):
        run = builders.run("story")
        with pytest.raises(SystemExit):
            execute(run.pk)
        held = fresh(run)
        assert (held.status, held.attempt, held.crashes, held.fence) == ("queued", 1, 0, 2)
        work()
    assert fresh(run).status == "succeeded"


@pytest.mark.parametrize("leaving", [SystemExit("a key is missing"), KeyboardInterrupt("a key is missing")], ids=repr)
def test_a_handler_that_leaves_by_itself_fails_like_any_other_and_does_not_come_again_for_ever(
    leaving: BaseException,
) -> None:
    def story(run: Durable) -> None:
        raise leaving

    with registered("story", story):
        run = builders.run("story", attempt=4)  # its last
        work()
    held = fresh(run)
    assert (held.status, held.error["message"]) == ("dead", "a key is missing")
    assert held.error["type"] == type(leaving).__name__


def test_a_file_that_leaves_while_it_is_imported_is_shown_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)")
    registry.load_file(tmp_path / "leaves.py")
    assert registry.BROKEN.pop("leaves.py").error == "SystemExit: 3"


@pytest.mark.parametrize("text", ["half \ud800", "nul \x00", "x" * 200_000])
def test_a_failure_is_recorded_whatever_its_words_and_its_step_are(text: str) -> None:
    def story(run: Durable) -> None:
        def broken() -> None:
            raise ValueError(text)

        run.step(text[:20], broken)

    with registered("story", story):
        run = builders.run("story", attempt=4)  # its last
        work()
    assert fresh(run).status == "dead"
    assert DeadLetter.objects.get(run=run).message


def test_an_emitted_event_is_stored_once_and_counts_its_hops() -> None:
    def story(run: Durable) -> int:
        number = run.emit(type="shop.checked", data={"ok": True}, subject="order-7")
        if run.row.fence == 1:
            raise WorkerDied
        return number

    with registered("story", story):
        run = builders.run("story", event=builders.event("t", hops=3))
        with pytest.raises(WorkerDied):
            execute(run.pk)
        killed(run)
        work()
    emitted = Event.objects.get(type="shop.checked")
    assert (fresh(run).result, emitted.hops, emitted.source_slug) == (emitted.pk, 4, "/nightdesk")


def test_a_handler_may_not_speak_in_the_desks_own_name() -> None:
    def story(run: Durable) -> None:
        with pytest.raises(NotValid):
            run.emit(type="approvals.action.settled")
        run.log("tried", who="story")

    run = perform(story)
    assert run.status == "succeeded"
    assert Step.objects.get(kind="log").result == {"message": "tried", "facts": {"who": "story"}}


NAMES_OF_NOTHING = [{"type": ""}, {"type": "\x00"}, {"type": "€" * 86}, {"subject": "\x00"}, {"subject": "s" * 513}]


@pytest.mark.parametrize("name", NAMES_OF_NOTHING, ids=ascii)
def test_what_no_event_can_be_called_is_neither_emitted_nor_waited_for(name: dict[str, str]) -> None:
    """€ takes three bytes: with the longest subject such a type would fit no entry of PostgreSQL's indexes."""

    def story(run: Durable) -> None:
        with pytest.raises(NotValid):
            run.emit(**{"type": "a.b"} | name)
        run.wait_for("an answer", **{"type": "a.b", "source": "*"} | name)

    assert perform(story).error["type"] == "NotValid"
    assert not Event.objects.filter(type="a.b").exists()


@pytest.mark.parametrize("source", ["\x00", "s" * 65], ids=ascii)
def test_what_no_source_can_be_called_is_not_waited_for(source: str) -> None:
    run = perform(lambda run: run.wait_for("an answer", type="a.b", source=source))
    assert run.error["type"] == "NotValid"


def test_what_json_cannot_say_is_not_emitted() -> None:
    run = perform(lambda run: run.emit(type="a.b", data={"x": [1.5, float("nan")]}))
    assert (run.error["type"], "$.x[1]" in run.error["message"]) == ("NotJson", True)
    assert not Event.objects.filter(type="a.b").exists()


def test_a_handler_that_is_gone_leaves_its_run_queued_and_says_so() -> None:
    run = builders.run("renamed-away")
    assert execute(run.pk) is False
    assert (fresh(run).status, fresh(run).reason) == ("queued", "handler_missing")


def note(memory: int | None) -> None:
    """Nothing is at work that could be written down."""


def test_a_hung_handler_is_counted_and_its_process_ended() -> None:
    run = builders.run("story", status="running", fence=4, leased_until=clock.now())
    ended = threading.Event()
    left = Heartbeat(run, timeout=0.05, note=note, overdue=lambda row: reclaim(row.pk, row.fence, reason="timed_out"))
    left.exit = ended.set
    with left:
        assert ended.wait(10)
    run = fresh(run)
    assert (run.status, run.crashes, run.reason, run.fence) == ("queued", 1, "timed_out", 5)


def test_a_lease_found_over_by_its_own_worker_is_renewed_not_lost() -> None:
    run = builders.run("story", status="running", fence=4, leased_until=clock.now() - timedelta(hours=1))
    assert Heartbeat(run, timeout=9, note=note, overdue=lambda row: None).renew() is True
    assert fresh(run).leased_until > clock.now()
    Run.objects.filter(pk=run.pk).update(fence=5)
    assert Heartbeat(run, timeout=9, note=note, overdue=lambda row: None).renew() is False


def too_slow(run: Durable) -> None:
    run.step("slow", time.sleep, 30, timeout=0.01)


def badly_named(run: Durable) -> None:
    run.step("x" * 201, broken)


def not_json(run: Durable) -> None:
    run.step("odd", lambda: {1, 2})


def unreadable(run: Durable) -> None:
    json.loads("{")


@pytest.mark.parametrize("story", [too_slow, badly_named, not_json, unreadable])
def test_the_place_of_a_failure_is_one_of_the_handlers_own_code(story: Any) -> None:
    with registered("story", story):
        builders.run("story", attempt=99)
        work()
    assert DeadLetter.objects.get().place == f"test_durable.py in {story.__name__}"
