"""Two ticks, a tick and a decision: each message goes out once, and none about what is over."""

from collections.abc import Iterator

import pytest

from approvals import asking, telling
from approvals.models import Asking, Notice
from tests import builders
from tests.nodding import say
from tests.races.together import rounds, together
from tests.slack import FakeSlack
from tests.telling import a_chat, reach
from triggers.models import Event

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ROUNDS = rounds(8)


@pytest.fixture
def chat() -> Iterator[FakeSlack]:
    with a_chat() as chat:
        yield chat


def test_two_ticks_ask_remind_and_sound_the_alarm_once(chat, ann, ben, owner, later) -> None:
    reach(ben, "slack", "U2")
    for _ in range(ROUNDS):
        builders.action(by=ann)
    together(telling.tick, telling.tick)
    telling.tick()
    assert Asking.objects.count() == ROUNDS
    assert len(chat.messages) == ROUNDS
    later(hours=13)
    together(telling.tick, telling.tick)
    telling.tick()
    assert Notice.objects.filter(what="remind").count() == ROUNDS
    assert len(chat.messages) == 2 * ROUNDS


def test_two_ticks_say_once_that_nobody_was_reached(ann, ben, later) -> None:
    for _ in range(ROUNDS):
        builders.action(by=ann)
    telling.tick()
    later(minutes=6)
    together(telling.tick, telling.tick)
    assert Event.objects.filter(type=asking.UNREACHED).count() == ROUNDS


def test_whoever_decides_while_a_message_goes_out_it_is_brought_up_to_date(chat, ann, ben) -> None:
    reach(ben, "slack", "U2")
    for _ in range(ROUNDS):
        action = builders.action(by=ann)
        asking.begin(action.pk)
        together(telling.tick, lambda action=action: say(action, ben))
        for _ in range(3):
            telling.tick()
        sent = Notice.objects.filter(asking__action=action, what="ask", status="sent")
        assert Notice.objects.filter(follows__in=sent, status="sent").count() == sent.count()
        assert Asking.objects.get(action=action).closed_at
    assert not any("button" in str(each) and "approve" in str(each) for each in chat.messages.values())
