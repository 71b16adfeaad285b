"""What a run did is undone when it fails or is cancelled: the last first, one at a time, once; only what happened."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from approvals import clearing, deliver, undoing
from approvals.act import Rejected, act, ask
from approvals.errors import KeyTaken, NotSent, OutcomeUnknown, Refused, SelfApproval
from approvals.models import Action, Compensation, Connection
from approvals.outcomes import Outcome, record
from approvals.tiers import Tier
from project.lib import clock, failpoints
from tests import builders
from tests.conftest import person
from tests.handlers import work
from tests.nodding import Order, Shop, carry_out, changed_kind, handling, now_of, say, serving, settle
from triggers import redrive
from triggers.errors import NotValid, Permanent
from triggers.models import Audit, DeadLetter, Event, Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def shop(connection: Connection) -> Iterator[Shop]:
    with serving(tier="low") as shop:
        yield shop


def order(run: Any, item: str, **more: Any) -> Any:
    undo = {"kind": "shop.order", "item": f"no {item}", "key": f"cancel {item}"}
    return act(run, item, kind="shop.order", item=item, key=item, **{"compensate": undo, **more})


def trip(run: Any) -> Any:
    """Flight and hotel; then whatever the event says."""
    order(run, "flight")
    order(run, "hotel")
    if run.event.data.get("then") == "sleep":
        run.wait_for("the guest", type="guest.came", source="*")
    if run.event.data.get("then") == "ask":
        ask(run, "pay", "Who pays?")
    if run.event.data.get("then") == "fail":
        raise Permanent("the guest does not come")
    return "done"


@pytest.fixture
def story(shop: Shop) -> Iterator[Shop]:
    with handling(trip):
        yield shop


def start(then: str = "") -> Run:
    run = builders.run("story", event=builders.event(data={"then": then}))
    work()
    return now_of(run)


def rounds(later: Callable[..., None] | None = None, count: int = 4) -> None:
    for _ in range(count):
        carry_out()
        settle()
        if later:
            later(seconds=11)


def ticks(count: int) -> None:
    for _ in range(count):
        carry_out()


def items(shop: Shop) -> list[str]:
    """What reached the far side, in order, whatever it was called."""
    return [shop.done[key].item for key in dict.fromkeys(shop.sent) if key in shop.done]


def owed() -> dict[str, str]:
    return dict(Compensation.objects.order_by("pk").values_list("act__name", "status"))


class Refund(Order):
    """Like one of `act()`."""

    reason: str = ""
    key: str = ""


def test_an_argument_may_be_called_like_a_word_of_the_door(shop):
    changed_kind(arguments=Refund)
    undo = {"kind": "shop.order", "reason": "it failed", "arguments": {"item": "milk", "reason": "no tea", "key": "k"}}

    def told(run: Any) -> None:
        given = {"reason": "fraudulent", "key": "k"}
        act(run, "refund", kind="shop.order", item="tea", reason="we say so", arguments=given, compensate=undo)
        raise Permanent("later")

    with handling(told):
        start()
        rounds()
    done, undone = Action.objects.order_by("pk")
    assert (done.reason, done.arguments) == (
        "we say so",
        {"item": "tea", "cups": 1, "reason": "fraudulent", "key": "k"},
    )
    assert (undone.reason, undone.arguments["reason"], undone.arguments["key"]) == ("it failed", "no tea", "k")


def test_an_argument_is_said_once(shop):
    with handling(lambda run: act(run, "x", kind="shop.order", item="tea", arguments={"item": "milk"})):
        run = start()
    assert (run.status, run.error["message"]) == ("dead", "shop.order: item: said twice, in `arguments` and beside it")


class TestLastInFirstOut:
    def test_on_failure(self, story):
        run = start("fail")
        assert (run.status, owed()) == ("dead", {"flight": "due", "hotel": "due"})
        rounds()
        assert items(story) == ["flight", "hotel", "no hotel", "no flight"]
        assert owed() == {"flight": "undone", "hotel": "undone"}
        assert now_of(run).status == "dead"

    def test_on_cancel(self, story, owner):
        run = start("sleep")
        redrive.cancel(run, by=owner)
        rounds()
        assert items(story) == ["flight", "hotel", "no hotel", "no flight"]

    def test_when_a_later_act_is_rejected(self, story, ben):
        run = start("ask")
        say(Action.objects.get(kind="human.question"), ben, "reject")
        rounds()
        assert (now_of(run).status, now_of(run).reason) == ("cancelled", "rejected")
        assert items(story) == ["flight", "hotel", "no hotel", "no flight"]

    def test_not_after_success(self, story):
        run = start()
        rounds()
        assert (run.status, items(story)) == ("succeeded", ["flight", "hotel"])
        assert owed() == {"flight": "dropped", "hotel": "dropped"}

    def test_each_only_after_the_one_before_has_settled(self, story, later):
        run = start("sleep")
        story.faults = [NotSent("down")]
        redrive.cancel(run, by=None)
        ticks(2)
        assert items(story) == ["flight", "hotel"]
        assert owed() == {"flight": "due", "hotel": "asked"}
        later(seconds=2)
        rounds()
        assert items(story) == ["flight", "hotel", "no hotel", "no flight"]

    def test_what_never_happened_is_dropped_without_a_look_at_its_target(self, story):
        def nobody(far: Any, order: Any) -> None:
            raise NotSent("down")

        story.faults = [None, Refused("no room")]
        start()
        changed_kind(current=nobody)
        ticks(1)
        assert owed() == {"flight": "due", "hotel": "dropped"}


class TestItsOwnAction:
    """What undoes is an action like any other: with a tier, a key, a dead letter, and a line on every page."""

    def test_says_what_it_undoes_and_has_a_key_of_its_own(self, story):
        run = start("fail")
        rounds()
        hotel, undo = Action.objects.get(key="hotel"), Action.objects.get(key__startswith="cancel hotel")
        assert (undo.compensates, undo.run, undo.step, undo.key) == (
            hotel,
            run,
            "undo hotel",
            f"cancel hotel/undo/A-{hotel.pk}",
        )
        assert f"Undoes A-{hotel.pk}" in undo.reason
        assert Audit.objects.filter(kind="action", ref=str(hotel.pk), verb="undo").exists()

    def test_a_high_one_waits_for_a_person_who_did_not_cancel(self, story, ann, ben, high_has_its_rule):
        run = start("sleep")
        changed_kind(tier=Tier.HIGH)
        redrive.cancel(run, by=ann)
        rounds()
        undo = Action.objects.get(compensates__key="hotel")
        assert (undo.status, undo.requester_chain) == ("awaiting", [ann.pk])
        assert items(story) == ["flight", "hotel"]
        say(undo, ben, stepped_up=True, reason="it must go")
        rounds()
        assert items(story) == ["flight", "hotel", "no hotel"]
        assert Action.objects.get(compensates__key="flight").status == "awaiting"

    def test_whoever_asked_a_running_one_to_end_is_behind_what_undoes_it(self, shop, ann):
        def asked_to_go(run: Any) -> None:
            order(run, "flight")
            redrive.cancel(run.row, by=ann)
            run.step("on", lambda: None)

        with handling(asked_to_go):
            run = builders.run("story")
            work()
            assert (now_of(run).status, now_of(run).ended_by) == ("cancelled", ann)
            changed_kind(tier=Tier.HIGH)
            rounds()
        assert Action.objects.get(compensates__key="flight").requester_chain == [ann.pk]

    def test_a_no_of_a_person_keeps_the_effect_and_the_next_one_goes_on(self, story, ben):
        run = start("sleep")
        changed_kind(tier=Tier.MEDIUM)
        redrive.cancel(run, by=None)
        rounds()
        changed_kind(tier=Tier.LOW)
        say(Action.objects.get(compensates__key="hotel"), ben, "reject")
        rounds()
        assert owed() == {"flight": "undone", "hotel": "kept"}
        assert not DeadLetter.objects.exists()

    def test_one_that_fails_has_a_dead_letter_and_can_be_tried_again(self, story, owner):
        run = start("sleep")
        story.faults = [Refused("422")]
        redrive.cancel(run, by=None)
        rounds()
        assert owed() == {"flight": "undone", "hotel": "kept"}
        letter = DeadLetter.objects.get()
        assert (letter.kind, letter.action_id) == ("action", Action.objects.get(status="failed").pk)
        again = redrive.redrive(letter, by=owner)
        assert again == run, "no second run: the undoing goes on"
        rounds()
        assert items(story) == ["flight", "hotel", "no flight", "no hotel"]
        assert owed() == {"flight": "undone", "hotel": "undone"}
        assert Run.objects.count() == 1

    def test_one_that_may_have_happened_is_asked_again_only_with_send_again(self, story, owner, ann):
        run = start("sleep")
        changed_kind(safety="unsafe")
        story.faults = [OutcomeUnknown("timeout")]
        redrive.cancel(run, by=None)
        rounds()
        undo = Action.objects.get(compensates__key="hotel")
        assert (undo.status, owed()["flight"]) == ("unknown", "due"), "the next one waits for its outcome"
        clearing.settle_unknown(undo, by=ann, status="failed", note="nobody knows")
        rounds()
        letter = DeadLetter.objects.get()
        with pytest.raises(NotValid, match="send again"):
            redrive.redrive(letter, by=owner)
        redrive.redrive(letter, by=owner, send_again=["undo hotel"])
        rounds()
        assert owed() == {"flight": "undone", "hotel": "undone"}

    def test_whoever_has_it_asked_for_again_has_asked_for_it(self, story, ann, ben):
        run = start("sleep")
        changed_kind(tier=Tier.MEDIUM)
        redrive.cancel(run, by=None)
        rounds()
        story.faults = [Refused("422")]
        for item in ("hotel", "flight"):
            say(Action.objects.get(compensates__key=item), ben)
            rounds()
        redrive.redrive(DeadLetter.objects.get(), by=ann)
        rounds()
        again = Action.objects.get(compensates__key="hotel", status="awaiting")
        assert again.requester_chain == [ann.pk]
        with pytest.raises(SelfApproval):
            say(again, ann)

    def test_on_high_only_a_reviewer_has_it_done_what_may_be_twice(self, story, owner, ann):
        run = start("sleep")
        changed_kind(safety="unsafe", tier=Tier.LOW)
        story.faults = [OutcomeUnknown("timeout")]
        redrive.cancel(run, by=None)
        rounds()
        undo = Action.objects.get(compensates__key="hotel")
        clearing.settle_unknown(undo, by=ann, status="failed", note="nobody knows")
        rounds()
        Action.objects.filter(pk=undo.pk).update(tier="high")
        operator = person("otto", "viewer", "operator")
        with pytest.raises(KeyTaken, match="only a reviewer"):
            redrive.redrive(DeadLetter.objects.get(), by=operator, send_again=["undo hotel"])
        assert DeadLetter.objects.get().status == "open"

    def test_one_that_cannot_even_be_asked_for_says_so(self, story, connection, owner):
        run = start("sleep")
        Connection.objects.update(archived_at=clock.now())
        redrive.cancel(run, by=None)
        rounds()
        assert owed() == {"flight": "kept", "hotel": "kept"}
        letter = DeadLetter.objects.get(action_id=Action.objects.get(key="hotel").pk)
        assert letter.error_type == "NotUndone"
        assert "no connection" in letter.message
        Connection.objects.update(archived_at=None)
        redrive.redrive(letter, by=owner)
        rounds()
        assert owed() == {"flight": "kept", "hotel": "undone"}

    def test_one_that_nobody_decides_in_time_is_told(self, story, later):
        run = start("sleep")
        changed_kind(tier=Tier.MEDIUM)
        redrive.cancel(run, by=None)
        rounds()
        changed_kind(tier=Tier.LOW)
        later(days=1, seconds=1)
        rounds()
        assert owed() == {"flight": "undone", "hotel": "kept"}
        assert DeadLetter.objects.get().action_id == Action.objects.get(key="hotel").pk


class TestWhatIsNotUndone:
    def test_what_never_happened(self, story, ben):
        changed_kind(tier=Tier.MEDIUM)
        run = start()
        redrive.cancel(run, by=None)
        rounds()
        assert (items(story), owed()) == ([], {"flight": "dropped"})

    def test_an_unknown_effect_before_its_outcome_is_settled(self, story, ann):
        changed_kind(safety="unsafe")
        story.faults = [None, OutcomeUnknown("timeout")]
        run = start("sleep")
        redrive.cancel(run, by=None)
        rounds()
        assert owed() == {"flight": "due", "hotel": "due"}
        assert not Action.objects.exclude(compensates=None).exists()
        clearing.settle_unknown(Action.objects.get(key="hotel"), by=ann, status="delivered", note="I saw it")
        rounds()
        assert items(story) == ["flight", "hotel", "no hotel", "no flight"]

    def test_one_whose_outcome_was_given_up(self, story, ann):
        changed_kind(safety="unsafe")
        story.faults = [None, OutcomeUnknown("timeout")]
        run = start("sleep")
        clearing.settle_unknown(Action.objects.get(key="hotel"), by=ann, status="failed", note="nobody knows")
        rounds()
        assert now_of(run).status == "dead"
        assert owed() == {"flight": "undone", "hotel": "kept"}

    def test_until_a_late_truth_says_that_it_happened(self, story, ann):
        changed_kind(safety="unsafe")
        story.faults = [None, OutcomeUnknown("timeout")]
        start("sleep")
        hotel = Action.objects.get(key="hotel")
        clearing.settle_unknown(hotel, by=ann, status="failed", note="nobody knows")
        rounds()
        record(hotel.attempts.get(), Outcome("delivered", {"cups": 1}))
        rounds()
        assert owed() == {"flight": "undone", "hotel": "undone"}
        assert items(story)[-1] == "no hotel"

    def test_what_another_run_relies_on(self, story):
        first, second = start("sleep"), start("sleep")
        assert items(story) == ["flight", "hotel"], "the second joined"
        redrive.cancel(first, by=None)
        rounds()
        assert set(Compensation.objects.filter(run=first).values_list("status", "why")) == {
            ("kept", f"R-{second.pk} relies on it")
        }
        redrive.cancel(second, by=None)
        rounds()
        assert items(story) == ["flight", "hotel", "no hotel", "no flight"], "with the last of them it goes"

    def test_by_the_first_of_two_runs_that_fail_together_and_by_the_other_not_again(self, story):
        for run in (start("sleep"), start("sleep")):
            redrive.cancel(run, by=None)
        rounds()
        assert items(story) == ["flight", "hotel", "no hotel", "no flight"]
        assert {row.status for row in Compensation.objects.all()} == {"undone"}


class TestWrittenDown:
    """It is stored before it is needed: a crash cannot lose it, and code that comes later does not change it."""

    def test_code_that_comes_later_changes_nothing(self, story):
        run = start("sleep")

        def other(durable: Any) -> Any:
            order(durable, "flight", compensate={"kind": "shop.order", "item": "party"})
            order(durable, "hotel", compensate=lambda result: {"kind": "shop.order", "item": "party"})
            raise Permanent("no")

        with handling(other, "other"):
            Run.objects.filter(pk=run.pk).update(handler="other", status="queued", due_at=clock.now())
            work()
        rounds()
        assert items(story) == ["flight", "hotel", "no hotel", "no flight"]

    def test_a_function_of_the_result_is_asked_when_the_run_learns_of_it(self, shop):
        def undo(effect: Any) -> dict[str, Any]:
            told.append(effect)
            return {"kind": "shop.order", "item": "tea back", "cups": effect["cups"] + effect.arguments["cups"]}

        told: list[Any] = []
        with handling(lambda run: (act(run, "tea", kind="shop.order", cups=2, compensate=undo), 1 / 0)):
            run = start()
            for _ in range(4):
                Run.objects.filter(pk=run.pk, status="retrying").update(due_at=clock.now())
                work()
        rounds()
        assert now_of(run).status == "dead"
        assert len(told) == 1, "replays do not ask it again"
        assert list(shop.done.values())[-1].cups == 4

    def test_a_function_that_says_nothing_leaves_nothing_to_undo(self, shop):
        with handling(lambda run: (act(run, "tea", kind="shop.order", compensate=lambda effect: None), 1 / 0)):
            start()
        assert owed() == {"tea": "dropped"}

    def test_a_function_that_was_never_asked_is_said(self, shop, ben, later):
        """The run was cancelled while its effect was under way: nobody is left who could ask it."""
        changed_kind(tier=Tier.MEDIUM)
        with handling(lambda run: act(run, "tea", kind="shop.order", compensate=lambda effect: {"kind": "shop.order"})):
            run = start()
            action = Action.objects.get()
            say(action, ben)
            attempt = deliver.start(action.pk, 0)
            redrive.cancel(run, by=None)
            assert attempt is not None
            record(attempt, deliver.call(attempt))
            rounds()
        assert owed() == {"tea": "kept"}
        assert "before its handler said how" in DeadLetter.objects.get().message

    @pytest.mark.parametrize(
        ("undo", "error"),
        [
            ({"kind": "shop.nothing"}, "UnknownKind"),
            ({"kind": "shop.order", "connection": "nope"}, "NoConnection"),
            ({"kind": "shop.order", "cups": "many"}, "Permanent"),
            ({"item": "no tea"}, "UnknownKind"),
        ],
    )
    def test_one_that_could_not_run_is_refused_before_anything_happens(self, shop, undo, error):
        with handling(lambda run: act(run, "tea", kind="shop.order", compensate=undo)):
            run = start()
        assert (run.status, run.error["type"], shop.sent) == ("dead", error, [])

    def test_credentials_in_it_are_stored_sealed_and_hidden_on_its_card(self, shop):
        builders.connection("http")
        headers = {"Authorization": "SECRET-123"}
        undo = {"kind": "http.request", "url": "https://shop.example/x", "headers": headers}
        with handling(lambda run: (act(run, "tea", kind="shop.order", compensate=undo), 1 / 0)):
            run = start()
            redrive.cancel(run, by=None)
            rounds()
        assert "SECRET" not in Compensation.objects.get().sealed_wish
        action = Action.objects.get(kind="http.request")
        assert "SECRET" not in action.canonical
        assert action.sent_arguments["headers"] == headers


EFFECT = ("after_delivering_commit", "before_call", "after_call", "before_outcome_commit", "after_outcome")


class TestOnce:
    @pytest.mark.parametrize("at", EFFECT)
    def test_a_crash_at_any_point_undoes_once(self, story, owner, later, monkeypatch, at):
        class Gone(BaseException):
            pass

        def reached(name: str) -> None:
            if name == at:
                monkeypatch.setattr(failpoints, "reached", None)
                raise Gone

        redrive.cancel(start("sleep"), by=owner)
        monkeypatch.setattr(failpoints, "reached", reached)
        with pytest.raises(Gone):
            ticks(3)
        for _ in range(8):
            later(seconds=23)
            settle()
        assert items(story) == ["flight", "hotel", "no hotel", "no flight"]
        assert owed() == {"flight": "undone", "hotel": "undone"}
        assert all(count <= 2 for count in map(story.sent.count, story.sent))

    def test_the_database_itself_forbids_a_second_one(self, story):
        start("fail")
        rounds()
        undo = Action.objects.get(compensates__key="hotel")
        undo.pk, undo.key = None, "another key"
        with pytest.raises(IntegrityError), transaction.atomic():
            undo.save(force_insert=True)

    def test_rounds_that_come_later_find_nothing_to_do(self, story):
        run = start("fail")
        rounds()
        sent = list(story.sent)
        assert undoing.go_on(run.pk) == 0
        rounds()
        assert story.sent == sent


class TestRunAgain:
    def test_asks_anew_under_the_next_generation(self, story, owner):
        run = start("fail")
        rounds()
        Event.objects.filter(pk=run.event_id).update(data_json='{"then": ""}', raw=None)
        again = redrive.redrive(DeadLetter.objects.get(kind="run"), by=owner)
        rounds()
        assert again is not None
        assert now_of(again).status == "succeeded"
        assert story.sent[-2:] == ["flight.g2", "hotel.g2"]

    def test_while_it_is_being_undone_waits_for_the_end_of_it(self, story, owner, later):
        run = start("sleep")
        story.faults = [NotSent("down")]
        redrive.cancel(run, by=owner)
        ticks(2)
        again = redrive.rerun(now_of(run), by=owner)
        settle()
        assert now_of(again).status == "waiting"
        assert now_of(again).waiting_for.startswith("approvals.action.undoing_ended")
        later(seconds=2)
        rounds()
        assert story.sent[-2:] == ["flight.g2", "hotel.g2"]
        redrive.cancel(now_of(again), by=owner)
        rounds()
        assert items(story)[-2:] == ["no hotel", "no flight"], "what was done anew is undone anew"
        assert owed_of(again) == {"flight": "undone", "hotel": "undone"}

    def test_keeps_what_could_not_be_undone(self, story, ben, owner):
        run = start("sleep")
        changed_kind(tier=Tier.MEDIUM)
        redrive.cancel(run, by=owner)
        for _ in range(2):
            rounds()
            say(Action.objects.get(status="awaiting"), ben, "reject")
        rounds()
        assert owed() == {"flight": "kept", "hotel": "kept"}
        again = redrive.rerun(now_of(run), by=owner)
        settle()
        assert (now_of(again).status, len(story.sent)) == ("waiting", 2), "it has joined what stands"
        assert "guest.came" in now_of(again).waiting_for

    def test_from_a_step_keeps_nothing_that_rests_on_what_is_undone(self, shop, owner):
        def rest(run: Any) -> Any:
            run.step("before", lambda: 1)
            order(run, "flight")
            run.step("after", lambda: 2)
            run.step("broken", lambda: 1 / 0)

        with handling(rest):
            run = start()
            for _ in range(4):
                Run.objects.filter(pk=run.pk, status="retrying").update(due_at=clock.now())
                work()
            rounds()
            again = redrive.redrive(DeadLetter.objects.get(kind="run"), by=owner)
        assert again is not None
        assert list(again.steps.values_list("name", flat=True)) == ["before"]


def owed_of(run: Run) -> dict[str, str]:
    return dict(Compensation.objects.filter(run=run).values_list("act__name", "status"))


class TestOnThePages:
    @pytest.fixture
    def cancelled(self, story, ann) -> Run:
        run = start("sleep")
        changed_kind(tier=Tier.MEDIUM)
        redrive.cancel(run, by=ann)
        settle()
        return now_of(run)

    def test_the_run_says_how_many_effects_are_being_undone_with_links(self, cancelled, ann, sign_in):
        page = sign_in(ann).get(f"/runs/{cancelled.pk}").content.decode()
        hotel, undo = Action.objects.get(key="hotel"), Action.objects.get(compensates__key="hotel")
        assert "2 effects are being undone" in page
        assert f'href="/actions/{hotel.pk}"' in page
        assert f'href="/actions/{undo.pk}"' in page

    def test_it_says_what_became_of_them(self, cancelled, ann, ben, sign_in):
        say(Action.objects.get(status="awaiting"), ben, "reject")
        changed_kind(tier=Tier.LOW)
        rounds()
        page = sign_in(ann).get(f"/runs/{cancelled.pk}").content.decode()
        assert "being undone" not in page
        assert "1 effect was undone, 1 was kept" in page

    def test_each_action_says_what_it_has_to_do_with_the_other(self, cancelled, ann, sign_in):
        hotel, undo = Action.objects.get(key="hotel"), Action.objects.get(compensates__key="hotel")
        assert f'Undoes <a href="/actions/{hotel.pk}"' in sign_in(ann).get(f"/actions/{undo.pk}").content.decode()
        assert f"/actions/{undo.pk}" in sign_in(ann).get(f"/actions/{hotel.pk}").content.decode()

    def test_the_api_says_what_an_action_compensates(self, cancelled, ann, with_token):
        reader = with_token(ann, "read")
        hotel, undo = Action.objects.get(key="hotel"), Action.objects.get(compensates__key="hotel")
        rows = reader.get(f"/api/v1/runs/{cancelled.pk}").json()["actions"]
        assert {row["id"]: row["compensates"] for row in rows}[undo.pk] == hotel.pk
        assert reader.get(f"/api/v1/actions/{undo.pk}").json()["compensates"] == hotel.pk


def test_a_handler_that_catches_the_no_undoes_nothing(shop, ben):
    def careful(run: Any) -> Any:
        order(run, "flight")
        changed_kind(tier=Tier.MEDIUM)
        try:
            act(run, "bill", kind="shop.order", item="bill", key="bill")
        except Rejected:
            return "without"

    with handling(careful):
        run = start()
        say(Action.objects.get(key="bill"), ben, "reject")
        rounds()
    assert (now_of(run).result, owed()) == ("without", {"flight": "dropped"})
