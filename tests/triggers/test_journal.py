"""What a run remembers, within which bounds, and what it does with what cannot be remembered."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from project.lib import clock
from tests import builders
from tests.handlers import fresh, registered, work
from triggers import blobs, dispatch, history, redrive, results, stopping
from triggers.durable import Durable
from triggers.errors import HistoryTooLong, LeftBehind, NotJson, Permanent, ResultTooLarge, Retry, StepFailed, TimedOut
from triggers.execute import execute, reclaim
from triggers.failures import raised_again
from triggers.journal import Journal
from triggers.models import Blob, DeadLetter, Run, Step, Switch

pytestmark = pytest.mark.django_db(transaction=True)
KIB, MIB = 1024, 1024 * 1024


class WorkerDied(BaseException):
    """Stands for kill -9: nothing after it is executed by this worker."""


def perform(function: Callable[[Durable], Any], **fields: Any) -> Run:
    """Run `function` as the handler of a fresh run, as far as it goes."""
    with registered("story", function):
        run = builders.run("story", **fields)
        work()
    return fresh(run)


def crash_and_go_on(function: Callable[[Durable], Any]) -> Run:
    """The same; when it raises WorkerDied its worker is lost, and another one goes on."""
    with registered("story", function):
        run = builders.run("story")
        with pytest.raises(WorkerDied):
            execute(run.pk)
        reclaim(run.pk, 1, reason="worker_lost")
        work()
    return fresh(run)


# Sizes


@pytest.mark.parametrize(("letter", "count"), [("x", 64 * KIB - 2), ("é", 32 * KIB - 1)], ids=["ascii", "utf-8"])
def test_up_to_64_kib_stay_in_the_row_and_one_byte_more_becomes_a_blob(letter: str, count: int) -> None:
    def story(run: Durable) -> bool:
        small, large = run.step("small", lambda: letter * count), run.step("large", lambda: letter * count + "x")
        return (small, large) == (letter * count, letter * count + "x")

    run = perform(story)
    small, large = run.steps.order_by("seq")
    assert (small.size, small.blob, small.result) == (64 * KIB, None, letter * count)
    assert (large.size, large.result_json, large.blob.size) == (64 * KIB + 1, None, 64 * KIB + 1)
    assert run.result is True


def test_a_large_result_is_replayed_from_its_blob_and_stored_once() -> None:
    text = "x" * (100 * KIB)

    def story(run: Durable) -> bool:
        same = run.step("one", lambda: text) == run.step("two", lambda: text) == text
        if run.row.fence == 1:
            raise WorkerDied
        return same

    assert crash_and_go_on(story).result is True
    assert Blob.objects.get().size == 100 * KIB + 2


@pytest.mark.parametrize(
    ("make", "fits"),
    [
        (lambda: "x" * (8 * MIB - 2), True),
        (lambda: "x" * (8 * MIB - 1), False),
        (lambda: "é" * (4 * MIB - 1), True),
        (lambda: "é" * (4 * MIB), False),
    ],
    ids=["8 MiB", "one more", "8 MiB of UTF-8", "two more"],
)
def test_the_wall_stands_at_eight_mebibytes_of_utf_8(make: Callable[[], str], fits: bool) -> None:
    run = perform(lambda run: run.step("big", make) and None)
    assert (run.status, (run.error or {}).get("type")) == (("succeeded", None) if fits else ("dead", "ResultTooLarge"))


def test_a_run_remembers_at_most_32_mebibytes_together() -> None:
    def story(run: Durable) -> None:
        for number in range(5):
            run.step(f"part {number}", lambda number=number: f"{number}" + "x" * (8 * MIB - 3))

    run = perform(story)
    assert (run.status, run.error["type"]) == ("dead", "RunTooLarge")
    assert run.steps.filter(status="done").count() == 4
    assert run.steps.get(name="part 4").status == "failed", "its function ran"


def test_blobs_that_no_step_points_to_are_removed_after_a_day(later: Callable[..., None]) -> None:
    kept = perform(lambda run: len(run.step("one", lambda: "x" * (100 * KIB))))
    blobs.keep('"nobody\'s"', 10, clock.now())
    assert blobs.remove_unused(clock.now()) == 0
    later(days=2)
    assert blobs.remove_unused(clock.now()) == 1
    assert Step.objects.get(run=kept).result == "x" * (100 * KIB)


def test_a_run_ends_at_the_ten_thousandth_step_and_its_page_warns_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history, "MOST_STEPS", 5)

    def story(run: Durable) -> None:
        for number in range(6):
            run.step("look", lambda number=number: number)

    run = perform(story)
    assert (run.status, run.error["type"], run.steps.count()) == ("dead", HistoryTooLong.__name__, 5)
    assert "by an event" in run.error["message"]


# What JSON cannot say


@pytest.mark.parametrize(
    ("result", "path"),
    [
        ({"a": [1, {"when": object()}]}, "$.a[1].when: object"),
        ({"a": {1: "x"}}, "$.a: the key 1 is a int, no text"),
        ({"a": [{None: 1}]}, "$.a[0]: the key None is a NoneType, no text"),
        ([float("inf")], "$[0]: inf"),
        ({1, 2}, "$: set"),
        (b"bytes", "$: bytes"),
    ],
)
def test_a_result_that_would_come_back_as_another_is_refused_with_its_place(result: Any, path: str) -> None:
    run = perform(lambda run: run.step("odd", lambda: result))
    assert (run.status, run.attempt) == ("dead", 1)
    step = Step.objects.get(run=run)
    assert (step.status, step.error["type"]) == ("failed", "NotJson")
    assert path in step.error["message"]
    assert step.error["returned"].startswith(("{", "[", "b'")), "what came back is kept in words"


def test_a_refused_result_counts_as_done_once_its_function_ran() -> None:
    ran: list[int] = []

    def story(run: Durable) -> str:
        try:
            run.step("charge", lambda: ran.append(1) or object())
        except NotJson as error:
            run.step("note", lambda: "noted")
            if run.row.fence == 1:
                raise WorkerDied from None
            return str(error)
        raise AssertionError("an object is no JSON")

    run = crash_and_go_on(story)
    assert (run.status, ran) == ("succeeded", [1])
    assert "$: object" in run.result


def test_not_even_the_next_try_of_the_run_calls_it_again(later: Callable[..., None]) -> None:
    ran: list[int] = []

    def story(run: Durable) -> str:
        try:
            run.step("charge", lambda: ran.append(1) or object())
        except NotJson:
            if run.row.attempt == 1:
                raise ConnectionError("away") from None
        return "gone on"

    with registered("story", story):
        run = builders.run("story")
        work()
        later(minutes=1)
        work()
    assert (fresh(run).result, ran) == ("gone on", [1])


def test_letters_of_every_kind_come_back_as_they_went_in() -> None:
    texts = ["ünï", "漢字", "half \ud800", "nul \x00", "line \u2028", "😀"]
    run = perform(lambda run: run.step("texts", lambda: texts) == texts)
    assert run.result is True


def test_a_log_line_takes_whatever_it_is_given() -> None:
    run = perform(lambda run: run.log("looked", at=clock.now().date(), names={"a"}, n=1))
    facts = Step.objects.get(run=run).result["facts"]
    assert (facts["n"], facts["names"]) == (1, "{'a'}")


# Failures


class Declined(Exception):
    """The card was declined."""

    def __init__(self, code: int, *, hint: str) -> None:
        super().__init__(code)
        self.code, self.hint = code, hint


def declined() -> None:
    raise Declined(51, hint="no funds")


def test_a_failure_that_was_caught_is_raised_again_on_replay_and_leads_the_same_way() -> None:
    ran: list[str] = []

    def story(run: Durable) -> list[Any]:
        try:
            run.step("charge", lambda: ran.append("charge") or declined())
        except Declined as error:
            known = [error.code, error.hint, *error.args]
            told = run.step("tell", lambda: ran.append("tell") or known)
            if run.row.fence == 1:
                raise WorkerDied from None
            return [*told, type(error).__name__, error.code]
        raise AssertionError("it was declined")

    run = crash_and_go_on(story)
    assert run.result == [51, "no funds", 51, "Declined", 51]
    assert ran == ["charge", "tell"]
    step = run.steps.get(name="charge")
    assert (step.status, step.error["type"]) == ("failed", "Declined")
    assert "in declined" in step.error["traceback"]


def test_the_next_try_of_the_run_computes_a_failed_step_again(later: Callable[..., None]) -> None:
    ran: list[str] = []

    def charge() -> str:
        ran.append("charge")
        if len(ran) < 2:
            raise ConnectionError("away")
        return "charged"

    def story(run: Durable) -> str:
        try:
            charged = run.step("charge", charge)
        except ConnectionError:
            run.step("tell", lambda: "told")
            raise
        run.sleep("nap", timedelta(minutes=1))
        return str(charged)

    with registered("story", story):
        run = builders.run("story")
        work()
        assert fresh(run).status == "retrying"
        for _ in range(2):
            later(minutes=2)
            dispatch.tick()
            work()
    assert (fresh(run).status, fresh(run).result) == ("succeeded", "charged")
    step = Step.objects.get(run=run, name="charge")
    assert (step.status, step.attempt, step.error) == ("done", 2, None)


def test_tries_of_a_step_and_of_the_run_multiply_and_are_counted(later: Callable[..., None]) -> None:
    """Case WK-09."""
    ran: list[int] = []

    def failing() -> None:
        ran.append(1)
        raise ConnectionError("away")

    trigger = builders.trigger("story", limits={"retries": {"max": 1}})
    with registered("story", lambda run: run.step("ask", failing, retries=2)):
        run = builders.run("story", trigger=trigger)
        work()
        later(hours=2)
        work()
    assert (fresh(run).status, fresh(run).attempt, len(ran)) == ("dead", 2, 6)
    assert Step.objects.get(run=run).attempt == 6


@pytest.mark.parametrize("error", [Permanent("gone"), Retry(after=60)], ids=repr)
def test_an_error_that_decides_for_itself_is_tried_once(error: Exception) -> None:
    ran: list[int] = []

    def failing() -> None:
        ran.append(1)
        raise error

    perform(lambda run: run.step("ask", failing, retries=5))
    assert ran == [1]


@pytest.mark.parametrize(
    ("after", "seconds"), [(-5, 0), (120, 120), (timedelta(hours=1), 3600), (1e12, 366 * 86400)], ids=str
)
def test_whatever_time_a_retry_names_becomes_one_the_desk_can_keep(after: Any, seconds: float) -> None:
    assert Retry(after=after).after == timedelta(seconds=seconds)


def test_an_error_whose_class_is_gone_is_still_raised() -> None:
    told = {"type": "Gone", "message": "bye", "traceback": "", "class": "no.such.module:Gone", "args": ["bye"]}
    with pytest.raises(StepFailed, match="Gone: bye"):
        raise raised_again(told)


# Time


def test_a_plain_and_an_async_step_end_at_their_timeout_and_say_so() -> None:
    async def waits() -> None:
        await asyncio.sleep(60)

    def story(run: Durable) -> list[str]:
        told = []
        for name, function in (("plain", lambda: time.sleep(1)), ("async", waits)):
            try:
                run.step(name, function, timeout=0.05)
            except TimeoutError as error:
                told.append(str(error))
        return told

    run = perform(story)
    assert run.result == [f"the step “{name}” took longer than 0.05 s" for name in ("plain", "async")]
    assert {step.error["type"] for step in run.steps.all()} == {"TimeoutError"}


def test_what_a_late_function_still_returns_or_asks_for_counts_for_nothing() -> None:
    go_on, told = threading.Event(), []

    def late(run: Durable) -> str:
        go_on.wait(20)
        for ask in (lambda: run.step("from the past", lambda: 1), lambda: run.log("still here"), run.journal.look):
            try:
                ask()
            except LeftBehind:
                told.append("left behind")
        return "late"

    def story(run: Durable) -> str:
        try:
            run.step("hangs", late, run, timeout=0.05)
        except TimeoutError:
            go_on.set()
            while len(told) < 3:
                time.sleep(0.01)
            return str(run.step("after", lambda: "on time"))
        raise AssertionError("it hangs")

    run = perform(story)
    assert (run.result, told) == ("on time", ["left behind"] * 3)
    assert list(run.steps.order_by("seq").values_list("name", "status")) == [("hangs", "failed"), ("after", "done")]


def test_a_step_over_a_second_is_written_down_while_it_is_at_work_and_a_crash_names_it() -> None:
    seen: list[tuple[str, str]] = []

    def slow(run: Durable) -> None:
        for _ in range(400):
            seen[:] = Step.objects.filter(run=run.row).values_list("name", "status")
            if seen:
                raise WorkerDied
            time.sleep(0.05)

    with registered("story", lambda run: run.step("think", slow, run)):
        run = builders.run("story")
        with pytest.raises(WorkerDied):
            execute(run.pk)
        reclaim(run.pk, 1, reason="worker_lost")
    assert seen == [("think", "started")]
    lost = fresh(run)
    assert lost.memory_mib > 10
    assert lost.error["type"] == "WorkerLost"
    assert lost.error["message"].startswith("a worker was lost in the step “think”: the worker died, ")
    assert lost.error["message"].endswith(" MiB of memory in use")


def test_a_plain_step_costs_no_statement_for_what_a_long_one_writes(django_assert_num_queries: Any) -> None:
    run = builders.run("story", status="running", fence=1, leased_until=clock.now())
    durable = Durable(run, Journal(run))
    with django_assert_num_queries(4):  # begin, fence with the time, insert, commit
        durable.step("plain", lambda: 1)


def test_the_end_of_a_run_that_never_acted_looks_once_for_what_it_leaves_behind() -> None:
    asked: list[str] = []

    def listen(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        asked.append(sql)
        return execute(sql, *rest)

    with registered("story", lambda run: run.step("look", lambda: 1)):
        run = builders.run("story")
        with connection.execute_wrapper(listen):
            execute(run.pk)
    assert fresh(run).status == "succeeded"
    assert len([sql for sql in asked if "approvals_" in sql]) == 1


# Stopping


def test_what_a_step_came_to_is_written_although_the_desk_pauses_meanwhile() -> None:
    ran: list[str] = []

    def story(run: Durable) -> str:
        def pausing() -> None:
            ran.append("one")
            Switch.objects.create(scope="all", paused=True, at=clock.now())

        run.step("one", pausing)
        run.step("two", lambda: ran.append("two"))
        return "done"

    with registered("story", story):
        run = builders.run("story")
        work()
        assert (fresh(run).status, ran) == ("queued", ["one"])
        Switch.objects.update(paused=False)
        work()
    assert (fresh(run).status, ran) == ("succeeded", ["one", "two"])


def test_a_worker_that_is_told_to_stop_finishes_the_step_and_gives_the_run_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stopping, "SHARED", bytearray(1))
    ran: list[str] = []

    def story(run: Durable) -> None:
        run.step("one", lambda: (stopping.tell(), ran.append("one"))[1])
        run.step("two", lambda: ran.append("two"))

    with registered("story", story):
        run = builders.run("story")
        execute(run.pk)
        back = fresh(run)
        assert (back.status, back.attempt, back.crashes, ran) == ("queued", 1, 0, ["one"])
        assert execute(run.pk) is False, "it takes nothing up any more"
        monkeypatch.setattr(stopping, "SHARED", bytearray(1))
        work()
    assert (fresh(run).status, ran) == ("succeeded", ["one", "two"])


def test_a_cancel_is_noticed_between_two_tries_of_a_step() -> None:
    ran: list[int] = []

    def failing(run: Durable) -> None:
        ran.append(1)
        Run.objects.filter(pk=run.row.pk).update(cancel_requested_at=clock.now())
        raise ConnectionError("away")

    run = perform(lambda run: run.step("ask", failing, run, retries=5))
    assert (run.status, run.reason, ran) == ("cancelled", "cancel_requested", [1])


# Steps inside of steps


def test_what_a_steps_function_asks_for_is_named_beneath_it_and_shifts_nothing() -> None:
    def outer(run: Durable) -> list[Any]:
        run.log("inside")
        return [run.step("inner", lambda: 1), run.step("inner", lambda: 2), run.random()]

    def story(run: Durable) -> list[Any]:
        told = [run.step("outer", outer, run), run.step("inner", lambda: 3)]
        run.log("after")
        if run.row.fence == 1:
            raise WorkerDied
        return told

    run = crash_and_go_on(story)
    assert (run.status, run.result[0][:2], run.result[1]) == ("succeeded", [1, 2], 3)
    names = ["outer/log", "outer/inner", "outer/inner#2", "outer/random", "outer", "inner", "log"]
    assert list(run.steps.order_by("seq").values_list("name", flat=True)) == names


def test_a_worker_lost_inside_of_a_step_leaves_no_step_that_does_not_fit() -> None:
    def outer(run: Durable) -> int:
        one = run.step("inner", lambda: 1)
        if run.row.fence == 1:
            raise WorkerDied
        return int(one)

    run = crash_and_go_on(lambda run: run.step("outer", outer, run))
    assert (run.status, run.result) == ("succeeded", 1)


@pytest.mark.parametrize("name", ["", "x" * 201, "nul \x00", "half \ud800"], ids=ascii)
def test_a_step_has_a_name_that_can_be_stored(name: str) -> None:
    run = perform(lambda run: run.step(name, lambda: 1))
    assert (run.status, run.error["type"]) == ("dead", "Permanent")


def test_the_texts_json_makes_are_those_json_reads() -> None:
    for value in ({}, [], "é", 1.5, None, True, {"a": [{"b": "c"}]}):
        assert json.loads(results.to_json(value, "it")) == value
    with pytest.raises(ResultTooLarge):
        results.to_json("x" * (8 * MIB), "it")


def test_a_redrive_keeps_large_results_and_waits_that_were_given_up(owner: Any, later: Callable[..., None]) -> None:
    ran: list[str] = []

    def story(run: Durable) -> int:
        large = run.step("large", lambda: ran.append("large") or "x" * (100 * KIB))
        try:
            run.wait_for("answer", type="shop.answered", source="*", timeout=timedelta(hours=1))
        except TimedOut:
            run.step("last", lambda: ran.append("last") or (1 // 0 if ran.count("last") == 1 else 1))
        return len(large)

    with registered("story", story):
        run = builders.run("story", attempt=4)  # its last
        work()
        later(hours=2)
        dispatch.tick()
        work()
        assert fresh(run).status == "dead"
        new = redrive.redrive(DeadLetter.objects.get(run=run), by=owner)
        work()
    assert new is not None
    assert (fresh(new).status, fresh(new).result, ran) == ("succeeded", 100 * KIB, ["large", "last", "last"])


def test_a_run_that_found_its_handler_again_is_not_held_for_one_without(later: Callable[..., None]) -> None:
    run = builders.run("story", reason="handler_missing")
    with registered("story", lambda run: run.sleep("nap", timedelta(hours=1))):
        execute(run.pk)
        assert (fresh(run).status, fresh(run).reason) == ("waiting", "")
        later(hours=2)
        dispatch.tick()
        assert work() == 1
