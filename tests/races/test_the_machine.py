"""Races of the machine, on PostgreSQL with two real connections: one of the two wins, nothing is lost or doubled."""

from datetime import timedelta
from typing import Any

import pytest

from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import fresh, registered, work
from tests.races.together import together
from triggers import dispatch, redrive, waking
from triggers.durable import Durable
from triggers.errors import AlreadySettled, Permanent
from triggers.execute import execute, reclaim
from triggers.models import DeadLetter, Run, Wait

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ROUNDS = 15


def test_one_of_two_workers_claims_a_run() -> None:
    worked: list[int] = []
    with registered("story", lambda run: worked.append(run.row.pk)):
        for _ in range(ROUNDS):
            run = builders.run("story")
            claims = together(lambda: execute(run.pk), lambda: execute(run.pk))
            assert sorted(claims) == [False, True]
            assert fresh(run).fence == 1
    assert len(worked) == ROUNDS


def test_an_event_that_arrives_while_its_wait_is_being_registered_is_not_lost() -> None:
    def story(run: Durable) -> Any:
        return run.wait_for("pay", type="paid", source="github", subject=str(run.row.pk)).data

    def pay(run: Run) -> None:
        waking.wake_waits([builders.event("paid", subject=str(run.pk), data="yes").pk])

    with registered("story", story):
        for _ in range(ROUNDS):
            run = builders.run("story")
            together(lambda: execute(run.pk), lambda: pay(run))
            work()
            assert fresh(run).result == "yes"


def test_an_event_and_the_end_of_the_time_end_a_wait_once() -> None:
    def story(run: Durable) -> None:
        run.wait_for("pay", type="paid", source="github", subject=str(run.row.pk), timeout=timedelta(0))

    with registered("story", story):
        for _ in range(ROUNDS):
            run = builders.run("story")
            work(1)
            event = builders.event("paid", subject=str(run.pk))
            woken = together(lambda: waking.wake_waits([event.pk]), lambda: waking.expire_due(clock.now()))
            assert sorted(map(int, woken)) == [0, 1]
            assert fresh(run).status == "queued"
            assert Wait.objects.get(run=run).status in ("resolved", "expired")
            Run.objects.filter(pk=run.pk).update(status="cancelled", finished_at=clock.now())


def test_a_lease_taken_while_the_worker_finishes_leaves_one_outcome() -> None:
    def story(run: Durable) -> str:
        if run.row.fence == 1:
            Run.objects.filter(pk=run.row.pk).update(leased_until=clock.now() - timedelta(seconds=1))
        return "done"

    with registered("story", story):
        for _ in range(ROUNDS):
            run = builders.run("story")
            together(lambda: execute(run.pk), lambda: dispatch.reclaim_lost(clock.now()))
            work()
            row = fresh(run)
            assert (row.status, row.result) == ("succeeded", "done")
            assert row.crashes == row.fence // 2, "a finished run is not counted as crashed"


def test_two_ticks_take_a_lost_run_back_once() -> None:
    for _ in range(ROUNDS):
        past = clock.now() - timedelta(seconds=1)
        run = builders.run("story", status="running", fence=1, leased_until=past)
        assert sorted(together(*[lambda: reclaim(run.pk, 1, reason="worker_lost")] * 2)) == [False, True]
        assert (fresh(run).crashes, fresh(run).fence) == (1, 2)


def test_cancel_and_the_last_word_of_the_handler_leave_one_end(ann: User) -> None:
    with registered("story", lambda run: "done"):
        for _ in range(ROUNDS):
            run = builders.run("story")
            together(lambda: execute(run.pk), lambda: redrive.cancel(run, by=ann))
            assert fresh(run).status in ("succeeded", "cancelled")
            assert fresh(run).finished_at is not None


def test_a_letter_pressed_twice_at_once_runs_once(ann: User) -> None:
    def story(run: Durable) -> None:
        raise Permanent("no")

    with registered("story", story):
        for _ in range(ROUNDS):
            builders.run("story")
            work()
            letter = DeadLetter.objects.open().latest("pk")
            results = together(*[lambda: redrive.redrive(letter, by=ann)] * 2)
            assert sum(isinstance(result, AlreadySettled) for result in results) == 1
            assert Run.objects.filter(rerun_of=letter.run).count() == 1
            work()
            DeadLetter.objects.update(status="dismissed")
