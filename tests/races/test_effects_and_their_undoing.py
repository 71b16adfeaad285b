"""Races of effects on PostgreSQL with two real connections: what is late, what is lost, and what is undone, once."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from approvals import budget, clearing, deliver, outcomes, undoing
from approvals.act import act
from approvals.models import Action, Attempt, Compensation, Connection
from approvals.outcomes import Outcome
from project.lib import clock, gate
from project.people.models import User
from tests import builders
from tests.handlers import work
from tests.nodding import Shop, carry_out, changed_kind, handling, now_of, serving, settle
from tests.races.together import rounds, together
from triggers import redrive
from triggers.execute import execute
from triggers.models import DeadLetter, Event, Run, Switch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ROUNDS = rounds(6)


@pytest.fixture
def shop(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setattr(budget, "BUDGET", 10 * ROUNDS)
    with serving(tier="low") as shop, handling(trip):
        yield shop


def trip(run: Any) -> None:
    key = run.event.data["key"]
    act(run, "flight", kind="shop.order", key=key, compensate={"kind": "shop.order", "item": "no flight"})
    run.wait_for("the guest", type="guest.came", source="*")


def start(key: str) -> Run:
    run = builders.run("story", event=builders.event(data={"key": key}))
    work()
    return now_of(run)


def waiting(key: str) -> Action:
    """An action that is approved and has not started."""
    changed_kind(take_back=timedelta(seconds=0))
    run = builders.run("story", event=builders.event(data={"key": key}))
    Switch.objects.create(scope="kind", name="shop.order", paused=True, at=clock.now())
    execute(run.pk)
    Switch.objects.all().delete()
    return Action.objects.get(key=key)


def undone(shop: Shop, key: str) -> int:
    return sum(sent.startswith(f"{key}/undo/") for sent in shop.sent)


def test_a_late_truth_and_the_end_of_its_lease(shop: Shop) -> None:
    """Whoever is first: it was delivered, and the run was told once."""
    for number in range(ROUNDS):
        action = waiting(f"l{number}")
        attempt = deliver.start(action.pk, 0)
        assert attempt is not None
        Action.objects.filter(pk=action.pk).update(leased_until=clock.now() - timedelta(seconds=1))
        together(
            lambda: outcomes.record(attempt, Outcome("delivered", {"cups": 1})),
            lambda: outcomes.presume_lost(action.pk),
        )
        assert now_of(action).status == "delivered"
        told = Event.objects.filter(type="approvals.action.settled", subject=f"actions/{action.pk}")
        assert told.count() == 1


def test_two_deliveries_of_one_action_call_once(shop: Shop) -> None:
    for number in range(ROUNDS):
        action = waiting(f"d{number}")
        together(lambda: deliver.deliver(action.pk), lambda: deliver.deliver(action.pk))
        assert (shop.sent.count(f"d{number}"), Attempt.objects.filter(action=action).count()) == (1, 1)
        assert now_of(action).status == "delivered"


def test_a_delivery_and_a_switch(shop: Shop) -> None:
    """After the commit of whoever throws it nothing starts."""

    def throw() -> int:
        with transaction.atomic():
            gate.exclusive()
            Switch.objects.create(scope="all", paused=True, at=clock.now())
            return Attempt.objects.count()

    for number in range(ROUNDS):
        action = waiting(f"s{number}")
        started, _ = together(throw, lambda: deliver.deliver(action.pk))
        assert Attempt.objects.count() == started
        Switch.objects.all().delete()
        settle()
        assert shop.sent.count(f"s{number}") == 1


def test_two_ticks_undo_once(shop: Shop) -> None:
    for number in range(ROUNDS):
        run = start(f"u{number}")
        redrive.cancel(run, by=None)
        for _ in range(3):
            together(lambda: undoing.go_on(run.pk), lambda: undoing.go_on(run.pk), carry_out)
        settle()
        assert Action.objects.filter(compensates__key=f"u{number}").count() == 1
        assert (undone(shop, f"u{number}"), Compensation.objects.get(run=run).status) == (1, "undone")


def test_two_runs_that_stand_for_one_effect_and_end_together_undo_it_once(shop: Shop) -> None:
    for number in range(ROUNDS):
        first, second = start(f"t{number}"), start(f"t{number}")
        together(lambda: redrive.cancel(first, by=None), lambda: redrive.cancel(second, by=None))
        for _ in range(3):
            together(lambda: undoing.go_on(first.pk), lambda: undoing.go_on(second.pk))
            settle()
        assert undone(shop, f"t{number}") == 1
        assert {row.status for row in Compensation.objects.filter(run__in=[first, second])} == {"undone"}


def test_a_run_that_asks_for_an_effect_while_it_begins_to_be_undone(shop: Shop) -> None:
    """It joins what then stays, or it waits and has it anew: never does it rest on something that is gone."""
    for number in range(ROUNDS):
        first = start(f"j{number}")
        second = builders.run("story", event=builders.event(data={"key": f"j{number}"}))
        together(
            lambda: (redrive.cancel(first, by=None), undoing.go_on(first.pk)),
            lambda: execute(second.pk),
        )
        for _ in range(4):
            settle()
        holder = Action.objects.get(acts__run=second)
        assert (holder.status, holder.gave_key_up) == ("delivered", False)
        kept = Compensation.objects.get(run=first).status == "kept"
        assert kept == (holder.generation == 1)
        assert now_of(second).waiting_for.startswith("guest.came")


def test_a_late_truth_and_the_round_that_would_undo_nothing(shop: Shop) -> None:
    """The effect failed, its run died, then the first try says that it had happened: it is undone, once."""
    for number in range(ROUNDS):
        action = waiting(f"f{number}")
        run = Run.objects.get(acts__action=action)
        first = deliver.start(action.pk, 0)
        Action.objects.filter(pk=action.pk).update(leased_until=clock.now() - timedelta(seconds=1))
        outcomes.presume_lost(action.pk)
        Action.objects.filter(pk=action.pk).update(not_before=clock.now())
        second = deliver.start(action.pk, 1)
        assert first is not None
        assert second is not None
        outcomes.record(second, Outcome("failed", error={"type": "Refused", "message": "422"}))
        work()
        assert now_of(run).status == "dead"
        together(
            lambda: outcomes.record(first, Outcome("delivered", {"cups": 1})),
            lambda: undoing.go_on(run.pk),
        )
        for _ in range(4):
            settle()
        assert Compensation.objects.get(run=run).status == "undone"
        assert undone(shop, f"f{number}") == 1


def test_a_late_truth_about_an_undoing_and_whoever_has_it_asked_for_again(shop: Shop, owner: User) -> None:
    """Both hold the action before its letter, so neither waits for the other in a circle."""
    changed_kind(safety="unsafe")
    for number in range(ROUNDS):
        redrive.cancel(start(f"w{number}"), by=None)
        undoing.tick()
        undo = Action.objects.get(compensates__key=f"w{number}")
        attempt = deliver.start(undo.pk, 0)
        assert attempt is not None
        outcomes.record(attempt, Outcome("unknown", error={"type": "Timeout", "message": "no answer"}))
        clearing.settle_unknown(now_of(undo), by=owner, status="failed", note="nobody knows")
        undoing.tick()
        letter = DeadLetter.objects.get(action_id=undo.pk)
        together(
            lambda: outcomes.record(attempt, Outcome("delivered", {"cups": 1})),
            lambda: redrive.redrive(letter, by=owner, send_again=["undo flight"]),
        )
        assert now_of(undo).status == "delivered"
        assert DeadLetter.objects.get(pk=letter.pk).status != "open"
