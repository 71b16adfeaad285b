"""Nobody knows whether it happened: what follows depends on what repeating would do, and on what is remembered."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from approvals import clearing, deliver, outcomes
from approvals.act import act
from approvals.errors import NotSent, OutcomeUnknown
from approvals.kinds import KINDS
from approvals.models import Action, Attempt, Connection
from approvals.outcomes import Outcome
from project.lib import clock, crypto
from tests import builders
from tests.fars import REFUND
from tests.handlers import work
from tests.nodding import Shop, carry_out, changed_kind, handling, now_of, say, serving, settle
from tests.recorder import Recorder
from tests.stripe import FakeStripe
from triggers import redrive
from triggers.models import DeadLetter, Run

pytestmark = pytest.mark.django_db


@contextmanager
def shop_of(safety: str, **more: Any) -> Iterator[Shop]:
    def order(run: Any) -> Any:
        return act(run, "order tea", kind="shop.order", **{"key": "order-7", **(run.event.data or {})})

    with serving(safety=safety, **more) as shop, handling(order):
        yield shop


def asked(ben: Any, **data: Any) -> Action:
    run = builders.run("story", event=builders.event(data=data))
    work()
    action = Action.objects.filter(acts__run=run).get()
    if action.status == "awaiting":
        say(action, ben)
    settle()
    return now_of(action)


class TestNatural:
    """Repeating it is harmless by its nature: the same content at the same place."""

    def test_is_sent_again_at_any_time(self, connection, ben, later):
        with shop_of("natural", window=timedelta(seconds=3)) as shop:
            shop.faults = [OutcomeUnknown("timeout")]
            action = asked(ben)
            later(seconds=7)
            settle()
            assert (now_of(action).status, shop.sent) == ("delivered", ["order-7"] * 2)

    def test_five_tries_without_an_answer_are_shown_to_a_person(self, connection, ben, later):
        with shop_of("natural") as shop:
            shop.faults = [OutcomeUnknown("timeout")] * 9
            action = asked(ben)
            for _ in range(12):
                later(seconds=200)
                settle()
            assert (now_of(action).status, now_of(action).not_before, len(shop.sent)) == ("unknown", None, 5)

    @pytest.mark.parametrize(
        ("method", "safety"),
        [("GET", "natural"), ("HEAD", "natural"), ("PUT", "natural")]
        + [(method, "keyed") for method in ("POST", "PATCH", "DELETE")],
    )
    def test_a_put_is_and_a_post_is_not(self, method, safety):
        asked = {"method": method, "url": "https://shop.example/orders/7"}
        assert KINDS["http.request"].safety_of(asked, {}) == safety

    def test_every_kind_has_one_of_four_classes(self):
        assert {kind.safety for kind in KINDS.values()} == {"keyed", "natural", "probe", "unsafe"}
        probing = [kind for kind in KINDS.values() if kind.safety == "probe"]
        assert all(kind.probe for kind in probing)


class TestKeyWindow:
    """For how long a far side remembers a key is its own matter, so a connection may say it."""

    @pytest.mark.parametrize(("window", "sent"), [(None, 2), (600, 2), (3, 1), (0, 1)])
    def test_is_the_connection_s_own(self, connection, ben, later, window, sent):
        Connection.objects.update(config={} if window is None else {"key_window": window})
        with shop_of("keyed") as shop:
            shop.faults = [OutcomeUnknown("timeout")]
            action = asked(ben)
            later(seconds=7)
            settle()
            assert len(shop.sent) == sent
            assert now_of(action).status == ("delivered" if sent == 2 else "unknown")

    def test_counts_from_the_first_try_that_sent_this_key(self, connection, ben, later):
        with shop_of("keyed", window=timedelta(minutes=5)) as shop:
            shop.faults = [OutcomeUnknown("timeout")] * 4
            action = asked(ben)
            for _ in range(6):
                later(seconds=140)
                settle()
            assert (now_of(action).status, now_of(action).not_before) == ("unknown", None)
            starts = list(Attempt.objects.order_by("number").values_list("started_at", flat=True))
            assert starts[-1] - starts[0] < timedelta(minutes=5)


@pytest.mark.usefixtures("high_has_its_rule")
class TestAStoredFailure:
    """Stripe answers a key with the failure it stored for it, for a day: the same key can only fail again."""

    @pytest.fixture
    def bank(self, db: None) -> Iterator[FakeStripe]:
        bank = FakeStripe(breaks=1)
        with Recorder(bank.answer) as far, override_settings(EGRESS_ALLOW=["127.0.0.1", f"127.0.0.1:{far.port}"]):
            secrets = crypto.seal({"key": "SECRET-123"})
            Connection.objects.create(slug="bank", system="stripe", config={"api_url": far.url}, sealed_secrets=secrets)
            self.far = far
            yield bank

    @pytest.fixture
    def refund(self, bank, ben, later) -> Iterator[Callable[[], Action]]:
        def first_try() -> Action:
            builders.run("story")
            work()
            say(Action.objects.get(), ben, reason="seen", stepped_up=True)
            later(seconds=11)
            carry_out()
            return Action.objects.get()

        with handling(lambda run: act(run, "refund", kind="stripe.refund", key="once", **REFUND)):
            yield first_try

    def keys(self) -> list[str]:
        return [call.headers["idempotency-key"] for call in self.far.calls("POST")]

    def test_is_looked_for_and_then_sent_under_the_next_key(self, bank, refund, later):
        action = refund()
        assert (action.status, action.attempts.get().key_used_up) == ("unknown", False)
        for _ in range(4):
            later(seconds=40)
            carry_out()
        action = now_of(action)
        assert (action.status, len(bank.refunds)) == ("delivered", 1)
        assert self.keys() == ["once", "once", "once.g2"], "the second answer said that it was a stored one"
        assert list(action.attempts.order_by("number").values_list("key_used_up", flat=True)) == [False, True, False]

    def test_one_that_happened_all_the_same_is_found(self, bank, refund, later):
        action = refund()
        later(seconds=40)
        carry_out()
        assert now_of(action).attempts.filter(key_used_up=True).exists()
        bank.refund({"amount": "4820", "metadata[nightdesk_key]": "once"})
        later(seconds=200)
        carry_out()
        assert (now_of(action).status, len(bank.refunds), len(self.keys())) == ("delivered", 1, 2)

    def test_of_a_kind_that_cannot_look_is_shown_to_a_person_at_once(self, connection, ben, ann, later):
        with shop_of("keyed") as shop:
            shop.faults = [OutcomeUnknown("500"), OutcomeUnknown("500", key_used_up=True)]
            shop.before_fault = False
            action = asked(ben)
            for _ in range(6):
                later(seconds=130)
                settle()
            assert (now_of(action).status, now_of(action).not_before, len(shop.sent)) == ("unknown", None, 2)
            clearing.settle_unknown(action, by=ann, status="not_sent", note="nothing there")
            settle()
            assert (now_of(action).status, shop.sent[-1]) == ("delivered", "order-7.g2")


class TestDaysLater:
    """I14: what was given up is asked anew with "send again", and even then looked for first: the window is over."""

    def given_up(self, ben, ann, shop: Shop) -> Run:
        shop.faults = [OutcomeUnknown("timeout")]
        action = asked(ben)
        clearing.settle_unknown(action, by=ann, status="failed", note="nobody knows")
        settle()
        return Run.objects.get()

    def again(self, ben, later, owner) -> Action:
        later(days=3)
        redrive.redrive(DeadLetter.objects.get(), by=owner, send_again=["order tea"])
        settle()
        action = Action.objects.get(generation=2)
        say(action, ben)
        settle()
        return now_of(action)

    def test_what_had_happened_is_found_and_not_repeated(self, connection, ben, ann, later, owner):
        with shop_of("probe") as shop:
            self.given_up(ben, ann, shop)
            action = self.again(ben, later, owner)
            assert (action.status, shop.sent, shop.looked[-1]) == ("delivered", ["order-7"], ["order-7"])
            first = Action.objects.get(generation=1)
            assert (first.status, first.gave_key_up) == ("delivered", True), "the late truth is kept"

    def test_what_had_not_happened_is_sent_under_the_next_key(self, connection, ben, ann, later, owner):
        with shop_of("probe") as shop:
            shop.before_fault = False
            self.given_up(ben, ann, shop)
            action = self.again(ben, later, owner)
            assert (action.status, shop.sent) == ("delivered", ["order-7", "order-7.g2"])

    def test_a_far_side_that_is_down_is_asked_again_before_anything_is_sent(self, connection, ben, ann, later, owner):
        with shop_of("probe") as shop:
            shop.before_fault = False
            self.given_up(ben, ann, shop)

            def blind(far: Any, order: Any, keys: list[str]) -> None:
                raise NotSent("down")

            changed_kind(probe=blind)
            action = self.again(ben, later, owner)
            assert (action.status, len(shop.sent)) == ("approved", 1)
            changed_kind(probe=shop.probe)
            later(seconds=5)
            settle()
            assert (now_of(action).status, len(shop.sent)) == ("delivered", 2)

    def test_a_probe_asks_for_every_key_that_was_sent(self, connection, ben, ann, later, owner):
        """I5: also for those of the action that was given up."""
        with shop_of("probe") as shop:
            shop.before_fault = False
            self.given_up(ben, ann, shop)
            shop.faults, shop.before_fault = [OutcomeUnknown("timeout")], False
            self.again(ben, later, owner)
            later(seconds=7)
            settle()
            assert shop.looked[-1] == ["order-7.g2", "order-7"]


class TestAPause:
    """WK-10: Retry-After is kept, within bounds, by everything that goes there."""

    def order_many(self, ben, count: int) -> list[Action]:
        numbers = itertools.count(1)
        for _ in range(count):
            builders.run("story", event=builders.event(data={"key": f"k{next(numbers)}"}))
        work()
        for action in Action.objects.all():
            say(action, ben)
        return list(Action.objects.order_by("pk"))

    def test_is_shared_by_all_actions_of_the_connection_and_none_comes_early(self, connection, ben, later):
        with shop_of("keyed") as shop:
            shop.faults = [NotSent("429", retry_after=timedelta(seconds=120))]
            actions = self.order_many(ben, 20)
            until = clock.now() + timedelta(seconds=120)
            settle()
            assert len(shop.sent) == 1, "the others know it too"
            starts = sorted(now_of(action).not_before for action in actions)
            assert until - timedelta(seconds=1) <= starts[0]
            assert starts[-1] <= until + timedelta(seconds=30)
            within_a_second = max(sum(one <= each <= one + timedelta(seconds=1) for each in starts) for one in starts)
            assert within_a_second <= len(starts) * 2 / 3
            later(seconds=150)
            settle()
            assert {now_of(action).status for action in actions} == {"delivered"}

    def test_another_connection_does_not_wait(self, connection, ben):
        builders.connection("shop", slug="other", practice=False)
        with shop_of("keyed") as shop:
            shop.faults = [NotSent("429", retry_after=timedelta(seconds=120))]
            asked(ben, connection="practice-shop")
            assert asked(ben, key="k2", connection="other").status == "delivered"

    def test_a_person_s_word_is_kept_until_the_pause_is_over(self, connection, ben, ann, later):
        with shop_of("unsafe") as shop:
            shop.faults = [OutcomeUnknown("503", retry_after=timedelta(seconds=120))]
            shop.before_fault = False
            action = asked(ben)
            clearing.settle_unknown(action, by=ann, status="not_sent", note="they know nothing")
            settle()
            assert (now_of(action).status, len(shop.sent)) == ("unknown", 1)
            later(seconds=150)
            settle()
            assert (now_of(action).status, len(shop.sent)) == ("delivered", 2)

    def test_a_year_is_capped_and_said_on_the_page(self, connection, ben, ann, sign_in):
        with shop_of("keyed") as shop:
            shop.faults = [NotSent("429", retry_after=timedelta(days=365))]
            action = asked(ben)
            assert action.not_before - clock.now() <= timedelta(minutes=15, seconds=30)
            assert action.attempts.get().retry_after == 365 * 86400
            page = sign_in(ann).get(f"/actions/{action.pk}").content.decode()
            assert "asked for a pause of 365 d" in page
            assert "the desk keeps 15 min of it" in page


def test_a_call_that_never_went_out_is_made_although_it_was_taken_for_lost(connection, ben, later):
    """A process that stood still before its call says so late: nothing was sent, so nobody needs to be asked."""
    with shop_of("unsafe") as shop:
        run = builders.run("story")
        work()
        action = Action.objects.get(acts__run=run)
        say(action, ben)
        attempt = deliver.start(action.pk, 0)
        assert attempt is not None
        later(seconds=46)
        outcomes.presume_lost(action.pk)
        assert now_of(action).not_before is None
        outcomes.record(attempt, Outcome("put_back", error={"type": "NotSent", "message": "held up"}))
        settle()
        assert (now_of(action).status, shop.sent) == ("delivered", ["order-7"])
