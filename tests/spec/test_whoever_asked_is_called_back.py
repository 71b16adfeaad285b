"""A program outside is told that its action has ended: signed, once, again until it was taken, and never inwards."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from approvals import call_backs
from approvals.models import CallBack
from project import client as copied
from project.lib import backoff, failpoints
from project.people.models import User
from tests.agents import Receiver, agent, ask
from tests.nodding import carry_out, now_of, say, serving, the_action
from triggers.models import DeadLetter, Event

pytestmark = pytest.mark.usefixtures("connection")


@pytest.fixture
def robot(db: None) -> Iterator[Client]:
    with serving():
        yield agent("robot")


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    with Receiver() as receiver:
        settings.EGRESS_ALLOW = (f"127.0.0.1:{receiver.port}",)
        yield receiver


def ended(robot: Client, ben: User, receiver: Receiver, verdict: str = "reject") -> str:
    """An action that has just ended; the secret that its asker was given."""
    told = ask(robot, callback_url=receiver.url).json()
    say(the_action(), ben, verdict)
    return str(told["callback_secret"])


def test_it_is_told_once_and_signed(robot: Client, ben: User, receiver: Receiver) -> None:
    secret = ended(robot, ben, receiver, "approve")
    for _ in range(3):
        carry_out()
    [(headers, body)] = receiver.got
    told = copied.verify(secret, headers, body)
    assert (told["type"], told["data"]["status"], told["data"]["key"]) == ("action.settled", "delivered", "one")
    assert told["data"]["id"] == the_action().pk
    assert b"cups" not in body, "arguments are read with the token"
    assert CallBack.objects.get().told_at is not None


def test_nobody_is_called_before_the_end(robot: Client, receiver: Receiver) -> None:
    ask(robot, callback_url=receiver.url)
    carry_out()
    assert receiver.got == []


def test_a_call_that_is_not_taken_is_made_again_under_the_same_id(
    robot: Client, ben: User, receiver: Receiver, later: Callable[..., None]
) -> None:
    receiver.next(500, 302, 204)
    ended(robot, ben, receiver)
    for _ in range(5):
        carry_out()
        carry_out()
        later(hours=1)
    assert len(receiver.got) == 3
    assert {headers["webhook-id"] for headers, _ in receiver.got} == {f"action-{the_action().pk}-settled"}
    row = CallBack.objects.get()
    assert (row.tries, row.due_at, row.error) == (3, None, "")


@pytest.mark.parametrize(("answers", "calls"), [([410], 1), ([500] * 20, len(call_backs.PAUSES) + 1)])
def test_it_is_given_up_in_the_end_and_that_is_seen(
    robot: Client, ben: User, receiver: Receiver, later: Callable[..., None], sign_in: Any, answers: Any, calls: int
) -> None:
    receiver.next(*answers)
    ended(robot, ben, receiver)
    for _ in range(12):
        carry_out()
        later(days=2)
    assert len(receiver.got) == calls
    assert CallBack.objects.get().due_at is None
    assert not DeadLetter.objects.exists(), "a message causes nothing in the desk"
    page = sign_in(ben).get(f"/actions/{the_action().pk}").content.decode()
    assert f"It could not be told of the end: 127.0.0.1: status {answers[0]}" in page
    assert "of=it" not in page, "the address is a secret of its own"


def test_a_far_side_that_is_down_is_called_later(robot: Client, ben: User, settings: Any) -> None:
    with Receiver() as down:
        settings.EGRESS_ALLOW = (f"127.0.0.1:{down.port}",)
        ended(robot, ben, down)
    carry_out()
    row = CallBack.objects.get()
    assert (row.tries, row.told_at, row.error) == (1, None, "POST 127.0.0.1: no connection could be made")
    assert row.due_at is not None
    assert row.due_at > the_action().settled_at


def test_it_never_leads_inwards(robot: Client, ben: User, receiver: Receiver, settings: Any) -> None:
    """Allowed when it was asked for, and not any more when it would be called."""
    ended(robot, ben, receiver)
    settings.EGRESS_ALLOW = ()
    carry_out()
    assert receiver.got == []
    assert "private or reserved" in CallBack.objects.get().error


def test_two_rounds_at_once_make_one_call(robot: Client, ben: User, receiver: Receiver, monkeypatch: Any) -> None:
    """The other one comes between the look at the row and the plan of its next try."""
    ended(robot, ben, receiver)
    number, around, others = CallBack.objects.get().pk, backoff.around, []

    def slowly(seconds: float) -> Any:
        if not others:
            others.append(0)
            others[0] = call_backs.call(number)
        return around(seconds)

    monkeypatch.setattr(backoff, "around", slowly)
    assert (call_backs.call(number), others) == (False, [True])
    assert len(receiver.got) == 1


def test_a_process_that_dies_in_the_call_loses_nothing(
    robot: Client, ben: User, receiver: Receiver, later: Callable[..., None], monkeypatch: Any
) -> None:
    ended(robot, ben, receiver)
    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "reached", lambda name: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            call_backs.call(CallBack.objects.get().pk)
    later(minutes=2)
    carry_out()
    assert receiver.told[0]["status"] == "rejected"


def test_nobody_is_called_for_a_token_that_was_revoked(robot: Client, ben: User, receiver: Receiver) -> None:
    ended(robot, ben, receiver)
    robot.token.revoke()  # type: ignore[attr-defined]
    carry_out()
    assert receiver.got == []


def test_each_token_has_a_secret_of_its_own_and_none_is_stored(robot: Client, receiver: Receiver) -> None:
    mine = ask(robot, callback_url=receiver.url).json()["callback_secret"]
    other = ask(agent("other"), callback_url=receiver.url).json()["callback_secret"]
    assert mine.startswith("whsec_")
    assert mine != other
    assert ask(robot, callback_url=receiver.url).json()["callback_secret"] == mine
    assert ask(robot, "without").json()["callback_secret"] is None
    assert receiver.url not in str(CallBack.objects.values().first())
    assert now_of(the_action(proposal__key="without")).status == "awaiting"


@pytest.mark.parametrize("change", ["body", "id", "time", "no time", "secret", "unsigned"])
def test_what_is_not_from_the_desk_is_told_apart(robot: Client, ben: User, receiver: Receiver, change: str) -> None:
    secret = ended(robot, ben, receiver)
    carry_out()
    [(headers, body)] = receiver.got
    headers = {name.lower(): value for name, value in headers.items()}
    copied.verify(secret, headers, body)
    headers |= {"id": {"webhook-id": "other"}, "unsigned": {"webhook-signature": "v1,"}}.get(change, {})
    headers |= {"webhook-timestamp": str(int(headers["webhook-timestamp"]) - 301)} if change == "time" else {}
    headers |= {"webhook-timestamp": "²"} if change == "no time" else {}
    secret = "whsec_AAAA" if change == "secret" else secret
    with pytest.raises(copied.Forged):
        copied.verify(secret, headers, body + b" " if change == "body" else body)


def test_it_starts_nothing_in_the_desk(robot: Client, ben: User, receiver: Receiver) -> None:
    ended(robot, ben, receiver)
    before = Event.objects.count()
    carry_out()
    assert receiver.got
    assert Event.objects.count() == before
