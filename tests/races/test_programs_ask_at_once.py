"""Programs outside at the same moment: one key is one action, and the room of a token is never overdrawn."""

from collections.abc import Callable
from typing import Any

import pytest

from approvals import outside
from approvals.errors import StillRunning, TooManyWaiting
from approvals.models import Action
from approvals.outside import Wanted
from project.people.models import ApiToken
from tests import builders
from tests.nodding import serving
from tests.races.together import rounds, together

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ROUNDS = rounds(8)


def token() -> ApiToken:
    return ApiToken.objects.all().issue(user=None, service="robot", name="agent", scopes=["propose"])[0]


def asking(robot: ApiToken, key: str, cups: int = 1) -> Callable[[], Any]:
    return lambda: outside.ask(robot, key, Wanted("shop.order", {"item": "tea", "cups": cups}))


def test_two_requests_with_one_key_are_one_action() -> None:
    builders.connection("shop", practice=False)
    with serving():
        robot = token()
        for number in range(ROUNDS):
            told = together(*[asking(robot, f"k{number}", number + 1)] * 4)
            taken = [each for each in told if not isinstance(each, StillRunning)]
            assert sum(is_new for _, is_new in taken) == 1
            assert len({action.pk for action, _ in taken}) == 1
            assert asking(robot, f"k{number}", number + 1)()[1] is False
        assert Action.objects.count() == ROUNDS


def test_the_room_of_a_token_is_never_overdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "MOST_WAITING", 3)
    builders.connection("shop", practice=False)
    with serving():
        robot = token()
        told = together(*[asking(robot, f"k{number}", number + 1) for number in range(6)])
        assert sum(isinstance(each, TooManyWaiting) for each in told) == 3
        assert Action.objects.awaiting().count() == 3
