"""A hundred people and rounds at one action in the same moment, on PostgreSQL: yes, no, edit, expiry, take-back,
withdrawal, the switch, the start. Whoever wins, it ends once, and happens once or never."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from approvals import decide, deliver
from approvals.decide import Said
from approvals.errors import AlreadyDecided, AlreadySaid, ApprovalProblem, Changed, ExpiredAlready, NotReviewer, TooLate
from approvals.models import Action, Connection, Decision
from project.lib import canonical, clock
from project.people.models import User
from tests import builders
from tests.conftest import person
from tests.nodding import Shop, now_of, say, serving, settle
from tests.races.together import together
from triggers import pausing
from triggers.models import Audit, Event

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
PEOPLE = 10
LATE = (AlreadyDecided, AlreadySaid, Changed, ExpiredAlready, TooLate)
STOPPED = ("rejected", "cancelled", "expired")


@pytest.fixture
def shop(connection: Connection) -> Iterator[Shop]:
    with serving(take_back=timedelta(seconds=0)) as shop:
        yield shop


def asked(way: Connection, by: User, **fields: Any) -> Action:
    """One that waits for two people and for one no, and expires in the middle of the crowd."""
    soon = clock.now() + timedelta(seconds=0.3)
    given = {"connection": way, "take_back_for": 0, "needed": 2, "expires_at": soon, "execute_by": None, **fields}
    made = builders.action("shop.order", by=by, arguments={"cups": 1, "item": "tea"}, **given)
    text = canonical.text({**made.envelope, "connection": way.slug, "connection_version": way.version})
    frozen = {"canonical": text, "digest": canonical.digest_of_text(text), "connection_version": way.version}
    Action.objects.filter(pk=made.pk).update(**frozen)  # as `act()` would have frozen it
    return now_of(made)


def crowd(action: Action, people: list[User], operator: User, *, stops: bool) -> list[Callable[[], Any]]:
    """A hundred deeds: what each knows of the action is what was on the screen before."""
    seen = {"digest": action.digest, "revision": action.revision}

    def says(by: User, verdict: str, **more: Any) -> Callable[[], Any]:
        return lambda: decide.decide(action, by=by, verdict=verdict, reason="so it is", **seen, **more)

    def turn(way: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: way("kind", "shop.order", by=operator)

    deeds: list[Callable[[], Any]] = [says(by, "approve") for by in people for _ in range(5)]
    deeds += [says(by, "reject" if stops else "approve") for by in people[:8]]
    deeds += [says(by, "approve", arguments={"item": "tea", "cups": 2}) for by in people[:6]]
    deeds += [lambda by=by: decide.take_back(action, by=by) for by in people]  # type: ignore[misc]
    deeds += [(lambda: decide.cancel(action, by=operator)) if stops else deliver.deliver_due for _ in range(4)]
    deeds += [turn(pausing.pause), turn(pausing.resume)] * 4
    deeds += [deliver.expire_overdue] * 6 + [lambda: deliver.deliver(action.pk)] * 8
    random.Random(action.pk).shuffle(deeds)
    assert len(deeds) == 100
    return deeds


def test_a_hundred_at_once_end_it_once_and_it_happens_once_or_never(
    shop: Shop, connection: Connection, ann: User, owner: User
) -> None:
    people = [person(f"reviewer-{number}", "reviewer") for number in range(PEOPLE)]
    ends = set()
    for stops in (True, False, True):
        later = {} if stops else {"expires_at": clock.now() + timedelta(hours=1)}
        action, before = asked(connection, ann, **later), len(shop.sent)
        results = together(*crowd(action, people, owner, stops=stops))
        for refusal in (one for one in results if isinstance(one, ApprovalProblem)):
            assert isinstance(refusal, (*LATE, NotReviewer)), refusal
        stopped = now_of(action).status in STOPPED
        pausing.resume("kind", "shop.order", by=owner)
        if not stops:
            for by in people[:2]:  # whoever was taken back or edited away says it again
                with suppress(*LATE):
                    say(action, by)
        settle()
        ended = now_of(action)
        assert stops or ended.status == "delivered"
        ends.add(ended.status)
        assert not stopped or len(shop.sent) == before, "what was stopped before it started never happens"
        assert len(shop.sent) - before == (ended.status == "delivered")
        check_what_was_said(ended, [one for one in results if isinstance(one, Said) and one.is_new])
        check_that_it_ended_once(ended)
    assert ends <= {*STOPPED, "delivered", "awaiting"}


def check_what_was_said(action: Action, said: list[Said]) -> None:
    """Each answer "it counts" is a row, each row is in the log; what happened had the yes of two who did not ask."""
    rows = Decision.objects.filter(action=action)
    assert {one.id for one in said} <= set(rows.values_list("pk", flat=True))
    assert Audit.objects.filter(kind="action", ref=str(action.pk), verb__in=["approve", "edit"]).count() >= len(
        [row for row in rows if row.verdict != "reject"]
    )
    if action.status == "delivered":
        yes = set(rows.filter(verdict="approve", revision=action.revision).values_list("by_id", flat=True))
        no = set(rows.filter(verdict="reject", revision=action.revision).values_list("by_id", flat=True))
        assert len(yes - no) >= 2
        assert not (yes & set(action.requester_chain))
        assert rows.filter(verdict="approve", revision=action.revision, digest=action.digest).count() == len(yes)


def check_that_it_ended_once(action: Action) -> None:
    told = Event.objects.filter(type="approvals.action.settled", subject=f"actions/{action.pk}")
    assert told.count() == action.is_settled
    ends = Audit.objects.filter(kind="action", ref=str(action.pk), detail__has_key="status")
    finals = [row for row in ends if row.detail["status"] in (*STOPPED, "delivered")]
    assert len({row.detail["status"] for row in finals}) <= 1


def test_of_a_hundred_the_same_person_is_heard_once(shop: Shop, connection: Connection, ann: User) -> None:
    cem = person("cem", "reviewer")
    action = asked(connection, ann, needed=2, expires_at=clock.now() + timedelta(hours=1))
    seen = {"digest": action.digest, "revision": 1}
    results = together(*[lambda: decide.decide(action, by=cem, verdict="approve", **seen) for _ in range(100)])
    assert sum(one.is_new for one in results) == 1
    assert (now_of(action).given, now_of(action).status) == (1, "awaiting")
