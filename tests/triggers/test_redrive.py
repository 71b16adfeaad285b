"""What people do with what failed: every re-run is a new run, linked to the old one, which stays as it was."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import fresh, registered, work
from triggers import dispatch, endings, journal, redrive, waking
from triggers.durable import Durable
from triggers.errors import AlreadySettled, Ended, NotEnded, NotValid, Permanent
from triggers.models import Audit, DeadLetter, Event, Run, Wait

pytestmark = pytest.mark.django_db(transaction=True)


class World:
    """A far side that is down until somebody mends it."""

    def __init__(self) -> None:
        self.broken = True
        self.calls: list[str] = []

    def load(self) -> str:
        self.calls.append("load")
        return "loaded"

    def send(self) -> str:
        self.calls.append("send")
        if self.broken:
            raise Permanent("the far side is down")
        return "sent"

    def story(self, run: Durable) -> Any:
        run.step("load", self.load)
        return run.step("send", self.send)


@pytest.fixture
def world() -> Any:
    world = World()
    with registered("story", world.story):
        yield world


@pytest.fixture
def letter(world: World) -> DeadLetter:
    builders.run("story")
    work()
    return DeadLetter.objects.get()


def test_a_dead_letter_runs_again_from_the_step_that_failed(world: World, letter: DeadLetter, ann: User) -> None:
    world.broken = False
    new = redrive.redrive(letter, by=ann)
    work()
    letter.refresh_from_db()
    old = letter.run
    assert old is not None
    assert fresh(new).result == "sent"
    assert (fresh(new).rerun_of_id, fresh(new).origin_id) == (old.pk, old.pk)
    assert (letter.status, letter.redriven_as_id, letter.settled_by) == ("redriven", new.pk, ann)
    assert (fresh(old).status, world.calls) == ("dead", ["load", "send", "send"])
    assert Audit.objects.filter(verb="redrive", by=ann).count() == 1


def test_it_may_also_start_from_the_beginning(world: World, letter: DeadLetter, ann: User) -> None:
    redrive.redrive(letter, by=ann, from_="start")
    work()
    assert world.calls == ["load", "send", "load", "send"]


def test_pressing_twice_runs_once(letter: DeadLetter, ann: User) -> None:
    redrive.redrive(letter, by=ann)
    with pytest.raises(AlreadySettled):
        redrive.redrive(letter, by=ann)
    assert Run.objects.filter(rerun_of=letter.run).count() == 1


def test_a_re_run_that_fails_opens_the_same_letter_again(letter: DeadLetter, ann: User) -> None:
    new = redrive.redrive(letter, by=ann)
    work()
    again = DeadLetter.objects.get()
    assert again is not None
    assert (again.pk, again.status, again.run_id, again.attempts) == (letter.pk, "open", new.pk, 2)
    assert again.fingerprint == letter.fingerprint


def test_edited_data_is_what_the_new_run_sees_and_the_event_stays(ann: User) -> None:
    def story(run: Durable) -> Any:
        if run.event.data["amount"] < 0:
            raise Permanent("a negative amount")
        return run.event.data

    with registered("story", story):
        builders.run("story", event=builders.event(data={"amount": -3}))
        work()
        new = redrive.redrive(DeadLetter.objects.get(), by=ann, data={"amount": 3})
        work()
    assert fresh(new).result == {"amount": 3}
    assert Event.objects.get(pk=new.event_id).data == {"amount": -3}


def test_a_letter_is_dismissed_with_a_reason_and_only_once(letter: DeadLetter, ann: User) -> None:
    with pytest.raises(NotValid):
        redrive.dismiss(letter, by=ann, reason="  ")
    redrive.dismiss(letter, by=ann, reason="a test delivery")
    letter.refresh_from_db()
    assert (letter.status, letter.reason) == ("dismissed", "a test delivery")
    with pytest.raises(AlreadySettled):
        redrive.redrive(letter, by=ann)


def test_steps_before_the_chosen_one_are_kept(world: World, letter: DeadLetter, ann: User) -> None:
    world.broken = False
    assert letter.run is not None
    new = redrive.rerun(letter.run, by=ann, from_step="load", reason="once more")
    work()
    assert (fresh(new).status, world.calls) == ("succeeded", ["load", "send", "load", "send"])
    with pytest.raises(NotValid, match="no step"):
        redrive.rerun(letter.run, by=ann, from_step="fly")


@pytest.mark.parametrize("again", ["rerun", "redrive"])
def test_a_step_to_send_again_that_no_run_has_is_named_and_nothing_starts(letter: DeadLetter, ann: User, again) -> None:
    asked = {"by": ann, "send_again": ["send", "lode"]}
    with pytest.raises(NotValid) as refusal:
        redrive.rerun(letter.run, **asked) if again == "rerun" else redrive.redrive(letter, **asked)
    assert refusal.value.facts["steps"] == ["lode"]
    assert Run.objects.count() == 1
    assert DeadLetter.objects.get().status == "open"


def test_a_step_of_an_earlier_run_of_the_chain_may_be_sent_again(world: World, letter: DeadLetter, ann: User) -> None:
    first = redrive.rerun(letter.run, by=ann)
    redrive.cancel(first, by=ann)
    assert redrive.rerun(fresh(first), by=ann, send_again=["load"]).send_again == ["load"]


def test_a_run_under_way_cannot_be_run_again(world: World, ann: User) -> None:
    run = builders.run("story")
    with pytest.raises(NotEnded):
        redrive.rerun(run, by=ann)


def test_a_queued_run_is_cancelled_at_once_and_its_wait_closed(ann: User) -> None:
    def story(run: Durable) -> None:
        run.wait_for("nobody", type="never", source="*")

    with registered("story", story):
        run = builders.run("story")
        work()
        assert redrive.cancel(run, by=ann) is True
    assert (fresh(run).status, Wait.objects.get().status) == ("cancelled", "cancelled")
    with pytest.raises(Ended):
        redrive.cancel(run, by=ann)


def test_a_running_run_stops_at_its_next_step(ann: User) -> None:
    done: list[str] = []

    def story(run: Durable) -> None:
        run.step("one", lambda: done.append("one"))
        assert redrive.cancel(run.row, by=ann) is False
        time.sleep(2 * journal.FRESH)  # what was read a moment ago is trusted for that long
        run.step("two", lambda: done.append("two"))

    with registered("story", story):
        run = builders.run("story")
        work()
    assert (fresh(run).status, fresh(run).reason, done) == ("cancelled", "cancel_requested", ["one"])


def test_a_cancel_that_comes_with_the_last_word_of_the_handler_wins(ann: User) -> None:
    with registered("story", lambda run: redrive.cancel(run.row, by=ann)):
        run = builders.run("story")
        work()
    assert fresh(run).status == "cancelled"


def test_a_stored_event_may_be_run_again_by_a_person(world: World, ann: User) -> None:
    builders.source()
    trigger = builders.trigger("story")
    event = builders.event()
    first = redrive.run_event_again(event, trigger, by=ann)
    assert first.rerun_of is None
    with pytest.raises(NotEnded):
        redrive.run_event_again(event, trigger, by=ann)
    work()
    second = redrive.run_event_again(event, trigger, by=ann)
    assert second.rerun_of_id == first.pk


def test_a_letter_whose_run_is_still_at_work_waits_for_it(letter: DeadLetter, ann: User) -> None:
    Run.objects.filter(pk=letter.run_id).update(status="waiting")
    with pytest.raises(NotEnded):
        redrive.redrive(letter, by=ann)
    assert DeadLetter.objects.get().status == "open"


def test_an_event_that_is_about_to_be_matched_is_not_run_by_hand(ann: User) -> None:
    event, trigger = builders.event(status="accepted"), builders.trigger("story")
    with pytest.raises(NotValid):
        redrive.run_event_again(event, trigger, by=ann)
    assert not Run.objects.exists()


def test_what_fails_again_opens_the_same_letter_again(ann: User) -> None:
    now = clock.now()
    facts: dict[str, Any] = {"kind": "action", "action_id": 7, "error_type": "Refused", "message": "no"}

    def fails(message: str = "no") -> DeadLetter:
        with transaction.atomic():
            return endings.open_letter(now, **{**facts, "message": message})

    letter = fails()
    redrive.dismiss(letter, by=ann, reason="a test")
    again = fails("no, still")
    assert (again.pk, again.status, again.attempts, again.message) == (letter.pk, "open", 2, "no, still")
    once_more = fails()
    assert (once_more.pk, once_more.status, once_more.attempts) == (letter.pk, "open", 3)


@pytest.mark.parametrize("way", ["redrive", "rerun"])
def test_an_event_that_ended_a_wait_which_is_kept_ends_no_other(ann: User, way: str) -> None:
    """Two payments are awaited and the second does not come: the first is not counted twice when it runs again."""
    got = []

    def story(run: Durable) -> None:
        for name in ("first payment", "second payment"):
            got.append(run.wait_for(name, type="shop.paid", source="*", timeout=timedelta(days=1)).pk)

    with registered("story", story):
        run = builders.run("story", trigger=builders.trigger("story", limits={"retries": {"max": 0}}))
        work()
        first = builders.event("shop.paid")
        waking.wake_waits([first.pk])
        work()
        Wait.objects.filter(run=run, status="pending").update(expires_at=clock.now())
        Run.objects.filter(pk=run.pk).update(wake_at=clock.now())
        dispatch.wake_due()
        work()
        again = redrive.rerun(fresh(run), by=ann, from_step="second payment") if way == "rerun" else None
        again = again or redrive.redrive(DeadLetter.objects.get(), by=ann)
        assert again is not None
        got.clear()
        work()
        waking.wake_waits([first.pk])
        dispatch.repair_waits()
        work()
        assert (fresh(again).status, set(got)) == ("waiting", {first.pk})
        second = builders.event("shop.paid")
        waking.wake_waits([first.pk, second.pk])
        work()
    assert (fresh(again).status, got[-2:]) == ("succeeded", [first.pk, second.pk])
