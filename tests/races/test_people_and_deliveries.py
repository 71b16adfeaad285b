"""Races of people, ticks and deliveries, on PostgreSQL with two real connections: one wins, the effect happens once."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import Group
from django.test import Client

from approvals import clearing, decide, deliver, outcomes, teams
from approvals.act import act
from approvals.decide import Said
from approvals.errors import AlreadyDecided, AlreadySaid, Changed, TooLate
from approvals.models import Action, Connection, Decision
from approvals.outcomes import Outcome
from approvals.tiers import Tier
from project.lib import clock
from project.people import roles
from project.people.models import Authenticator
from project.people.roles import LastAdmin
from tests import builders
from tests.conftest import PASSWORD
from tests.handlers import work
from tests.nodding import Shop, carry_out, changed_kind, handling, now_of, say, serving, settle
from tests.races.together import rounds, together
from tests.spec.test_a_code_is_taken_once import code_of
from triggers import redrive
from triggers.execute import execute
from triggers.models import Event, Run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ROUNDS = rounds(8)


@pytest.fixture
def shop(connection: Connection) -> Iterator[Shop]:
    with serving() as shop, handling(order):
        yield shop


def order(run: Any) -> Any:
    return act(run, "order", kind="shop.order", **run.event.data)


def ask(**data: Any) -> Run:
    run = builders.run("story", event=builders.event(data=data))
    work()
    return now_of(run)


def asked(**data: Any) -> Action:
    return Action.objects.get(acts__run=ask(**data))


def refused(result: Any) -> bool:
    return isinstance(result, AlreadyDecided | AlreadySaid | Changed | TooLate)


def test_of_a_yes_and_a_no_at_once_one_wins_and_the_other_is_told(shop, ann, ben) -> None:
    for _ in range(ROUNDS * 2):
        action = asked()
        before = len(shop.sent)
        results = together(lambda: say(action, ann), lambda: say(action, ben, "reject"))
        settle()
        won = [result for result in results if isinstance(result, Said)]
        lost = [result for result in results if isinstance(result, AlreadyDecided)]
        assert (len(won), len(lost), action.decisions.count()) == (1, 1, 1)
        assert len(shop.sent) - before == (won[0].status == "approved")
        assert lost[0].facts["by"] in ("ann", "ben")


def test_a_double_click_is_one_decision(shop, ann) -> None:
    for _ in range(ROUNDS):
        action = asked()
        results = together(lambda: say(action, ann), lambda: say(action, ann))
        assert sorted(result.is_new for result in results) == [False, True]
        assert action.decisions.count() == 1


def test_one_fresh_sign_in_is_good_for_one_of_two_high_decisions_at_once(connection, ann, ben, sign_in) -> None:
    browser = sign_in(ben)
    twin = Client()
    twin.cookies = browser.cookies
    for _ in range(ROUNDS):
        browser.post("/step-up", {"password": PASSWORD, "next": "/"})
        pair = [builders.action(by=ann, tier="high") for _ in range(2)]
        answers = together(*(lambda at=at: approve((browser, twin)[at], pair[at]) for at in range(2)))
        went = sorted(answer.url.startswith("/step-up") for answer in answers)
        assert went == [False, True]
        assert sorted(now_of(action).status for action in pair) == ["approved", "awaiting"]


def test_one_code_of_an_app_opens_one_of_two_browsers(ann, sign_in) -> None:
    app = Authenticator.begin(ann)
    Authenticator.objects.update(confirmed_at=clock.now())
    codes = app.new_recovery_codes()
    for turn in range(ROUNDS):
        Authenticator.objects.update(used_step=0)
        code = code_of(ann) if turn % 2 else codes.pop()
        browsers = [sign_in(ann) for _ in range(2)]
        answers = together(*(lambda one=one: one.post("/step-up", {"code": code, "next": "/"}) for one in browsers))
        assert sorted(answer.status_code for answer in answers) == [302, 400]
        AccessAttempt.objects.all().delete()


def test_of_the_last_two_admins_one_stays(ann, ben) -> None:
    admins, _ = Group.objects.get_or_create(name=roles.ADMIN)
    for _ in range(ROUNDS):
        admins.user_set.set([ann, ben])
        results = together(*(lambda who=who: teams.leave(admins, who, by=who) for who in (ann, ben)))
        assert [type(result) for result in results].count(LastAdmin) == 1
        assert admins.user_set.count() == 1


def approve(browser: Client, action: Action) -> Any:
    seen = {"verdict": "approve", "digest": action.digest, "revision": 1, "reason": "seen"}
    return browser.post(f"/actions/{action.pk}/decisions", seen)


def test_a_take_back_and_the_start(shop, ann) -> None:
    for _ in range(ROUNDS):
        action = asked()
        say(action, ann)
        before = len(shop.sent)
        results = together(lambda: decide.take_back(action, by=ann), lambda: deliver.deliver(action.pk))
        sent = len(shop.sent) - before
        assert sent == isinstance(results[0], TooLate)
        assert now_of(action).status == ("delivered" if sent else "awaiting")


def test_two_ticks_call_once(shop, ann) -> None:
    for _ in range(ROUNDS):
        action = asked()
        say(action, ann)
        before = len(shop.sent)
        together(carry_out, carry_out, lambda: deliver.deliver(action.pk))
        assert (len(shop.sent) - before, action.attempts.count()) == (1, 1)


def test_two_looks_at_an_unknown_one_send_once_more(shop, ann) -> None:
    changed_kind(safety="probe", probe=lambda far, order, keys: None)
    for _ in range(ROUNDS):
        action = asked()
        say(action, ann)
        attempt = deliver.start(action.pk, 0)
        assert attempt is not None
        outcomes.record(attempt, Outcome("unknown", error={"type": "OutcomeUnknown", "message": "timeout"}))
        Action.objects.filter(pk=action.pk).update(not_before=clock.now())
        before = len(shop.sent)
        together(lambda: deliver.deliver(action.pk), lambda: deliver.deliver(action.pk))
        assert (len(shop.sent) - before, now_of(action).status) == (1, "delivered")


def test_two_runs_that_ask_for_the_same_at_once_share_one_action(shop, ann) -> None:
    for number in range(ROUNDS):
        runs = [builders.run("story", event=builders.event(data={"key": f"k{number}"})) for _ in range(2)]
        together(*(lambda run=run: work_on(run) for run in runs))
        action = Action.objects.get(key=f"k{number}")
        say(action, ann)
        settle()
        assert [now_of(run).result["key"] for run in runs] == [f"k{number}"] * 2
        assert shop.sent.count(f"k{number}") == 1


def test_a_run_that_joins_while_the_other_ends(shop, ann, owner) -> None:
    """I6: either it joins and the action lives on, or the action is withdrawn and it asks anew. Never stranded."""
    for number in range(ROUNDS):
        first = ask(key=f"j{number}")
        second = builders.run("story", event=builders.event(data={"key": f"j{number}"}))
        together(lambda: redrive.cancel(first, by=owner), lambda: work_on(second))
        waiting = Action.objects.get(key=f"j{number}", status="awaiting")
        say(waiting, ann)
        settle()
        assert now_of(second).status == "succeeded"


def test_a_late_success_and_a_failure_of_the_newest_try(shop, ann) -> None:
    for _ in range(ROUNDS):
        action = asked()
        say(action, ann)
        first = deliver.start(action.pk, 0)
        Action.objects.filter(pk=action.pk).update(leased_until=clock.now() - timedelta(seconds=1))
        outcomes.presume_lost(action.pk)
        Action.objects.filter(pk=action.pk).update(not_before=clock.now())
        second = deliver.start(action.pk, 1)
        assert first is not None
        assert second is not None
        bad = Outcome("failed", error={"type": "Refused", "message": "422"})
        together(
            lambda: outcomes.record(first, Outcome("delivered", {"cups": 1})), lambda: outcomes.record(second, bad)
        )
        assert now_of(action).status == "delivered"
        told = Event.objects.filter(type="approvals.action.settled", subject=f"actions/{action.pk}")
        assert told.count() == 1


def test_a_settled_action_always_wakes_its_run(shop, ann) -> None:
    """The decision falls in the very moment in which the run goes to sleep over it."""
    changed_kind(tier=Tier.MEDIUM)
    for number in range(ROUNDS):
        run = builders.run("story", event=builders.event(data={"key": f"w{number}"}))

        def nod(key: str = f"w{number}") -> None:
            for _ in range(400):
                if action := Action.objects.filter(key=key).first():
                    say(action, ann, "reject")
                    return

        together(lambda: work_on(run), nod)
        settle()
        assert now_of(run).status == "cancelled"


def test_a_person_settles_an_unknown_one_while_the_late_answer_comes(shop, ann) -> None:
    for _ in range(ROUNDS):
        action = asked()
        say(action, ann)
        attempt = deliver.start(action.pk, 0)
        assert attempt is not None
        Action.objects.filter(pk=action.pk).update(leased_until=clock.now() - timedelta(seconds=1))
        outcomes.presume_lost(action.pk)
        together(
            lambda: clearing.settle_unknown(action, by=ann, status="failed", note="gave up"),
            lambda: outcomes.record(attempt, Outcome("delivered", {"cups": 1})),
        )
        assert now_of(action).status == "delivered"
        assert Decision.objects.filter(action=action).count() == 1


def work_on(run: Run) -> bool:
    return execute(run.pk)
