"""The controls of the model: break the desk, and the promise that it breaks says so."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from approvals.models import Action, Attempt
from project.lib import clock
from tests import builders
from tests.handlers import fresh
from tests.model import invariants
from tests.model.invariants import Memory
from tests.model.workers import Worker
from tests.model.world import World, opened
from triggers.execute import execute
from triggers.journal import ADD, Journal
from triggers.models import Event, Run, Slot, Step, Wait

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> Iterator[World]:
    with opened() as world:
        yield world


def two_workers_on_one_run(world: World, memory: Memory) -> Run:
    """The first computes its step and stands still there; the second takes the run over; then the first goes on."""
    world.ring("shop.order", "s-1", "order-1", plan=["step", "step"])
    run = Run.objects.get()
    zombie = Worker(lambda: execute(run.pk)).go_to("after_step_call")
    world.lose_leases()
    invariants.hold(memory)
    second = Worker(lambda: execute(run.pk)).go_to("after_journal")
    invariants.hold(memory)
    zombie.finish()
    invariants.hold(memory)
    second.finish()
    invariants.hold(memory)
    return fresh(run)


def test_a_worker_that_comes_back_is_fenced(world: World) -> None:
    run = two_workers_on_one_run(world, Memory())
    assert (run.status, run.crashes) == ("succeeded", 1)
    assert [len(set(said)) for said in world.told.values()] == [1, 1]


@pytest.fixture
def _steps_may_be_written_twice(db: None) -> Iterator[None]:
    """The constraint that a step is remembered once is away: only the fence is between a zombie and the journal."""
    kept, Step._meta.constraints = Step._meta.constraints, []  # SQLite makes the table anew from what the model says
    with connection.schema_editor() as editor:
        editor.remove_constraint(Step, kept[0])
    yield
    Step.objects.all().delete()
    Step._meta.constraints = kept
    with connection.schema_editor() as editor:
        editor.add_constraint(Step, kept[0])


@pytest.mark.usefixtures("_steps_may_be_written_twice")
def test_a_worker_that_comes_back_is_fenced_by_the_fence_alone(world: World) -> None:
    run = two_workers_on_one_run(world, Memory())
    assert (run.status, run.steps.count()) == ("succeeded", 2)


@pytest.mark.usefixtures("_steps_may_be_written_twice")
def test_without_the_fence_the_model_sees_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "look", lambda self, **how: None)
    monkeypatch.setattr(Journal, "hold", lambda self, **how: clock.now())
    monkeypatch.setattr(Journal, "add", lambda self, step: ADD(step))
    monkeypatch.setattr(Run, "FENCE", ())
    with pytest.raises(AssertionError, match="step 0"):
        two_workers_on_one_run(world, Memory())


def running(**fields: Any) -> Run:
    return builders.run("story", status="running", leased_until=clock.now(), lease_owner="one", **fields)


def ended() -> Run:
    return builders.run("story", status="cancelled", finished_at=clock.now())


def wait(run: Run) -> Wait:
    now = clock.now()
    return Wait.objects.create(run=run, step="pay", type="paid", since=now, registered_at=now)


def a_lease_without_a_worker() -> None:
    builders.run("story", leased_until=clock.now())


def a_worker_without_a_name() -> None:
    Run.objects.filter(pk=running().pk).update(lease_owner="")


def a_run_that_waits_for_nothing() -> None:
    builders.run("story", status="waiting")


def a_wait_of_nobody() -> None:
    wait(builders.run("story"))


def a_wait_that_ends_at_another_time() -> None:
    run = builders.run("story", status="waiting")
    Wait.objects.filter(pk=wait(run).pk).update(expires_at=clock.now())


def a_wait_of_an_ended_run() -> None:
    wait(ended())


def a_place_of_an_ended_run() -> None:
    Slot.objects.create(trigger=builders.trigger(), place=1, run=ended(), since=clock.now())


def an_action_that_outlives_its_run() -> None:
    run = ended()
    builders.action(run=run).acts.create(run=run, name="tell")


def tried(status: str, outcome: str) -> None:
    at = {"settled_at": clock.now()} if status in ("rejected", "failed") else {}
    Attempt.objects.create(
        action=builders.action(status=status, given=1, **at), number=1, outcome=outcome, started_at=clock.now()
    )


def a_doubt_that_is_called_a_no() -> None:
    tried("rejected", "unknown")


def a_success_that_is_called_a_failure() -> None:
    tried("failed", "delivered")


def an_event_whose_run_is_missing() -> None:
    builders.event(outcomes=[{"trigger": "orders", "outcome": "matched", "run": 99}])


@pytest.mark.parametrize(
    "breaks",
    [
        a_lease_without_a_worker,
        a_worker_without_a_name,
        a_run_that_waits_for_nothing,
        a_wait_of_nobody,
        a_wait_that_ends_at_another_time,
        a_wait_of_an_ended_run,
        a_place_of_an_ended_run,
        an_action_that_outlives_its_run,
        a_doubt_that_is_called_a_no,
        a_success_that_is_called_a_failure,
        an_event_whose_run_is_missing,
    ],
    ids=lambda breaks: breaks.__name__,
)
def test_a_row_that_breaks_a_promise_is_named(breaks: Callable[[], None]) -> None:
    breaks()
    with pytest.raises(AssertionError, match=r"id|run"):
        invariants.hold(Memory())


def test_a_step_that_is_written_again_is_named() -> None:
    memory, step = Memory(), builders.step(ended(), 1)
    invariants.hold(memory)
    Step.objects.filter(pk=step.pk).update(result_json="2")
    with pytest.raises(AssertionError, match="step 1"):
        invariants.hold(memory)


def test_a_fence_that_falls_is_named() -> None:
    memory, run = Memory(), builders.run("story", fence=3)
    invariants.hold(memory)
    Run.objects.filter(pk=run.pk).update(fence=2)
    with pytest.raises(AssertionError):
        invariants.hold(memory)


def test_an_effect_that_happens_twice_is_named() -> None:
    with pytest.raises(AssertionError, match="R-1/tell"):
        invariants.a_key_is_applied_at_most_once(["R-1/tell", "R-2/tell", "R-1/tell"])


@pytest.mark.parametrize("what", ["lost", "late", "unmatched", "unheard"])
def test_what_is_left_alone_is_named(world: World, what: str) -> None:
    past = clock.now() - dispatch_time()
    match what:
        case "lost":
            Run.objects.filter(pk=running().pk).update(leased_until=past)
        case "late":
            Run.objects.filter(pk=builders.run("story", status="waiting").pk).update(wake_at=past)
        case "unmatched":
            builders.event(status="accepted")
        case "unheard":
            builders.run("story", due_at=past)
    with pytest.raises(AssertionError):
        invariants.nothing_due_is_left_alone()


def dispatch_time() -> Any:
    return 3 * invariants.dispatch.RING_AGAIN


def test_a_run_that_replays_with_a_new_step_is_named(world: World) -> None:
    world.ring("shop.order", "s-1", "order-1", plan=["step"])
    run = Run.objects.get()
    execute(run.pk)
    invariants.a_finished_run_replays_without_a_new_step(fresh(run))
    Step.objects.filter(run=run).delete()
    with pytest.raises(AssertionError, match="step 0"):
        invariants.a_finished_run_replays_without_a_new_step(fresh(run))


def test_nothing_is_named_where_nothing_is_wrong() -> None:
    invariants.hold(Memory())
    assert not Event.objects.exists()
    assert not Action.objects.exists()
