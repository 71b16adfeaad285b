"""AP-03 on whichever database the suite runs: a decision and a start are single on SQLite too."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from approvals.act import act
from approvals.decide import Said
from approvals.errors import AlreadyDecided
from approvals.models import Connection
from project.people.models import User
from tests import builders
from tests.handlers import work
from tests.nodding import Shop, carry_out, handling, say, serving, the_action
from tests.races.together import rounds, together
from triggers.configure import insert_named, make_source, make_trigger
from triggers.errors import SlugTaken

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def shop(db: None) -> Iterator[Shop]:
    assert Connection.objects.count() == 0
    builders.connection("shop", practice=False)
    with serving() as shop, handling(lambda run: act(run, "order", kind="shop.order")):
        yield shop


def test_fifty_times_a_yes_and_a_no_at_once(shop: Shop, ann: User, ben: User) -> None:
    for _ in range(rounds(50)):
        run = builders.run("story")
        work()
        action = the_action(run=run)
        before = len(shop.sent)
        results = together(lambda: say(action, ann), lambda: say(action, ben, "reject"))
        carry_out()
        won = [result for result in results if isinstance(result, Said)]
        lost = [result for result in results if isinstance(result, AlreadyDecided)]
        assert (len(won), len(lost), action.decisions.count()) == (1, 1, 1)
        assert len(shop.sent) - before == (won[0].status == "approved")


@pytest.mark.parametrize("what", ["source", "trigger", "connection"])
def test_of_two_who_take_one_short_name_at_once_the_second_is_told(db: None, what: str) -> None:
    builders.source("github")
    for number in range(rounds(5)):
        slug = f"shop-{number}"
        deeds: dict[str, Callable[[], Any]] = {
            "source": lambda slug=slug: make_source(by=None, slug=slug, kind="webhook", provider="github"),
            "trigger": lambda slug=slug: make_trigger(by=None, slug=slug, source="github", handler="triage-issue"),
            "connection": lambda slug=slug: insert_named(Connection(slug=slug, system="github")),
        }
        results = together(deeds[what], deeds[what])
        assert sum(isinstance(result, SlugTaken) for result in results) == 1, results


def test_ten_times_three_ticks_at_once(shop: Shop, ann: User) -> None:
    for number in range(rounds(10)):
        run = builders.run("story")
        work()
        say(the_action(run=run), ann)
        together(carry_out, carry_out, carry_out)
        assert len(shop.sent) == number + 1
