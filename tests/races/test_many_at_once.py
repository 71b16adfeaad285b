"""Races of bulk jobs, on PostgreSQL with real connections: a row is taken once, whoever is first."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from project.lib import clock
from project.people.models import User
from tests import builders
from tests.conftest import until
from tests.handlers import registered, work
from tests.races.together import rounds, together
from triggers import bulk, endings, pinning, redrive, retention, search
from triggers.durable import Durable
from triggers.errors import AlreadyAtWork, AlreadySettled, PayloadGone, Permanent
from triggers.models import Bulk, Counted, DeadLetter, Event, EventWords, Run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ROUNDS = rounds(8)


@pytest.fixture(autouse=True)
def _down() -> Any:
    def story(run: Durable) -> None:
        raise Permanent("down")

    with registered("story", story, breaker=0):
        yield


def letters(count: int) -> list[DeadLetter]:
    known = set(DeadLetter.objects.values_list("pk", flat=True))
    for _ in range(count):
        builders.run("story")
    work()
    return list(DeadLetter.objects.exclude(pk__in=known).order_by("pk"))


def press(verb: str, mine: list[DeadLetter], by: User) -> Bulk:
    wish = {"verb": verb, "filter": {"round": [str(mine[0].pk)]}, "reason": "known"}
    rows = DeadLetter.objects.filter(pk__in=[letter.pk for letter in mine])
    return bulk.press(rows=rows, by=by, canary=0, rate=100, **wish)  # type: ignore[arg-type]


def reruns(letter: DeadLetter) -> int:
    return Run.objects.filter(rerun_of=letter.run).count()


def test_a_person_and_a_bulk_job_run_a_letter_again_once(ann: User, ben: User) -> None:
    for _ in range(ROUNDS):
        [letter] = letters(1)
        job = press("redrive", [letter], ann)
        results = together(lambda: bulk.go_on(), lambda: redrive.redrive(letter, by=ben))
        assert reruns(letter) == 1
        item = job.items.get()
        assert item.status == ("skipped" if isinstance(results[1], Run) else "started")
        assert isinstance(results[1], Run | AlreadySettled)


def test_two_rounds_on_one_job_take_every_row_once(ann: User) -> None:
    for _ in range(ROUNDS):
        mine = letters(4)
        job = press("redrive", mine, ann)
        items = list(job.items.order_by("pk").values_list("pk", flat=True))
        taken = together(*[lambda: sum(map(bulk.take, items)) for _ in range(3)])
        assert sum(taken) == 4
        until(lambda: bulk.go_on() == 0 and not Bulk.objects.at_work().exists())
        assert [reruns(letter) for letter in mine] == [1] * 4
        assert Bulk.objects.get(pk=job.pk).status == "done"


def test_two_jobs_over_the_same_letters_dismiss_or_run_each_but_never_both(ann: User, ben: User) -> None:
    for _ in range(ROUNDS):
        mine = letters(3)
        one, two = press("redrive", mine, ann), press("dismiss", mine, ben)
        together(bulk.go_on, bulk.go_on)
        until(lambda: bulk.go_on() == 0 and not Bulk.objects.at_work().exists())
        for letter in mine:
            letter.refresh_from_db()
            ran = letter.status == "redriven"
            assert reruns(letter) == ran
            assert {job.items.get(ref=letter.pk).status for job in (one, two)} == {
                "started" if ran else "done",
                "skipped",
            }


def test_two_presses_of_one_button_make_one_job(ann: User, ben: User) -> None:
    for _ in range(ROUNDS):
        mine = letters(2)
        results = together(lambda: press("redrive", mine, ann), lambda: press("redrive", mine, ben))
        assert {type(result) for result in results} == {AlreadyAtWork, Bulk}


def test_nothing_is_taken_after_a_pause_was_answered(ann: User) -> None:
    for _ in range(ROUNDS):
        mine = letters(4)
        job = press("redrive", mine, ann)
        counted: list[int] = []

        def pause() -> None:
            bulk.pause(job, by=ann)
            counted.append(job.items.exclude(status="waiting").count())

        results = together(lambda: bulk.go_on_with(job.pk, until=float("inf")), pause)
        if counted:  # else it was done before the pause
            assert job.items.exclude(status="waiting").count() == counted[0] == results[0]


def test_a_run_that_is_started_keeps_the_payload_or_is_refused(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "REST", 0)
    for _ in range(ROUNDS):
        then = clock.now() - timedelta(days=31)
        event, trigger = builders.event(data={"n": 1}, received_at=then), builders.trigger("story")
        Counted.objects.all().delete()
        results = together(lambda: redrive.run_event_again(event, trigger, by=ann), retention.prune)
        event = Event.objects.get(pk=event.pk)
        if isinstance(results[0], PayloadGone):
            assert event.pruned_at is not None
        else:
            assert isinstance(results[0], Run)
            assert event.data == {"n": 1}


def test_a_pin_and_retention_leave_no_empty_pinned_event(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "REST", 0)
    for _ in range(ROUNDS):
        event = builders.event(data={"n": 1}, received_at=clock.now() - timedelta(days=31))
        Counted.objects.all().delete()
        results = together(lambda: pinning.pin(event, by=ann, reason="kept"), retention.prune)
        event = Event.objects.get(pk=event.pk)
        assert isinstance(results[0], PayloadGone) == (event.pruned_at is not None)


def test_the_first_two_of_a_cause_ring_once() -> None:
    for number in range(ROUNDS):
        runs = [builders.run("story") for _ in range(2)]

        def opens(run: Run, cause: str = f"E{number}") -> None:
            error = {"type": cause, "message": "no"}
            endings.bury(run, clock.now(), error=error, place="", step="")

        Run.objects.filter(pk__in=[run.pk for run in runs]).update(status="running", leased_until=clock.now())
        for run in runs:
            run.refresh_from_db()
        together(*[lambda run=run: in_one(opens, run) for run in runs])
        told = Event.objects.filter(type="nightdesk.dead_letter.opened", data_json__contains=f'"E{number}"')
        assert told.count() == 1


def in_one(deed: Any, run: Run) -> None:
    with transaction.atomic():
        deed(run)


def test_two_rounds_make_the_words_of_an_event_once() -> None:
    for number in range(ROUNDS):
        builders.event(data={"n": f"word{number}"})
        together(search.index, search.index)
        assert len(search.by_words(f"word{number}", payloads=True)) == 1
    assert EventWords.objects.count() == Event.objects.count()
