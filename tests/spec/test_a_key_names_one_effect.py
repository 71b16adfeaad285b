"""A key names an effect in business words: asked for twice it happens once, and each run gets the one result."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from approvals import budget, clearing, deliver, propose
from approvals.act import act
from approvals.errors import NotSent, NotValid, OutcomeUnknown, Refused
from approvals.models import Action
from approvals.tiers import Tier
from project.lib import clock
from project.people import roles
from tests import builders
from tests.conftest import person
from tests.handlers import work
from tests.nodding import Shop, changed_kind, handling, now_of, say, serving, settle
from triggers import redrive
from triggers.models import DeadLetter, Run
from triggers.unblock import unblock

pytestmark = pytest.mark.django_db


@pytest.fixture
def shop(connection) -> Iterator[Shop]:
    with serving() as shop:
        yield shop


def order(run: Any) -> Any:
    """Orders what its event says; `key` null makes the key from the run."""
    return act(run, "order tea", kind="shop.order", **{"key": "order-7", **run.event.data})


@pytest.fixture
def story(shop) -> Iterator[None]:
    with handling(order):
        yield


def ask(**data: Any) -> Run:
    run = builders.run("story", event=builders.event(data=data))
    work()
    return now_of(run)


def test_an_equal_act_of_another_run_joins_and_gets_the_result(story, shop, ben):
    first, second = ask(cups=2), ask(cups=2)
    action = Action.objects.get()
    say(action, ben)
    settle()
    assert shop.sent == ["order-7"]
    assert now_of(first).result == now_of(second).result == {"cups": 2, "key": "order-7"}
    assert ask(cups=2).result == {"cups": 2, "key": "order-7"}, "also long after it was delivered"


def test_another_effect_under_the_same_key_is_refused(story):
    ask(cups=2)
    second = ask(cups=3)
    assert (second.status, second.error["type"]) == ("dead", "KeyTaken")


def test_two_kinds_may_use_one_key(story, shop, connection):
    builders.connection("github")
    ask(cups=2)
    with handling(
        lambda run: act(run, "say", kind="github.comment", key="order-7", repo="a/b", number=1, body="x"), "b"
    ):
        builders.run("b")
        work()
    assert {action.kind for action in Action.objects.filter(key="order-7")} == {"shop.order", "github.comment"}


def test_asking_again_after_a_no_is_a_new_row_with_the_next_generation(story, shop, ben):
    ask(cups=2)
    say(Action.objects.get(), ben, "reject")
    settle()
    ask(cups=3)
    second = Action.objects.get(generation=2)
    say(second, ben)
    settle()
    assert shop.sent == ["order-7.g2"]


def test_after_three_noes_in_a_day_it_is_rejected_at_once(story, ben, later):
    for _ in range(3):
        ask(cups=2)
        say(Action.objects.get(status="awaiting"), ben, "reject")
        settle()
    fourth = ask(cups=2)
    assert (fourth.status, fourth.reason, Action.objects.count()) == ("cancelled", "rejected", 3)
    assert "asked_enough" in fourth.error["message"]
    later(days=1, minutes=1)
    ask(cups=2)
    assert Action.objects.filter(status="awaiting").count() == 1


def test_the_database_itself_holds_a_key_once(story, shop):
    ask(cups=2)
    action = Action.objects.get()
    action.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        action.save(force_insert=True)


class TestWithoutAKey:
    """The key is made from the first run and the act's name, so a re-run repeats nothing."""

    def test_running_again_gives_the_first_result(self, story, shop, ben, owner):
        run = ask(cups=2, key=None)
        say(Action.objects.get(), ben)
        settle()
        again = redrive.rerun(now_of(run), by=owner)
        settle()
        assert len(shop.sent) == 1
        assert now_of(again).result == now_of(run).result

    def test_a_person_who_ticks_send_again_makes_it_happen_again(self, story, shop, ben, owner):
        run = ask(cups=2, key=None)
        say(Action.objects.get(), ben)
        settle()
        redrive.rerun(now_of(run), by=owner, send_again=["order tea"])
        settle()
        second = Action.objects.get(generation=2)
        assert (second.status, len(shop.sent)) == ("awaiting", 1), "it is asked again"
        say(second, ben)
        settle()
        assert shop.sent == [f"R-{run.pk}/order tea", f"R-{run.pk}/order tea.g2"]

    @pytest.mark.usefixtures("high_has_its_rule")
    @pytest.mark.parametrize("who", [None, "otto", "ann"])
    def test_on_high_only_a_reviewer_who_did_not_ask_may_tick_it(self, story, shop, ben, ann, who):
        """An operator alone, the desk itself, and whoever asked for the first one may not; Ben, who reviews, may."""
        changed_kind(tier=Tier.HIGH)
        run = ask(cups=2, key=None)
        Action.objects.update(requester_chain=[ann.pk])
        say(Action.objects.get(), ben, stepped_up=True, reason="it is due")
        settle()
        by = {"otto": lambda: person("otto", roles.OPERATOR), "ann": lambda: ann}.get(who, lambda: None)()
        refused = redrive.rerun(now_of(run), by=by, send_again=["order tea"])
        settle()
        assert (now_of(refused).status, now_of(refused).error["type"]) == ("dead", "KeyTaken")
        assert Action.objects.count() == len(shop.sent) == 1
        redrive.rerun(now_of(run), by=ben, send_again=["order tea"])
        settle()
        assert Action.objects.get(status="awaiting").generation == 2

    def test_delivered_and_then_asked_otherwise_blocks_until_a_person_chooses(self, story, shop, ben, owner):
        run = ask(cups=2, key=None)
        say(Action.objects.get(), ben)
        settle()
        again = redrive.rerun(now_of(run), by=owner, data={"cups": 3, "key": None})
        settle()
        assert (now_of(again).status, len(shop.sent)) == ("blocked", 1)
        unblock(now_of(again), by=owner, choice="continue")
        settle()
        assert now_of(again).result["cups"] == 2, "the first result is kept"
        assert len(shop.sent) == 1

    def test_a_re_run_replaces_what_still_waits(self, story, shop, owner, ben):
        """The run is gone, but somebody else's still waits: at the same place the newer wish wins."""
        first = ask(cups=2, key=None)
        joined = Action.objects.get()
        now = clock.now()
        Run.objects.filter(pk=first.pk).update(status="dead", finished_at=now)
        again = redrive.rerun(now_of(first), by=owner, data={"cups": 3, "key": None})
        settle()
        assert now_of(joined).status == "superseded"
        assert (Action.objects.get(status="awaiting").arguments["cups"], now_of(again).status) == (3, "waiting")


class TestUnclearFailure:
    """I4: what may have happened keeps its key; asking anew needs `send_again`."""

    @pytest.fixture
    def given_up(self, story, shop, ben, ann) -> Run:
        changed_kind(safety="unsafe")
        shop.faults = [OutcomeUnknown("timeout")]
        run = ask(cups=2)
        say(Action.objects.get(), ben)
        settle()
        clearing.settle_unknown(Action.objects.get(), by=ann, status="failed", note="nobody knows")
        settle()
        return now_of(run)

    def test_a_redrive_does_not_repeat_it(self, given_up, shop, owner):
        letter = DeadLetter.objects.get(status="open")
        again = redrive.redrive(letter, by=owner)
        settle()
        assert (now_of(again).status, len(shop.sent), Action.objects.count()) == ("dead", 1, 1)

    def test_a_redrive_with_send_again_asks_anew(self, given_up, shop, owner):
        redrive.redrive(DeadLetter.objects.get(status="open"), by=owner, send_again=["order tea"])
        settle()
        assert Action.objects.get(status="awaiting").generation == 2


def test_a_clear_failure_frees_the_key_for_a_redrive(story, shop, ben, owner):
    shop.faults = [Refused("422")]
    ask(cups=2)
    say(Action.objects.get(), ben)
    settle()
    redrive.redrive(DeadLetter.objects.get(), by=owner)
    settle()
    say(Action.objects.get(status="awaiting"), ben)
    settle()
    assert shop.sent == ["order-7", "order-7.g2"]


class TestTheEndOfARun:
    """I6: a run takes only its own wishes with it."""

    def test_withdraws_what_nobody_else_waits_for(self, story, owner):
        run = ask(cups=2)
        redrive.cancel(run, by=owner)
        assert (Action.objects.get().status, Action.objects.get().reason_code) == ("cancelled", "run_ended")

    def test_leaves_what_another_run_waits_for(self, story, shop, owner, ben):
        first, second = ask(cups=2), ask(cups=2)
        redrive.cancel(first, by=owner)
        assert Action.objects.get().status == "awaiting"
        say(Action.objects.get(), ben)
        settle()
        assert (now_of(second).status, len(shop.sent)) == ("succeeded", 1)

    def test_the_last_one_to_leave_withdraws_it(self, story, owner):
        for run in (ask(cups=2), ask(cups=2)):
            redrive.cancel(run, by=owner)
        assert Action.objects.get().status == "cancelled"

    def test_whoever_joins_has_asked_for_it_too(self, story, owner, ben):
        ask(cups=2)
        builders.run("story", event=builders.event(data={"cups": 2}), requester=ben)
        work()
        assert Action.objects.get().requester_chain == [ben.pk]


class TestReplays:
    def test_code_that_asks_for_something_else_than_people_were_shown_blocks(self, shop, ben, owner):
        cups = [2]

        def changing(run: Any) -> Any:
            return act(run, "order tea", kind="shop.order", key="k", cups=cups[0])

        with handling(changing):
            run = ask()
            cups[0] = 3
            Run.objects.filter(pk=run.pk).update(status="queued", due_at=clock.now())
            settle()
            assert (now_of(run).status, Action.objects.get().arguments["cups"]) == ("blocked", 2)
            unblock(now_of(run), by=owner, choice="continue")
            settle()
            assert Action.objects.get(status="awaiting").arguments["cups"] == 3
            assert Action.objects.filter(status="superseded").count() == 1

    def test_what_is_asked_for_after_continue_must_fit_its_connection(self, shop, owner):
        """Whether it fits was asked of what people were shown, not of this."""
        cups = [2]

        def fits(config: Any, has_secrets: bool, order: Any) -> None:
            if order.cups > 5:
                raise NotValid("This shop sells five cups at most.", field="cups")

        def changing(run: Any) -> Any:
            return act(run, "order tea", kind="shop.order", key="k", cups=cups[0])

        changed_kind(fits=fits)
        with handling(changing):
            run = ask()
            cups[0] = 6
            Run.objects.filter(pk=run.pk).update(status="queued", due_at=clock.now())
            settle()
            assert (now_of(run).status, Action.objects.get().arguments["cups"]) == ("blocked", 2)
            unblock(now_of(run), by=owner, choice="continue")
            settle()
        assert (now_of(run).status, now_of(run).error["message"]) == ("dead", "This shop sells five cups at most.")
        assert Action.objects.get().arguments["cups"] == 2, "nothing else was put before people"

    def test_a_wake_up_without_a_settled_row_waits_again(self, story, shop, ben):
        run = ask(cups=2)
        Run.objects.filter(pk=run.pk).update(status="queued", due_at=clock.now())
        settle()
        assert now_of(run).status == "waiting"
        say(Action.objects.get(), ben)
        settle()
        assert (now_of(run).status, len(shop.sent)) == ("succeeded", 1)

    def test_two_acts_of_one_name_are_refused(self, shop):
        def twice(run: Any) -> None:
            for _ in range(2):
                act(run, "same", kind="shop.order", key=None)

        changed_kind(tier=propose.Tier.LOW)
        with handling(twice):
            assert ask().error["type"] == "NameTaken"


class TestParallel:
    """AP-09: a yes to one is no yes to the other."""

    def test_only_what_was_approved_happens(self, shop, ben):
        with handling(lambda run: act(run, "del", kind="shop.order", **run.event.data)):
            ask(item="a"), ask(item="b")
            b = next(action for action in Action.objects.all() if action.arguments["item"] == "b")
            say(b, ben)
            settle()
        assert [order.item for order in shop.done.values()] == ["b"]
        assert Action.objects.get(status="awaiting").arguments["item"] == "a"

    def test_a_no_to_one_leaves_the_other_as_it_was(self, shop, ben):
        with handling(lambda run: act(run, "del", kind="shop.order", **run.event.data)):
            ask(item="a"), ask(item="b")
            first, second = Action.objects.order_by("pk")
            say(first, ben, "reject")
            settle()
            assert (now_of(first).status, now_of(second).status) == ("rejected", "awaiting")
            say(second, ben)
            settle()
        assert [order.item for order in shop.done.values()] == ["b"]


class TestLow:
    """Small writes happen at once and are reported; beyond the budget they wait for a person."""

    @pytest.fixture
    def low(self, story, shop) -> None:
        changed_kind(tier=propose.Tier.LOW)

    def test_happens_within_the_run(self, low, shop):
        run = ask(cups=2)
        assert (run.status, run.result["cups"], len(shop.sent)) == ("succeeded", 2, 1)
        assert Action.objects.get().requested_by is None

    def test_one_that_does_not_succeed_at_once_makes_the_run_wait(self, low, shop, later):
        shop.faults = [NotSent("down")]
        run = ask(cups=2)
        assert run.status == "waiting"
        later(seconds=2)
        settle()
        assert (now_of(run).status, len(shop.sent)) == ("succeeded", 2)

    def test_the_thirty_first_in_an_hour_waits_for_a_person(self, low, shop, monkeypatch):
        monkeypatch.setattr(budget, "BUDGET", 2)
        for number in range(3):
            ask(key=f"k{number}")
        assert [action.tier for action in Action.objects.order_by("pk")] == ["low", "low", "medium"]
        assert len(shop.sent) == 2

    def test_a_crash_after_the_proposal_loses_nothing(self, low, shop):
        """OB-01, OB-03: committed and then gone; tick carries it out, once."""
        run = builders.run("story", event=builders.event(data={"cups": 2}))

        class Gone(BaseException):
            pass

        def die(*_: Any) -> None:
            raise Gone

        real, deliver.deliver = deliver.deliver, die
        try:
            with pytest.raises(Gone):
                work()
        finally:
            deliver.deliver = real
        assert (Action.objects.get().status, shop.sent) == ("approved", [])
        settle()
        assert (Action.objects.get().status, len(shop.sent)) == ("delivered", 1)
        assert now_of(run).status == "running", "its lease is still held by the dead worker"


def test_a_transaction_that_is_rolled_back_has_no_effect(shop, connection):
    """OB-01: what was proposed inside it is gone with it."""
    with transaction.atomic():
        builders.action("shop.order")
        transaction.set_rollback(True)
    settle()
    assert not Action.objects.exists()
    assert shop.sent == []


class TestBeforeAnybodyIsAsked:
    @pytest.mark.parametrize(
        ("given", "error"),
        [
            ({"kind": "shop.nothing"}, "UnknownKind"),
            ({"kind": "shop.order", "connection": "nope"}, "NoConnection"),
            ({"kind": "github.comment", "repo": "a/b", "number": 1, "body": "x"}, "NoConnection"),
            ({"kind": "shop.order", "cups": "many"}, "Permanent"),
            ({"kind": "shop.order", "sugar": 1}, "Permanent"),
            ({"kind": "shop.order", "cups": 2**53}, "Permanent"),
            ({"kind": "shop.order", "item": "nul \x00"}, "Permanent"),
            ({"kind": "shop.order", "item": "half \ud800"}, "Permanent"),
            ({"kind": "shop.order", "key": ""}, "Permanent"),
            ({"kind": "shop.order", "key": "x" * 201}, "Permanent"),
            ({"kind": "shop.order", "expires": -1}, "Permanent"),
            ({"kind": "shop.order", "evidence": [{"at": object()}]}, "Permanent"),
            ({"kind": "shop.order", "evidence": [{"n": float("nan")}]}, "Permanent"),
        ],
    )
    def test_what_could_not_run_is_refused_once_and_for_all(self, shop, given, error):
        with handling(lambda run: act(run, "x", **given)):
            run = ask()
        assert (run.status, run.error["type"], run.attempt) == ("dead", error, 1)
        assert not Action.objects.exists()

    def test_reasons_and_evidence_from_outside_are_made_storable(self, shop):
        words = {"reason": "nul \x00 half \ud800", "evidence": ["nul \x00", {"text": "half \ud800", "for": True}]}
        with handling(lambda run: act(run, "x", kind="shop.order", **words)):
            assert ask().status == "waiting"
        action = Action.objects.get()
        assert action.reason == "nul \ufffd half \ufffd"
        assert action.evidence[0] == {"text": "nul \ufffd"}

    def test_a_literal_backslash_u0000_is_no_nul(self, shop):
        with handling(lambda run: act(run, "x", kind="shop.order", item="a\\u0000b")):
            assert ask().status == "waiting"
