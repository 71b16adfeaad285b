"""Whoever rings most does not get all workers, and a handler that always fails does not burn its queue."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import fresh, registered, work
from triggers import breakers, claims, dispatch, redrive, turns
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.execute import execute
from triggers.limits import read_limits
from triggers.models import Audit, Breaker, DeadLetter, Run, Slot, Trigger
from triggers.turns import Served

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nobody_was_served() -> None:
    Served.last.clear()


@pytest.fixture(autouse=True)
def _story() -> Iterator[None]:
    with registered("story", lambda run: None):
        yield


def queue(trigger: Trigger, count: int, **fields: Any) -> list[Run]:
    return [
        builders.run("story", trigger=trigger, priority=trigger.priority, slot_key=key_of(trigger), **fields)
        for _ in range(count)
    ]


def key_of(trigger: Trigger) -> str | None:
    return "" if trigger.flow.concurrency else None


def order(count: int) -> list[str]:
    """Whose runs the next free workers would take."""
    taken = []
    for _ in range(count):
        run = Run.objects.select_related("trigger").get(pk=dispatch.next_due())
        assert run.trigger
        taken.append(run.trigger.slug)
        execute(run.pk)
    return taken


def test_one_event_of_a_quiet_trigger_does_not_wait_for_a_burst_of_another() -> None:
    """BP-01."""
    queue(builders.trigger("story", slug="noisy"), 30)
    queue(builders.trigger("story", slug="quiet"), 1)
    assert "quiet" in order(2)


def test_a_burst_that_may_not_start_does_not_stand_in_the_way() -> None:
    """BP-01: the noisy trigger is at its limit."""
    noisy = builders.trigger("story", slug="noisy", limits=read_limits({"concurrency": {"limit": 3}}))
    runs = queue(noisy, 30)
    for run in runs[:3]:
        assert fresh(run).trigger
        from_queue = Run.objects.select_related("trigger", "event").get(pk=run.pk)
        assert execute_only_the_claim(from_queue)
    [quiet] = queue(builders.trigger("story", slug="quiet"), 1)
    assert dispatch.next_due() == quiet.pk
    execute(quiet.pk)
    assert dispatch.next_due() is None
    assert Run.objects.filter(trigger=noisy, status="running").count() == 3


def execute_only_the_claim(run: Run) -> bool:
    return claims.claim(run, owner="test")


def test_triggers_of_a_rank_take_turns_and_an_urgent_one_goes_first() -> None:
    queue(builders.trigger("story", slug="a"), 3)
    queue(builders.trigger("story", slug="b"), 3)
    queue(builders.trigger("story", slug="urgent", priority=0), 2)
    assert order(8) == ["urgent", "urgent", "a", "b", "a", "b", "a", "b"]


def test_the_last_rank_is_reached_too() -> None:
    past = clock.now() - 10 * turns.AGING
    queue(builders.trigger("story", slug="last", priority=9), 1, due_at=past, queued_at=past)
    queue(builders.trigger("story", slug="urgent", priority=0), 5)
    assert "last" in order(2)


def test_runs_without_a_trigger_have_a_turn_as_well() -> None:
    queue(builders.trigger("story", slug="noisy"), 5)
    alone = builders.run("story")
    execute(dispatch.next_due() or 0)
    execute(dispatch.next_due() or 0)
    assert fresh(alone).status == "succeeded"


def test_the_bells_of_a_round_are_shared() -> None:
    noisy = queue(builders.trigger("story", slug="noisy"), 10)
    quiet = queue(builders.trigger("story", slug="quiet"), 1)
    now = clock.now()
    rung = turns.fair_share(turns.OPEN, now, 4)
    assert quiet[0].pk in rung
    assert len(set(rung) & {run.pk for run in noisy}) == 2


# The breaker


def dies(run: Durable) -> None:
    raise RuntimeError("the far side is down")


def fails(count: int, function: Callable[[Durable], None] = dies, **limits: Any) -> list[Run]:
    """So many runs of the handler `far`, which all go wrong."""
    made = []
    with registered("far", function):
        for _ in range(count):
            made.append(builders.run("far", trigger=far(**limits)))
            work()
    return made


def far(**limits: Any) -> Trigger:
    given = read_limits({"retries": {"max": 0}, **limits})
    return Trigger.objects.filter(slug="far").first() or builders.trigger("far", slug="far", limits=given)


def test_after_five_dead_runs_in_a_row_the_others_wait() -> None:
    fails(5)
    held = builders.run("far", trigger=far())
    with registered("far", dies):
        assert work() == 0
    breaker = Breaker.objects.get()
    assert breaker.until
    assert breaker.until > clock.now()
    assert fresh(held).status == "queued"
    assert DeadLetter.objects.count() == 5
    assert Audit.objects.filter(verb="open the breaker", ref="far").exists()


def test_a_success_between_them_keeps_it_closed() -> None:
    fails(4)
    fails(1, lambda run: None)
    fails(4)
    assert not Breaker.objects.open().exists()


@pytest.mark.parametrize("own_fault", ["permanent", "cancelled"])
def test_what_is_the_runs_own_fault_does_not_count(own_fault: str, ann: User) -> None:
    def permanent(run: Durable) -> None:
        raise Permanent("no such order")

    def cancelled(run: Durable) -> None:
        redrive.cancel(fresh(run.row), by=ann)
        run.step("go on", lambda: 1)

    fails(6, permanent if own_fault == "permanent" else cancelled)
    assert not Breaker.objects.exists()


def test_when_the_pause_is_over_one_run_tries_and_its_success_lets_the_others_go(later: Callable[..., None]) -> None:
    fails(5)
    first, second = (builders.run("far", trigger=far()) for _ in range(2))
    later(seconds=61)
    with registered("far", lambda run: None):
        assert dispatch.next_due() is None, "nobody tries before tick has chosen"
        dispatch.tick()
        assert dispatch.next_due() == first.pk
        execute(first.pk)
        assert dispatch.next_due() == second.pk
    assert not Breaker.objects.exists()


def test_a_try_that_fails_opens_it_for_twice_as_long(later: Callable[..., None]) -> None:
    fails(5)
    runs = [builders.run("far", trigger=far()) for _ in range(2)]
    later(seconds=61)
    with registered("far", dies):
        dispatch.tick()
        assert work() == 1
    breaker = Breaker.objects.get()
    assert breaker.until
    assert timedelta(seconds=100) < breaker.until - clock.now() <= timedelta(seconds=120)
    assert breaker.probe is None
    assert fresh(runs[1]).status == "queued"


def test_a_try_that_will_be_tried_again_has_failed_for_the_others(later: Callable[..., None]) -> None:
    fails(5)
    Trigger.objects.filter(slug="far").update(limits=read_limits({"retries": {"max": 3, "base": 0}}))
    run = builders.run("far", trigger=far())
    later(seconds=61)
    with registered("far", dies):
        dispatch.tick()
        assert work() == 1
    assert fresh(run).status == "retrying"
    assert Breaker.objects.open().get().opened == 2


def test_a_try_that_gets_as_far_as_a_wait_lets_the_others_go(later: Callable[..., None]) -> None:
    fails(5)
    builders.run("far", trigger=far())
    later(seconds=61)
    with registered("far", lambda run: run.sleep("a while", timedelta(days=1))):
        dispatch.tick()
        work()
        dispatch.tick()
    assert not Breaker.objects.exists()


def test_a_try_that_a_person_cancels_says_nothing(later: Callable[..., None], ann: User) -> None:
    fails(5)
    first, second = (builders.run("far", trigger=far()) for _ in range(2))
    later(seconds=61)
    dispatch.tick()
    redrive.cancel(first, by=ann)
    dispatch.tick()
    dispatch.tick()
    assert Breaker.objects.get().probe == second


@pytest.mark.parametrize("held", ["its trigger is off", "no slot is free"])
def test_a_try_that_may_not_start_leaves_it_to_another(held: str, later: Callable[..., None]) -> None:
    fails(5)
    one = builders.trigger("far", slug="one", limits=read_limits({"concurrency": {"limit": 1}}))
    first = builders.run("far", trigger=one, slot_key="")
    second = builders.run("far", trigger=far())
    later(seconds=61)
    dispatch.tick()
    assert Breaker.objects.get().probe == first
    if held == "no slot is free":
        until = clock.now() + timedelta(hours=1)
        other = builders.run("far", trigger=one, status="running", leased_until=until)
        Slot.objects.create(trigger=one, place=1, run=other, since=clock.now())
    else:
        Trigger.objects.filter(pk=one.pk).update(mode="paused")
    dispatch.tick()
    dispatch.tick()
    assert Breaker.objects.get().probe == second


def test_an_operator_may_close_it(ann: User) -> None:
    fails(5)
    run = builders.run("far", trigger=far())
    assert breakers.close("far", by=ann)
    assert not breakers.close("far", by=ann)
    assert dispatch.next_due() == run.pk
    assert Audit.objects.get(verb="close the breaker").by == ann


def test_a_handler_may_do_without() -> None:
    with registered("far", dies, breaker=0):
        for _ in range(7):
            builders.run("far", trigger=far())
        work()
    assert not Breaker.objects.exists()
