"""A worker that heard one bell goes on with whatever is due, also with what comes in a moment; then it lets go."""

from collections.abc import Iterator

import pytest

from project.lib import clock
from tests import builders
from tests.handlers import registered
from triggers import tasks
from triggers.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _story() -> Iterator[None]:
    with registered("story", lambda run: None):
        yield


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it waited each time; during the second pause one more run comes."""
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            builders.run("story")

    monkeypatch.setattr(tasks.time, "sleep", sleep)
    return waited


def test_one_bell_is_enough_for_many_runs_and_for_those_that_come_meanwhile(pauses: list[float]) -> None:
    first, *_ = [builders.run("story") for _ in range(3)]
    tasks.advance(run_id=first.pk)
    assert Run.objects.filter(status="succeeded").count() == 4
    assert tuple(pauses) == (*tasks.PAUSES[:2], *tasks.PAUSES), "after the last one it waited anew"


def test_a_bell_for_a_run_that_another_worker_has_costs_no_waiting(pauses: list[float]) -> None:
    tasks.advance(run_id=builders.run("story", status="running", leased_until=clock.now()).pk)
    assert pauses == []


def test_it_goes_back_to_the_broker_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "DRAIN", 0.0)
    first, second = builders.run("story"), builders.run("story")
    tasks.advance(run_id=first.pk)
    second.refresh_from_db()
    assert second.status == "queued"
