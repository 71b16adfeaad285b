"""What was approved happens once, whatever breaks between us and the far side; what is unclear is called unknown."""

import hashlib
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
import rfc8785
from django.db import OperationalError

from approvals import clearing, connect, deliver, outcomes, tasks
from approvals.act import Rejected, Undeliverable, act
from approvals.errors import CannotSendAgain, NotReviewer, NotSent, NotValid, OutcomeUnknown, Refused, UnknownKind
from approvals.kinds import KINDS
from approvals.models import Action, Attempt, Decision
from approvals.outcomes import Outcome
from approvals.tiers import Tier
from project.lib import canonical, clock, failpoints
from project.lib.crypto import Unreadable
from project.people.models import User
from tests import builders
from tests.handlers import work
from tests.nodding import Shop, changed_kind, handling, now_of, say, serving, settle
from tests.ruled import rule
from triggers import dispatch
from triggers.models import Audit, DeadLetter, Event, Run, Switch, Wait

pytestmark = pytest.mark.django_db


def order(run):
    return act(run, "order tea", kind="shop.order", key="order-7", item="tea", cups=2)


def ordered(ben: User | None = None) -> Action:
    """A run that asked for tea; approved when Ben is given."""
    builders.run("story")
    work()
    action = Action.objects.get()
    if ben:
        say(action, ben)
    return action


@pytest.fixture
def shop(connection, request):
    safety = getattr(request, "param", "keyed")
    with serving(safety=safety) as shop, handling(order):
        yield shop


def test_no_yes_no_effect(shop):
    ordered()
    settle()
    assert shop.sent == []


def test_no_yes_no_effect_in_a_loop_after_a_no_or_in_a_run_that_another_one_started(shop, ben):
    def winding(run):
        for number in range(2):
            with suppress(Rejected):
                act(run, f"order {number}", kind="shop.order", key=f"order-{number}")
        run.emit(type="tea.wanted")

    with handling(winding, "winding"), handling(order, "started"):
        builders.trigger("started", source="/nightdesk", type_pattern="tea.wanted")
        builders.run("winding")
        settle()
        say(Action.objects.get(), ben, "reject")
        settle()
        say(Action.objects.get(status="awaiting"), ben, "reject")
        settle()
        assert [action.status for action in Action.objects.order_by("pk")] == ["rejected", "rejected", "awaiting"]
        assert shop.sent == []
        say(Action.objects.get(status="awaiting"), ben)
        settle()
    assert shop.sent == ["order-7"]


def test_after_a_no_nothing_calls_whoever_asks_for_it(shop, ben):
    action = ordered()
    say(action, ben, "reject")
    assert deliver.start(action.pk, 0) is None
    tasks.deliver_action(action_id=action.pk)
    settle()
    assert (now_of(action).status, Run.objects.get().status, shop.sent) == ("rejected", "cancelled", [])


def test_a_yes_has_its_effect_and_the_run_gets_the_result(shop, ben):
    action = ordered(ben)
    settle()
    assert shop.sent == ["order-7"]
    assert now_of(action).result == {"cups": 2, "key": "order-7"}
    assert Run.objects.get().result == {"cups": 2, "key": "order-7"}


def test_a_yes_that_comes_before_its_run_has_gone_to_sleep_counts(shop, ben, monkeypatch):
    """It is visible, so somebody may press: here the worker dies before it has written down that the run waits."""

    class WorkerDied(BaseException):
        pass

    def die(place: str) -> None:
        if place == "before_suspend_commit":
            raise WorkerDied

    run = builders.run("story")
    monkeypatch.setattr(failpoints, "reached", die)
    with pytest.raises(WorkerDied):
        work()
    monkeypatch.setattr(failpoints, "reached", None)
    action = Action.objects.get()
    assert not Wait.objects.exists()
    assert say(action, ben).status == "approved"
    settle()
    assert shop.sent == ["order-7"]
    Run.objects.filter(pk=run.pk).update(leased_until=clock.now() - timedelta(seconds=1))
    dispatch.reclaim_lost()
    settle()
    assert (now_of(run).result, len(shop.sent)) == ({"cups": 2, "key": "order-7"}, 1)


def test_time_that_runs_out_afterwards_ends_nothing_any_more(shop, ben, later):
    action = ordered(ben)
    settle()
    ended = (now_of(action).settled_at, Run.objects.get().finished_at)
    for _ in range(2):
        later(days=8)
        assert not deliver.expire(action.pk)
        settle()
    assert (now_of(action).status, Run.objects.get().status) == ("delivered", "succeeded")
    assert (now_of(action).settled_at, Run.objects.get().finished_at) == ended


def test_two_deliveries_at_once_call_once(shop, ben):
    action = ordered(ben)
    first = deliver.start(action.pk, 0)
    assert first is not None
    assert deliver.start(action.pk, 0) is None
    assert not deliver.deliver(action.pk)
    outcomes.record(first, deliver.call(first))
    assert (shop.sent, now_of(action).status) == (["order-7"], "delivered")


class TestWhenNothingWasSent:
    def test_it_is_tried_again_after_a_pause_with_the_same_key(self, shop, ben, later):
        shop.faults = [NotSent("refused"), NotSent("refused"), None]
        action = ordered(ben)
        settle()
        action = now_of(action)
        assert (action.status, len(shop.sent)) == ("approved", 1)
        assert action.not_before > action.attempts.get().ended_at, "there is a pause"
        for seconds in (2, 7):
            later(seconds=seconds)
            settle()
        assert (now_of(action).status, shop.sent) == ("delivered", ["order-7"] * 3)

    def test_five_tries_are_enough(self, shop, ben, later):
        shop.faults = [NotSent("still down")] * 9
        action = ordered(ben)
        for _ in range(8):
            settle()
            later(seconds=150)
        settle()
        action = now_of(action)
        assert (action.status, len(shop.sent), action.keeps_key) == ("failed", 5, False)
        letter = DeadLetter.objects.get()
        assert (letter.kind, letter.action_id, letter.message) == ("action", action.pk, "still down")
        assert (Run.objects.get().status, Run.objects.get().reason) == ("dead", "undeliverable")

    def test_retry_after_is_honoured_within_bounds(self, shop, ben, later):
        shop.faults = [NotSent("429", retry_after=timedelta(seconds=60)), NotSent("429", retry_after=timedelta(days=9))]
        action = ordered(ben)
        settle()
        later(seconds=30)
        settle()
        assert len(shop.sent) == 1
        later(seconds=37)
        settle()
        assert len(shop.sent) == 2
        assert now_of(action).not_before < now_of(action).execute_by
        later(seconds=930)
        settle()
        assert now_of(action).status == "delivered"


def test_a_refusal_is_final_and_its_run_dies_under_the_action_s_letter(shop, ben):
    shop.faults = [Refused("422")]
    action = ordered(ben)
    settle()
    assert (now_of(action).status, shop.sent) == ("failed", ["order-7"])
    assert DeadLetter.objects.get().kind == "action"
    assert Run.objects.get().status == "dead"


class TestWhenNobodyKnows:
    def test_keyed_sends_the_same_key_again(self, shop, ben, later):
        shop.faults = [OutcomeUnknown("timeout")]
        action = ordered(ben)
        settle()
        assert now_of(action).status == "unknown"
        later(seconds=7)
        settle()
        assert (now_of(action).status, shop.sent, len(shop.done)) == ("delivered", ["order-7"] * 2, 1)

    def test_keyed_does_not_send_after_the_far_side_forgot_the_key(self, shop, ben, later):
        shop.faults = [OutcomeUnknown("timeout")]
        changed_kind(window=timedelta(seconds=3))
        action = ordered(ben)
        settle()
        later(seconds=7)
        settle()
        assert (now_of(action).status, now_of(action).not_before, len(shop.sent)) == ("unknown", None, 1)

    @pytest.mark.parametrize("shop", ["probe"], indirect=True)
    @pytest.mark.parametrize("it_happened", [True, False])
    def test_probe_looks_first(self, shop, ben, later, it_happened):
        shop.faults, shop.before_fault = [OutcomeUnknown("timeout")], it_happened
        action = ordered(ben)
        settle()
        later(seconds=7)
        settle()
        assert now_of(action).status == "delivered"
        assert (len(shop.sent), len(shop.done)) == (1 if it_happened else 2, 1)
        assert shop.looked[0] == ["order-7"]

    @pytest.mark.parametrize("shop", ["probe"], indirect=True)
    def test_a_probe_that_cannot_tell_looks_again_later(self, shop, ben, later):
        shop.faults = [OutcomeUnknown("timeout")]
        action = ordered(ben)
        settle()

        def blind(far, order, keys):
            raise NotSent("down")

        changed_kind(probe=blind)
        later(seconds=7)
        settle()
        assert (now_of(action).status, now_of(action).looks) == ("unknown", 1)
        changed_kind(probe=shop.probe)
        later(seconds=45)
        settle()
        assert (now_of(action).status, len(shop.sent)) == ("delivered", 1)

    @pytest.mark.parametrize("shop", ["unsafe"], indirect=True)
    def test_unsafe_is_shown_to_a_person(self, shop, ben, ann, later):
        shop.faults = [OutcomeUnknown("timeout")]
        action = ordered(ben)
        for _ in range(3):
            settle()
            later(hours=1)
        assert (now_of(action).status, len(shop.sent)) == ("unknown", 1)
        assert Run.objects.get().status == "waiting"
        clearing.settle_unknown(action, by=ann, status="delivered", note="saw it")
        settle()
        assert Run.objects.get().result == {"settled_by": "ann", "note": "saw it"}

    @pytest.mark.parametrize("error", [ValueError, NotValid, Unreadable, UnknownKind])
    def test_a_connector_that_breaks_is_unknown_and_says_no_secret(self, shop, ben, error):
        """Once it was called, only its own words say that nothing happened."""
        shop.faults = [error("SECRET-123")]
        action = ordered(ben)
        settle()
        assert now_of(action).status == "unknown"
        assert "SECRET" not in str(now_of(action).error) + str(Attempt.objects.get().error)

    def test_a_process_that_died_with_the_call_is_noticed_after_its_lease(self, shop, ben, later):
        action = ordered(ben)
        attempt = deliver.start(action.pk, 0)
        assert attempt is not None
        deliver.call(attempt)  # it went out; then the process was gone
        settle()
        assert now_of(action).status == "delivering"
        later(seconds=46)
        settle()
        assert now_of(action).status == "unknown"
        later(seconds=7)
        settle()
        assert (now_of(action).status, shop.sent) == ("delivered", ["order-7"] * 2)


class TestLateTruths:
    """The outcome of any recorded try counts if it is a success; a failure only of the newest."""

    def twice(self, ben, later) -> tuple[Action, Attempt, Attempt]:
        action = ordered(ben)
        first = deliver.start(action.pk, 0)
        later(seconds=46)
        outcomes.presume_lost(action.pk)
        later(seconds=7)
        second = deliver.start(action.pk, 1)
        assert first is not None
        assert second is not None
        return now_of(action), first, second

    def test_a_failure_of_an_old_try_ends_nothing(self, shop, ben, later):
        action, first, second = self.twice(ben, later)
        outcomes.record(first, Outcome("failed", error={"type": "Refused", "message": "422"}))
        assert now_of(action).status == "delivering"
        outcomes.record(second, Outcome("delivered", {"ok": 1}))
        assert now_of(action).result == {"ok": 1}

    def test_a_success_of_an_old_try_ends_it(self, shop, ben, later):
        action, first, second = self.twice(ben, later)
        outcomes.record(first, Outcome("delivered", {"ok": 1}))
        assert now_of(action).status == "delivered"
        outcomes.record(second, Outcome("failed", error={"type": "Refused", "message": "409"}))
        assert now_of(action).result == {"ok": 1}

    def test_a_success_after_failed_closes_the_letter_and_is_told_once(self, shop, ben, later):
        action, first, second = self.twice(ben, later)
        outcomes.record(second, Outcome("failed", error={"type": "Refused", "message": "422"}))
        assert (now_of(action).status, now_of(action).keeps_key) == ("failed", True)
        assert DeadLetter.objects.get().status == "open"
        outcomes.record(first, Outcome("delivered", {"ok": 1}))
        assert (now_of(action).status, DeadLetter.objects.get().status) == ("delivered", "dismissed")
        assert Event.objects.filter(type="approvals.action.settled").count() == 1

    def test_not_sent_after_a_try_in_doubt_stays_in_doubt(self, shop, ben, later):
        action, _, second = self.twice(ben, later)
        outcomes.record(second, Outcome("put_back", error={"type": "NotSent", "message": "down"}))
        assert now_of(action).status == "unknown"


class TestWhatWasShownIsWhatRuns:
    """AP-04: approve 2, execute 200."""

    @pytest.fixture
    def approved(self, shop, ben) -> Action:
        changed_kind(take_back=timedelta(seconds=10))
        return ordered(ben)

    def forge(self, action: Action, *, digest: bool) -> None:
        text = action.canonical.replace('"cups":2', '"cups":200')
        more = {"digest": canonical.digest_of_text(text)} if digest else {}
        Action.objects.filter(pk=action.pk).update(canonical=text, **more)

    @pytest.mark.parametrize("digest", [False, True])
    def test_changed_arguments_are_not_executed_but_asked_again(self, approved, shop, ben, later, digest):
        self.forge(approved, digest=digest)
        later(seconds=11)
        settle()
        action = now_of(approved)
        assert (action.status, action.revision, action.reason_code) == ("awaiting", 2, "changed_after_approval")
        assert shop.sent == []
        say(action, ben)
        later(seconds=11)
        settle()
        assert shop.done["order-7"].cups == 200, "now people have seen it"

    @pytest.mark.parametrize("stricter", [False, True])
    def test_nobody_is_asked_again_about_what_could_only_fail(self, approved, shop, owner, later, stricter):
        connect.archive_connection(approved.connection, by=owner)
        if stricter:
            rule("two", "true", quorum=2)
        later(seconds=11)
        settle()
        action = now_of(approved)
        assert (action.status, action.revision, action.reason_code) == ("cancelled", 1, "connection_removed")
        assert (DeadLetter.objects.get(kind="action").action_id, shop.sent) == (action.pk, [])

    def test_what_is_no_longer_readable_is_withdrawn_and_holds_up_nobody(self, approved, shop, later):
        Action.objects.filter(pk=approved.pk).update(canonical="{")
        later(seconds=11)
        settle()
        assert (now_of(approved).status, now_of(approved).reason_code) == ("cancelled", "unreadable")
        assert shop.sent == []

    def test_a_changed_connection_is_another_effect(self, approved, shop, connection, later):
        connection.change(by=None, config={"api_url": "https://elsewhere.example"})
        later(seconds=11)
        settle()
        assert (now_of(approved).status, now_of(approved).revision, shop.sent) == ("awaiting", 2, [])

    @pytest.mark.parametrize("field", ["kind", "connection"])
    def test_another_kind_or_connection_in_the_row_is_another_effect(self, approved, shop, later, field):
        """AP-04: another tool with the same arguments, or the same tool on somebody else's account."""
        other = builders.connection("shop", slug="other", practice=False)
        KINDS["shop.burn"] = replace(KINDS["shop.order"], name="shop.burn")
        now = {"kind": "shop.burn", "connection": "other"}
        Action.objects.filter(pk=approved.pk).update(**{field: {"kind": "shop.burn", "connection": other}[field]})
        later(seconds=11)
        settle()
        del KINDS["shop.burn"]
        action = now_of(approved)
        assert (action.status, action.revision, action.reason_code) == ("awaiting", 2, "changed_after_approval")
        assert action.envelope[field] == now[field], "people read what it is now"
        assert shop.sent == []

    def test_a_headline_that_says_something_else_is_no_yes_to_what_is_below_it(self, approved, shop, ben, later):
        true = now_of(approved).title
        Action.objects.filter(pk=approved.pk).update(title="Order nothing")
        later(seconds=11)
        settle()
        action = now_of(approved)
        assert (action.status, action.revision, action.reason_code) == ("awaiting", 2, "changed_after_approval")
        assert (action.title, shop.sent) == (true, []), "people read what it is"
        say(action, ben)
        later(seconds=11)
        settle()
        assert len(shop.sent) == 1

    def test_a_stricter_policy_asks_again(self, approved, shop, later):
        changed_kind(tier=Tier.HIGH)
        later(seconds=11)
        settle()
        assert (now_of(approved).status, now_of(approved).tier, shop.sent) == ("awaiting", "high", [])

    def test_a_tier_lowered_in_the_row_lowers_nothing(self, shop, later):
        action = ordered()
        fields = {"tier": "low", "status": "approved", "not_before": action.created_at, "execute_by": action.expires_at}
        Action.objects.filter(pk=action.pk).update(**fields)
        settle()
        assert (now_of(action).status, shop.sent) == ("awaiting", [])

    def test_the_digest_is_over_all_that_was_asked_for_and_nothing_else(self, approved, connection):
        """By another writer of RFC 8785 than our own."""
        whole = {
            "kind": "shop.order",
            "kind_version": 1,
            "connection": connection.slug,
            "connection_version": connection.version,
            "arguments": {"item": "tea", "cups": 2},
            "preconditions": {},
        }
        assert approved.canonical.encode() == rfc8785.dumps(whole)
        assert approved.digest == f"sha256:{hashlib.sha256(rfc8785.dumps(whole)).hexdigest()}"

    def test_the_card_the_form_and_the_api_show_the_bytes_that_would_run(self, shop, ben, sign_in):
        action = ordered()
        text = action.canonical.replace('"tea"', '"hemlock"')
        Action.objects.filter(pk=action.pk).update(canonical=text, digest=canonical.digest_of_text(text))
        browser = sign_in(ben)
        for path in (f"/actions/{action.pk}", f"/actions/{action.pk}/edit", f"/approvals?sel={action.pk}"):
            assert "hemlock" in browser.get(path).text, path
        assert browser.get(f"/api/v1/actions/{action.pk}").json()["arguments"] == {"item": "hemlock", "cups": 2}
        say(action, ben)
        settle()
        assert (now_of(action).status, shop.sent) == ("awaiting", []), "its headline still said tea"
        say(action, ben)
        settle()
        assert [order.item for order in shop.done.values()] == ["hemlock"]

    @pytest.mark.parametrize("member", ["kind_version", "connection_version", "arguments", "preconditions"])
    def test_each_member_of_what_was_approved_voids_the_yes_when_it_changes(self, approved, shop, later, member):
        """As in the row, so in the text: under a digest that fits it again."""
        other = {
            "kind_version": 7,
            "connection_version": 7,
            "arguments": {"item": "rum"},
            "preconditions": {"target": "x"},
        }
        text = canonical.text({**approved.envelope, member: other[member]})
        Action.objects.filter(pk=approved.pk).update(canonical=text, digest=canonical.digest_of_text(text))
        later(seconds=11)
        settle()
        action = now_of(approved)
        assert (action.status, action.revision, action.reason_code) == ("awaiting", 2, "changed_after_approval")
        assert (action.given, shop.sent) == (0, [])

    @pytest.mark.parametrize(
        "forged",
        [
            lambda yes, other: Decision.objects.filter(pk=yes.pk).delete(),
            lambda yes, other: Decision.objects.filter(pk=yes.pk).update(action=other),
            lambda yes, other: Decision.objects.filter(pk=yes.pk).update(digest=other.digest),
            lambda yes, other: Decision.objects.filter(pk=yes.pk).update(revision=2),
            lambda yes, other: Decision.objects.filter(pk=yes.pk).update(verdict="reject"),
            lambda yes, other: Decision.objects.filter(pk=yes.pk).update(held=[]),
        ],
        ids=[
            "missing",
            "another action's",
            "to other bytes",
            "to another revision",
            "a no",
            "of no role",
        ],
    )
    def test_a_yes_that_is_none_starts_nothing(self, approved, shop, later, forged):
        """The row says `approved` and who counts believes it; the start looks at the yes itself."""
        forged(Decision.objects.get(), builders.action("shop.order", arguments={"item": "rum"}))
        later(seconds=11)
        for _ in range(2):
            deliver.deliver(approved.pk)
            settle()
        assert (now_of(approved).status, shop.sent) == ("awaiting", [])

    @pytest.mark.parametrize("error", [RuntimeError, MemoryError, OperationalError])
    def test_a_policy_that_cannot_be_asked_lets_nothing_start(self, approved, shop, later, monkeypatch, error):
        later(seconds=11)
        with monkeypatch.context() as broken:
            broken.setattr("approvals.policy.ruled", lambda *_, **__: (_ for _ in ()).throw(error("down")))
            with pytest.raises(error):
                deliver.deliver(approved.pk)
            with suppress(error):
                deliver.deliver_due()
            assert (now_of(approved).status, shop.sent) == ("approved", [])
        settle()
        assert (now_of(approved).status, len(shop.sent)) == ("delivered", 1)

    def test_one_approval_is_one_execution(self, shop, ben):
        action = ordered(ben)
        settle()
        for _ in range(3):
            deliver.deliver(action.pk)
        assert len(shop.sent) == 1


class TestSwitch:
    @pytest.mark.parametrize(("scope", "name"), [("all", ""), ("kind", "shop.order"), ("handler", "story")])
    def test_holds_back_what_was_approved_but_not_started(self, shop, ben, later, scope, name):
        action = ordered(ben)
        switch = Switch.objects.create(scope=scope, name=name, paused=True, at=action.created_at)
        settle()
        deliver.deliver(action.pk)
        assert (now_of(action).status, shop.sent) == ("approved", [])
        Switch.objects.filter(pk=switch.pk).update(paused=False)
        settle()
        assert now_of(action).status == "delivered"

    def test_what_was_approved_but_never_carried_out_is_a_dead_letter(self, shop, ben, later):
        action = ordered(ben)
        Switch.objects.create(scope="all", paused=True, at=action.created_at)
        later(hours=1, seconds=1)
        settle()
        assert (now_of(action).status, now_of(action).reason_code) == ("expired", "execute_by")
        assert DeadLetter.objects.get().action_id == action.pk


class TestUnknownOvernight:
    """I14: a person settles what the desk could not."""

    @pytest.fixture
    def action(self, connection, ben):
        with serving(safety="unsafe") as shop, handling(order):
            self.shop: Shop = shop
            shop.faults, shop.before_fault = [OutcomeUnknown("timeout")], False
            made = ordered(ben)
            settle()
            yield now_of(made)

    def test_not_sent_sends_it_again(self, action, ann):
        clearing.settle_unknown(action, by=ann, status="not_sent", note="the shop knows nothing")
        settle()
        assert (now_of(action).status, self.shop.sent) == ("delivered", ["order-7"] * 2)

    def test_not_sent_is_checked_like_a_start(self, action, ann, later):
        later(hours=2)
        with pytest.raises(CannotSendAgain) as refusal:
            clearing.settle_unknown(action, by=ann, status="not_sent")
        assert refusal.value.facts["why"] == "over"
        assert now_of(action).status == "unknown"

    def test_giving_up_keeps_the_key(self, action, ann):
        clearing.settle_unknown(action, by=ann, status="failed", note="nobody knows")
        assert (now_of(action).status, now_of(action).keeps_key) == ("failed", True)
        settle()
        assert Run.objects.get().status == "dead"

    def test_is_for_operators(self, action, ben):
        with pytest.raises(NotReviewer):
            clearing.settle_unknown(action, by=ben, status="delivered")

    def test_is_written_into_the_trail(self, action, ann):
        clearing.settle_unknown(action, by=ann, status="delivered", note="saw it")
        assert Audit.objects.filter(verb="say delivered", by=ann, detail__note="saw it").exists()


def test_undeliverable_can_be_caught(connection, ben):
    def careful(run):
        try:
            return order(run)
        except Undeliverable as error:
            return {"told": str(error)}

    with serving() as shop, handling(careful):
        shop.faults = [Refused("422")]
        ordered(ben)
        settle()
    assert "422" in Run.objects.get().result["told"]
