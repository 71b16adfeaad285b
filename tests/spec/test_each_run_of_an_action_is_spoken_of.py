"""What ends with an action leaves a letter that names it: also a run that only joined that action."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from approvals import outcomes
from approvals.act import act
from approvals.errors import Refused
from approvals.models import Action, Connection
from approvals.outcomes import Outcome
from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import work
from tests.nodding import Shop, handling, now_of, say, serving, settle
from triggers import dispatch, redrive, retention
from triggers.durable import Durable
from triggers.models import DeadLetter, Event, Run

pytestmark = pytest.mark.django_db
Later = Callable[..., None]


@pytest.fixture
def shop(connection: Any) -> Iterator[Shop]:
    with serving() as shop:
        yield shop


@pytest.fixture
def story(shop: Shop) -> Iterator[None]:
    def order(run: Durable) -> Any:
        act(run, "order tea", kind="shop.order", key="order-7", cups=2)
        return run.step("ship", lambda: run.event.data["customer"])

    with handling(order):
        yield


def ask(customer: str) -> Run:
    run = builders.run("story", event=builders.event(data={"customer": customer}))
    work()
    return run


def refused(shop: Shop, ben: User, later: Later) -> None:
    shop.faults = [Refused("sold out")]
    say(Action.objects.get(), ben)
    settle()


def not_carried_out(shop: Shop, ben: User, later: Later) -> None:
    say(Action.objects.get(), ben)
    later(hours=2)
    settle()


def without_its_connection(shop: Shop, ben: User, later: Later) -> None:
    say(Action.objects.get(), ben)
    Connection.objects.update(archived_at=clock.now())
    settle()
    Connection.objects.update(archived_at=None)


@pytest.mark.parametrize("end", [refused, not_carried_out, without_its_connection])
def test_both_runs_come_back(
    story: None, shop: Shop, ben: User, owner: User, later: Later, end: Callable[..., None]
) -> None:
    runs = {ask("ann").pk, ask("bob").pk}
    end(shop, ben, later)
    assert set(DeadLetter.objects.open().values_list("run", flat=True)) == runs
    assert dispatch.bury_dead() == 0
    for letter in DeadLetter.objects.open():
        redrive.redrive(letter, by=owner)
    work()
    say(Action.objects.get(status="awaiting"), ben)
    settle()
    assert sorted(run.result for run in Run.objects.filter(status="succeeded")) == ["ann", "bob"]
    assert not DeadLetter.objects.open().exists()


def test_what_fails_again_is_the_same_letters(story: None, shop: Shop, ben: User, owner: User, later: Later) -> None:
    ask("ann"), ask("bob")
    refused(shop, ben, later)
    for letter in DeadLetter.objects.open():
        redrive.redrive(letter, by=owner)
    work()
    shop.faults = [Refused("sold out")]
    say(Action.objects.get(status="awaiting"), ben)
    settle()
    assert list(DeadLetter.objects.values_list("status", "attempts")) == [("open", 2)] * 2


def test_the_event_of_the_one_that_joined_is_kept(
    story: None, shop: Shop, ben: User, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "REST", 0)
    runs = [ask("ann"), ask("bob")]
    refused(shop, ben, later)
    later(days=40)
    retention.prune()
    assert [Event.objects.get(pk=run.event_id).pruned_at for run in runs] == [None, None]


def test_a_letter_that_was_lost_is_written_again(story: None, shop: Shop, ben: User, later: Later) -> None:
    ask("ann")
    second = ask("bob")
    refused(shop, ben, later)
    DeadLetter.objects.filter(run=second).delete()
    assert dispatch.bury_dead() == 1
    assert DeadLetter.objects.get(run=second).status == "open"


def test_what_a_person_dismissed_stays_dismissed(story: None, shop: Shop, ben: User, later: Later) -> None:
    ask("ann")
    refused(shop, ben, later)
    redrive.dismiss(DeadLetter.objects.get(), by=ben, reason="bought elsewhere")
    assert dispatch.bury_dead() == 0
    assert DeadLetter.objects.get().status == "dismissed"


class TestAfterALateTruth:
    """The letter of the action closes; the run that died of it is not forgotten with it."""

    @pytest.fixture
    def run(self, story: None, shop: Shop, ben: User, later: Later) -> Run:
        run = ask("ann")
        refused(shop, ben, later)
        return run

    def comes(self) -> None:
        outcomes.record(Action.objects.get().attempts.get(), Outcome("delivered", {"cups": 2}))
        settle()

    def test_the_run_has_a_letter_and_goes_on_with_what_was_done(self, run: Run, shop: Shop, owner: User) -> None:
        self.comes()
        of_action, own = DeadLetter.objects.order_by("pk")
        assert (of_action.status, own.status, own.run, own.kind) == ("dismissed", "open", run, "run")
        assert "delivered after all" in own.message
        again = redrive.redrive(own, by=owner)
        settle()
        assert again is not None
        assert (now_of(again).result, len(shop.sent)) == ("ann", 1)

    def test_it_has_one_also_when_it_dies_a_moment_later(self, run: Run) -> None:
        Run.objects.filter(pk=run.pk).update(status="running", leased_until=clock.now() + timedelta(minutes=1))
        self.comes()
        assert not DeadLetter.objects.open().exists()
        Run.objects.filter(pk=run.pk).update(status="dead")
        assert dispatch.bury_dead() == 1
        assert DeadLetter.objects.open().get().run == run

    def test_one_that_was_run_again_needs_none(self, run: Run, owner: User) -> None:
        redrive.rerun(now_of(run), by=owner)
        self.comes()
        assert not DeadLetter.objects.open().exists()
