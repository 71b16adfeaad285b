"""An effect is sent when, and only when, what asks for it is committed; whoever asks again gets the one there is."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from approvals import deliver, propose
from approvals.act import act
from approvals.connectors.mail import Mail, composed
from approvals.errors import NotSent
from approvals.models import Action, Connection
from approvals.settle import say as tell
from approvals.tiers import Tier
from project.lib import clock
from tests import builders
from tests.handlers import work
from tests.nodding import Shop, carry_out, changed_kind, handling, now_of, say, serving, settle
from tests.recorder import Recorder
from triggers.execute import reclaim
from triggers.models import Run

pytestmark = pytest.mark.django_db


class Gone(BaseException):
    """The process is no more."""


@pytest.fixture
def shop(connection: Connection) -> Iterator[Shop]:
    with serving(tier="low") as shop, handling(order):
        yield shop


def order(run: Any) -> Any:
    return act(run, "order", kind="shop.order", **(run.event.data or {}))


def ask(**data: Any) -> Run:
    run = builders.run("story", event=builders.event(data=data))
    work()
    return now_of(run)


class TestWithItsCommit:
    """OB-01: no effect without its commit, and no commit whose effect is lost."""

    def test_one_inside_a_transaction_that_may_still_be_rolled_back_is_refused(self, shop):
        def careless(run: Any) -> None:
            with transaction.atomic():
                order(run)

        with handling(careless, "careless"):
            builders.run("careless")
            work()
        assert shop.sent == []
        assert (Run.objects.get().status, Run.objects.get().error["type"]) == ("dead", "AskedInTransaction")

    def test_one_whose_proposal_fails_half_way_leaves_nothing(self, shop, monkeypatch):
        def broken(*_: Any, **__: Any) -> None:
            raise RuntimeError("the disk")

        monkeypatch.setattr(propose, "show", broken)
        ask(key="k")
        settle()
        assert (Action.objects.count(), shop.sent) == (0, [])

    def test_one_that_nobody_rang_for_is_sent_by_the_next_round_once(self, shop, ben):
        changed_kind(tier=Tier.MEDIUM)
        ask(key="k")
        say(Action.objects.get(), ben)  # the bell is lost: no broker hears it
        settle()
        settle()
        assert shop.sent == ["k"]


class TestOneBadOneHoldsUpNobody:
    """OB-02."""

    @pytest.mark.parametrize(
        "value", [datetime(2026, 1, 1, tzinfo=UTC), Decimal("1.5"), b"bytes", float("nan"), {1, 2}, object()]
    )
    def test_what_is_no_json_is_refused_when_it_is_asked_for(self, shop, value):
        builders.connection("http")
        with handling(lambda run: act(run, "x", kind="http.request", url="https://a.example", json=value), "bad"):
            bad = builders.run("bad")
            work()
        assert (now_of(bad).status, now_of(bad).attempt) == ("dead", 1)
        assert not Action.objects.exists()
        assert [ask(key=key).status for key in ("e2", "e3")] == ["succeeded"] * 2

    def test_one_that_always_fails_delays_no_other(self, shop, ben):
        changed_kind(tier=Tier.MEDIUM)
        for key in ("e1", "e2", "e3"):
            ask(key=key)
            say(Action.objects.get(key=key), ben)
        shop.faults = [NotSent("down"), None, None]
        carry_out()
        assert list(Action.objects.order_by("pk").values_list("status", flat=True)) == [
            *("approved", "delivered", "delivered")
        ]


class TestTheSameNameOnEveryTry:
    """OB-03, DD-01: a repeat is known by its key, whoever makes it."""

    def test_over_http_the_same_key(self, db, ben, later):
        with Recorder() as far, override_settings(EGRESS_ALLOW=["127.0.0.1", f"127.0.0.1:{far.port}"]):
            builders.connection("http", practice=False)
            with handling(lambda run: act(run, "x", kind="http.request", key="k-7", url=far.url)):
                far.next("drop", 503)
                ask()
                say(Action.objects.get(), ben)
                for _ in range(5):
                    later(seconds=60)
                    settle()
            assert Action.objects.get().status == "delivered"
            assert [call.headers["idempotency-key"] for call in far.calls("POST")] == ["k-7"] * 3

    def test_in_a_mail_the_same_message_id(self):
        mail = Mail(to=["ann@example.org"], subject="Night", body="All is well.")
        first, second = (composed(mail, "desk@example.org", "k-7")["Message-ID"] for _ in range(2))
        assert first == second
        assert composed(mail, "desk@example.org", "k-8")["Message-ID"] != first

    def test_asked_for_three_times_it_happens_once_and_all_get_it(self, shop):
        runs = [ask(key="once") for _ in range(3)]
        assert shop.sent == ["once"]
        assert [run.result for run in runs] == [{"cups": 1, "key": "once"}] * 3

    def test_a_key_made_of_a_random_number_is_the_same_after_a_crash(self, shop, monkeypatch):
        """WK-07: what is random is remembered, so the second life of a run asks for the same effect."""
        with handling(lambda run: act(run, "x", kind="shop.order", key=f"k-{run.uuid()}"), "lucky"):
            run = builders.run("lucky")
            with monkeypatch.context() as patched:
                patched.setattr(deliver, "deliver", gone)
                with pytest.raises(Gone):
                    work()
            reclaim(run.pk, now_of(run).fence, reason="worker_lost")
            settle()
        assert (now_of(run).status, len(shop.sent), Action.objects.count()) == ("succeeded", 1, 1)


def gone(*_: Any, **__: Any) -> None:
    raise Gone


class TestAWorkerThatLostItsRun:
    """WK-05: what a run's time ran out over is not sent by the worker that had it."""

    def test_asks_for_nothing_any_more(self, shop):
        def slow(run: Any) -> Any:
            reclaim(run.row.pk, run.row.fence, reason="timed_out")  # its time was up while it worked
            return order(run)

        with handling(slow, "slow"):
            builders.run("slow")
            assert work(limit=1) == 1
        assert (Action.objects.count(), shop.sent) == (0, [])

    def test_sends_nothing_it_has_asked_for_before_and_the_desk_does_it_once(self, shop, monkeypatch):
        """The lease of the run is looked at once more before the lease of the try begins."""
        real = propose.stand_for

        def late(run: Any, *given: Any) -> Any:
            found = real(run, *given)
            reclaim(run.row.pk, run.row.fence, reason="timed_out")
            return found

        run = builders.run("story", event=builders.event(data={"key": "k"}))
        with monkeypatch.context() as patched:
            patched.setattr(propose, "stand_for", late)
            work(limit=1)
        assert (Action.objects.get().status, shop.sent) == ("approved", [])
        settle()
        assert (now_of(run).status, shop.sent) == ("succeeded", ["k"])


def test_the_end_of_another_action_of_the_same_key_ends_no_wait(shop, ben):
    """I2: what wakes a run is about its action, not about its key."""
    changed_kind(tier=Tier.MEDIUM)
    ask(key="k")
    first = Action.objects.get()
    say(first, ben, "reject")
    settle()
    second = ask(key="k")
    assert Action.objects.get(generation=2).status == "awaiting"
    with transaction.atomic():
        tell(first, "settled")
    settle()
    assert now_of(second).status == "waiting"
    assert now_of(second).waits.get().status == "pending"
    say(Action.objects.get(generation=2), ben)
    settle()
    assert now_of(second).status == "succeeded"
    assert clock.now() > now_of(second).finished_at
