"""Races of the machine, on PostgreSQL with two real connections: one of the two wins, nothing is lost or doubled."""

from datetime import timedelta

import pytest

from project.lib import clock
from tests import builders
from tests.handlers import fresh, registered, work
from tests.races.together import rounds, together
from triggers import dispatch, waking
from triggers.durable import Durable
from triggers.execute import execute
from triggers.models import Run, Wait

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ROUNDS = rounds(15)


def test_one_of_two_workers_claims_a_run() -> None:
    worked: list[int] = []
    with registered("story", lambda run: worked.append(run.row.pk)):
        for _ in range(ROUNDS):
            run = builders.run("story")
            claims = together(lambda: execute(run.pk), lambda: execute(run.pk))
            assert sorted(claims) == [False, True]
            assert fresh(run).fence == 1
    assert len(worked) == ROUNDS


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
            together(lambda: execute(run.pk), dispatch.reclaim_lost)
            work()
            row = fresh(run)
            assert (row.status, row.result) == ("succeeded", "done")
            assert row.crashes == row.fence // 2, "a finished run is not counted as crashed"
