"""Bulk jobs beside each other, and in the hands of more than one person."""

from datetime import timedelta
from typing import Any

import pytest

from approvals import requesters
from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import registered
from triggers import bulk
from triggers.models import Bulk, DeadLetter, Event, Run

pytestmark = pytest.mark.django_db(transaction=True)


def letters(count: int, fingerprint: str = "cause") -> None:
    now = clock.now()
    for _ in range(count):
        run = builders.run("story", status="dead", finished_at=now)
        letter(run=run, fingerprint=fingerprint, kind="run")


def letter(**facts: Any) -> DeadLetter:
    now = clock.now()
    return DeadLetter.objects.create(**facts, error_type="Timeout", message="late", first_at=now, last_at=now)


def press(by: User, verb: str = "redrive", rows: Any = None, **given: Any) -> Bulk:
    return bulk.press(verb, DeadLetter.objects.all() if rows is None else rows, by=by, filter={}, **given)


def round_of_the_desk(seconds: float = 4) -> None:
    Bulk.objects.update(paced_at=clock.now() - timedelta(seconds=seconds))
    bulk.go_on()


def test_each_job_has_its_share_of_a_round(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has more to do than a round has time for."""
    monkeypatch.setattr(bulk, "BUDGET", 0.0)
    letters(3, "first")
    letters(3, "second")
    for name in ("first", "second"):
        rows = DeadLetter.objects.filter(fingerprint=name)
        bulk.press("dismiss", rows, by=ann, filter={"fingerprint": [name]}, reason="known")
    round_of_the_desk()
    assert [job.tally.get("done") for job in Bulk.objects.order_by("pk")] == [1, 1]


def resumed_in_the_middle(job: Bulk, person: User) -> None:
    """One row is taken, the stop rule stops it, `person` lets it go on, and the rest is taken."""
    round_of_the_desk(seconds=1)
    bulk.stop(job, "The last one failed.")
    bulk.resume(Bulk.objects.get(pk=job.pk), by=person)
    round_of_the_desk()


def test_who_lets_a_job_go_on_has_asked_for_what_it_starts_from_then_on(ann: User, ben: User) -> None:
    with registered("story", lambda run: None):
        letters(2)
        resumed_in_the_middle(press(ann, canary=0, rate=1), ben)
        first, second = Run.objects.exclude(rerun_of=None).order_by("pk")
        assert requesters.chain(first, four_eyes=False) == [ann.pk]
        assert requesters.chain(second, four_eyes=False) == [ann.pk, ben.pk]


def test_who_lets_a_job_go_on_has_asked_for_what_it_undoes(ann: User, ben: User) -> None:
    runs = [builders.run("story") for _ in range(2)]
    resumed_in_the_middle(press(ann, "cancel", Run.objects.all(), rate=1), ben)
    for run, people in zip(runs, [{ann.pk}, {ann.pk, ben.pk}], strict=True):
        run.refresh_from_db()
        assert set(requesters.chain(run, four_eyes=False)) == people


def test_who_lets_a_job_go_on_has_asked_for_what_the_events_start_that_it_admits(ann: User, ben: User) -> None:
    events = [builders.event(status="invalid") for _ in range(2)]
    for event in events:
        letter(event=event, fingerprint="cause", kind="event")
    resumed_in_the_middle(press(ann, canary=0, rate=1), ben)
    assert not Event.objects.filter(status="invalid").exists()
    runs = [builders.run("story", event=Event.objects.get(pk=event.pk), requester=ann) for event in events]
    assert [requesters.chain(run, four_eyes=False) for run in runs] == [[ann.pk], [ann.pk, ben.pk]]


def test_who_pressed_and_lets_it_go_on_is_named_once(ann: User) -> None:
    with registered("story", lambda run: None):
        letters(2)
        resumed_in_the_middle(press(ann, canary=0, rate=1), ann)
        assert [requesters.chain(run, four_eyes=False) for run in Run.objects.exclude(rerun_of=None)] == [[ann.pk]] * 2
