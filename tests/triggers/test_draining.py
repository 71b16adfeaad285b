"""A worker that heard one bell goes on with whatever is due, also with what comes in a moment; then it lets go.

While it works it rings for one more that is due, so that a burst reaches every free worker."""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from project.lib import clock
from tests import builders
from tests.handlers import registered
from triggers import tasks
from triggers.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _story(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tasks.Chain, "looks_at", 0.0)
    with registered("story", lambda run: None):
        yield


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The runs that were rung for."""
    ids: list[int] = []
    monkeypatch.setattr(tasks.bells, "ring", lambda runs: ids.extend(runs) or len(ids))
    return ids


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it waited each time; during the second pause one more run comes."""
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            builders.run("story")

    # Not in `time` itself, which is all threads' own: one that an earlier test left behind may sleep meanwhile.
    monkeypatch.setattr(tasks, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
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


def test_whoever_takes_up_a_run_rings_for_the_next_before_it_works(rung: list[int]) -> None:
    heard: list[list[int]] = []
    with registered("long", lambda run: heard.append([*rung])):
        first, second = builders.run("long"), builders.run("long")
        tasks.advance(run_id=first.pk)
    assert heard[0] == [second.pk]


def test_who_finds_nothing_else_due_or_has_just_rung_rings_for_nobody(rung: list[int]) -> None:
    tasks.advance(run_id=builders.run("story").pk)
    assert rung == []
    tasks.Chain.looks_at = 0.0
    first, *_ = [builders.run("story") for _ in range(4)]
    tasks.advance(run_id=first.pk)
    assert Run.objects.filter(status="succeeded").count() == 5
    assert len(rung) == 1, "the others were short"
