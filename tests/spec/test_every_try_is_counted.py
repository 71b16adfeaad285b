"""Tries are counted and multiply as configured; what differs by nature on a second try is remembered."""

from collections.abc import Callable
from typing import Any

import pytest

from approvals.act import act
from approvals.models import Action
from tests import builders
from tests.handlers import fresh, registered, work
from tests.nodding import handling, serving
from triggers import redrive
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.models import DeadLetter, Run, Step

pytestmark = pytest.mark.django_db


class WorkerDied(BaseException):
    """Stands for kill -9."""


class Phone:
    """A step that never gets through, and counts how often it was tried."""

    def __init__(self, error: Exception) -> None:
        self.error, self.calls = error, 0

    def call(self) -> None:
        self.calls += 1
        raise self.error

    def story(self, run: Durable) -> None:
        run.step("call", self.call, retries=1)


def worked_to_the_end(run: Run, later: Callable[..., None]) -> Run:
    """As the days go by: every back-off passes."""
    while not fresh(run).has_ended:
        later(hours=3)
        assert work(), "it waits for something else than the time"
    return fresh(run)


def test_tries_of_a_step_and_of_its_run_multiply_and_a_run_again_counts_anew(later, ben) -> None:
    """WK-09: two tries in each of two attempts, then the dead letter; the run again is linked and starts at one."""
    phone = Phone(ConnectionError("nobody answers"))
    limits = {"retries": {"max": 1, "base": 1, "factor": 2, "max_delay": 10, "jitter": "none"}}
    trigger = builders.trigger("story", limits=limits)
    with registered("story", phone.story):
        run = worked_to_the_end(builders.run("story", trigger=trigger), later)
        assert (run.status, run.attempt, phone.calls) == ("dead", 2, 4)
        assert DeadLetter.objects.get().attempts == 2
        again = redrive.redrive(DeadLetter.objects.get(), by=ben)
        assert (again.rerun_of, again.attempt) == (run, 1)
        assert worked_to_the_end(again, later).attempt == 2
    assert phone.calls == 8


def test_what_trying_again_cannot_mend_is_tried_once(later) -> None:
    """WK-09."""
    phone = Phone(Permanent("there is no such number"))
    with registered("story", phone.story):
        run = worked_to_the_end(builders.run("story"), later)
    assert (run.status, run.attempt, phone.calls) == ("dead", 1, 1)


def test_the_way_a_run_took_and_the_key_it_made_are_the_same_after_a_crash() -> None:
    """WK-07: the clock decides the way, a random number the key; both are asked once."""
    ways: list[str] = []
    builders.connection("shop", practice=False)

    def story(run: Any) -> None:
        way = f"{run.now().isoformat()} {run.random()} {run.uuid()}"
        ways.append(way)
        run.step(f"by way {way[-12:]}", lambda: way)
        act(run, "buy", kind="shop.order", key=f"order-{run.uuid()}", item="tea")
        if len(ways) == 1:
            raise WorkerDied

    with serving("low") as shop, handling(story):
        run = builders.run("story")
        with pytest.raises(WorkerDied):
            work()
        Run.objects.filter(pk=run.pk).update(status="queued", leased_until=None)
        work()
    assert fresh(run).status == "succeeded"
    assert len(ways) == 2
    assert len(set(ways)) == 1
    assert len(shop.sent) == 1
    assert Action.objects.count() == 1
    assert Step.objects.filter(run=run, name__startswith="by way").count() == 1
