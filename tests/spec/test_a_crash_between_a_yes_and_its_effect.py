"""A process dies at any named place between a yes and its effect: then it happens once, or a person is asked what did.

The places are those that a yes really passes, so one that is added tomorrow is died at too. tests/chaos kills whole
processes there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from approvals import clearing
from approvals.act import act
from approvals.models import Action
from project.lib import failpoints
from project.people.models import User
from tests import builders
from tests.handlers import work
from tests.nodding import Shop, carry_out, handling, now_of, say, serving, settle
from triggers.models import DeadLetter, Event, Run

pytestmark = pytest.mark.django_db(transaction=True)
KNOWN = {
    "after_decision",
    "after_delivering_commit",
    "before_call",
    "after_call",
    "before_outcome_commit",
    "after_outcome",
}
SURELY_CALLED = ("after_call", "before_outcome_commit", "after_outcome")


class Gone(BaseException):
    """The process is no more."""


@contextmanager
def passing(reached: Callable[[str], None]) -> Iterator[None]:
    failpoints.reached = reached
    try:
        yield
    finally:
        failpoints.reached = None


def asked() -> tuple[Run, Action]:
    run = builders.run("story")
    work()
    return run, Action.objects.latest("pk")


def nodded(action: Action, ben: User) -> None:
    say(action, ben)
    carry_out()


def places(ben: User) -> list[str]:
    """All that a yes passes on its way to an effect, in order."""
    passed: list[str] = []
    _, action = asked()
    with passing(passed.append):
        nodded(action, ben)
    assert now_of(action).status == "delivered"
    assert {*passed} >= KNOWN
    return list(dict.fromkeys(passed))


def dies_at(place: str, action: Action, ben: User) -> None:
    def reached(here: str) -> None:
        if here == place:
            raise Gone

    with pytest.raises(Gone), passing(reached):
        nodded(action, ben)


@pytest.mark.parametrize("safety", ["keyed", "probe", "unsafe"])
def test_it_happens_once_or_a_person_is_asked(
    safety: str, connection: object, ann: User, ben: User, later: Callable[..., None]
) -> None:
    with serving(safety=safety) as shop, handling(lambda run: act(run, "order", kind="shop.order")):
        for place in places(ben):
            run, action = asked()
            dies_at(place, action, ben)
            for _ in range(4):
                later(seconds=50)
                settle()
            if safety == "unsafe" and now_of(action).status == "unknown":
                somebody_looks(action, shop, ann)
            told(place, now_of(run), now_of(action), shop, may_repeat=safety == "keyed")


def somebody_looks(action: Action, shop: Shop, operator: User) -> None:
    assert shop.sent.count(action.key) <= 1, "nobody guesses"
    happened = "delivered" if action.key in shop.done else "not_sent"
    clearing.settle_unknown(now_of(action), by=operator, status=happened, note="looked")
    settle()


def told(place: str, run: Run, action: Action, shop: Shop, *, may_repeat: bool) -> None:
    sent = shop.sent.count(action.key)
    assert (action.status, run.status) == ("delivered", "succeeded"), place
    assert action.key in shop.done, place
    assert sent == 1 or (may_repeat and place in SURELY_CALLED and sent == 2), (place, sent)
    assert action.decisions.count() == 1, "nobody is asked twice"
    assert Event.objects.filter(type="approvals.action.settled", subject=f"actions/{action.pk}").count() == 1
    assert not DeadLetter.objects.open().exists()
