"""The policy changes while people decide and effects start: whoever holds the gate first is first; nothing slips by."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection as database
from django.db import transaction

from approvals import amending, deliver
from approvals.act import act
from approvals.errors import AlreadyDecided
from approvals.models import Action, Attempt, PolicyChange, PolicyRule, PolicyVersion
from project.lib import gate
from project.people.models import User
from tests import builders
from tests.conftest import person
from tests.handlers import work
from tests.nodding import Shop, carry_out, handling, now_of, say, serving, settle
from tests.races.together import rounds, together
from tests.ruled import rule
from triggers.errors import Stale

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ROUNDS = rounds(8)


@pytest.fixture
def shop(db: None) -> Iterator[Shop]:
    builders.connection("shop", practice=False)
    with serving() as shop, handling(lambda run: act(run, "order", kind="shop.order")):
        yield shop


def asked() -> Action:
    run = builders.run("story")
    work()
    return Action.objects.get(acts__run=run)


def create(slug: str, by: User, effect: str = "require", **fields: Any) -> Any:
    return amending.save("create", slug, None, by=by, when="true", effect=effect, **fields)


def test_a_start_and_a_rule_that_denies_it_are_one_after_the_other(shop, ben, owner):
    for number in range(ROUNDS):
        action = asked()
        say(action, ben)
        together(
            lambda: deliver.deliver(action.pk),
            lambda: create(f"never-{number}", owner, "deny"),
        )
        deliver.deliver(action.pk)
        now, since = now_of(action), PolicyVersion.objects.latest("number").at
        started = Attempt.objects.filter(action=action).values_list("started_at", flat=True)
        if now.status == "delivered":
            assert [at < since for at in started] == [True], "it had started before the rule was in force"
        else:
            assert (now.status, list(started)) == ("rejected", [])
        PolicyRule.objects.all().delete()
        PolicyVersion.write(by=None)


def test_two_people_and_a_rule_that_wants_two_end_with_two_or_an_earlier_start(shop, ben, owner):
    cat = person("cat", "viewer", "reviewer")
    for number in range(ROUNDS):
        action = asked()
        together(
            lambda: say(action, ben),
            lambda: create(f"two-{number}", owner, quorum=2),
            carry_out,
        )
        settle()
        now = now_of(action)
        if now.status == "delivered":
            since = PolicyVersion.objects.latest("number").at
            assert Attempt.objects.get(action=action).started_at < since
        else:
            assert (now.status, now.needed > now.given) == ("awaiting", True)
            for each in (ben, cat):
                say(action, each)
            settle()
            assert (now_of(action).status, now_of(action).given) == ("delivered", 2)
        assert Attempt.objects.filter(action=action).count() == 1
        PolicyRule.objects.all().delete()
        PolicyVersion.write(by=None)


@pytest.mark.parametrize("door", ["decide", "start"])
def test_a_verdict_of_before_is_computed_again_once_the_gate_is_held(shop, ben, door):
    action = asked()
    if door == "start":
        say(action, ben)
    heard: list[Any] = []

    def knock() -> None:
        try:
            if door == "decide":
                say(action, ben)
            else:
                deliver.deliver(action.pk)
            heard.append(now_of(action).status)
        except AlreadyDecided as refusal:
            heard.append(refusal.facts["status"])
        finally:
            database.close()

    with transaction.atomic():
        gate.exclusive()
        late = threading.Thread(target=knock)
        late.start()
        wait_for_the_gate()
        rule("never", "true", "deny")
    late.join(timeout=30)
    assert heard == ["rejected"]
    assert (now_of(action).status, now_of(action).policy, shop.sent) == ("rejected", "never", [])


def wait_for_the_gate() -> None:
    """Until somebody waits for the advisory lock that this connection holds."""
    for _ in range(500):
        with database.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
            if cursor.fetchone()[0]:
                return
            cursor.execute("SELECT pg_sleep(0.02)")
    raise AssertionError("nobody came to the gate")


def test_two_admins_who_save_at_once_lose_nothing_of_each_other(shop, owner):
    for number in range(ROUNDS):
        slugs = [f"{name}-{number}" for name in ("one", "two")]
        together(*(lambda slug=slug: create(slug, owner, quorum=2) for slug in slugs))
        text = PolicyVersion.in_force()[1]
        assert all(f'"{slug}"' in text for slug in slugs)
    numbers = list(PolicyVersion.objects.order_by("number").values_list("number", flat=True))
    assert numbers == list(range(1, 2 * ROUNDS + 1))


def test_two_admins_who_change_one_rule_at_once_are_one_and_a_stale_one(shop, owner):
    row = create("one", owner)
    results = together(
        lambda: amending.save("change", "one", row, by=owner, version=1, quorum=2),
        lambda: amending.save("change", "one", row, by=owner, version=1, quorum=3),
    )
    assert sorted(type(each).__name__ for each in results) == ["PolicyRule", "Stale"]
    assert isinstance(next(each for each in results if not isinstance(each, PolicyRule)), Stale)
    assert PolicyRule.objects.get().version == 2


def test_two_admins_who_confirm_at_once_confirm_once(shop, owner):
    row = create("all", owner, tier="high")
    change = amending.save("archive", "all", row, by=owner, version=1)
    one, two = (person(name, "viewer", "admin") for name in ("ada", "bob"))
    together(lambda: amending.confirm(change, by=one), lambda: amending.confirm(change, by=two))
    assert PolicyChange.objects.get().status == "confirmed"
    assert PolicyVersion.newest() == 2
