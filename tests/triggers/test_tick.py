"""A round of the machine: one bad row costs itself, never the round."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError

from approvals import deliver
from approvals.models import Action
from project import desk
from project.lib.crypto import Unreadable
from project.lib.problem import Problem
from project.people.models import User
from tests import builders
from triggers import bells, dispatch, fire, store
from triggers.models import Event, Pulse

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("fault", [DatabaseError("away"), Problem("refused"), Unreadable("sealed with a lost key")])
@pytest.mark.parametrize("stage", ["reclaim_lost", "repair_waits", "match_stored", "ring_due"])
def test_a_stage_that_fails_stops_no_other_one(stage: str, fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def broken(*given: Any, **named: Any) -> int:
        raise fault

    monkeypatch.setattr(fire, "fire_due", lambda: done.append("fire") or 3)
    monkeypatch.setattr(deliver, "tick", lambda: done.append("deliver"))
    monkeypatch.setattr(dispatch, stage, broken)
    desk.tick()
    assert done == ["fire", "deliver"]
    assert Pulse.objects.get(name="tick").detail["fired"] == 3


def test_an_event_that_cannot_be_matched_leaves_the_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    builders.source()
    builders.trigger()
    bad, good = builders.event(status="accepted"), builders.event(status="accepted")
    start_runs = store.start_runs

    def choosy(db: Any, member: Any, version: int) -> bool:
        if member.seq == bad.pk:
            raise IntegrityError("a row that cannot be written")
        return start_runs(db, member, version)

    monkeypatch.setattr(store, "start_runs", choosy)
    assert dispatch.tick().matched == 1
    assert list(Event.objects.filter(status="routed")) == [good]
    assert good.runs.count() == 1


def test_runs_without_a_handler_take_no_bells_but_are_asked_again_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[list[int]] = []
    monkeypatch.setattr(bells, "ring", lambda ids: rung.append(list(ids)) or len(ids))
    monkeypatch.setattr(dispatch, "RING_AGAIN", -dispatch.RING_AGAIN)  # every bell is old
    monkeypatch.setattr(dispatch.Place, "rounds", 0)
    gone = builders.run("renamed-away", reason="handler_missing")
    there = builders.run("story")
    for _ in range(11):
        dispatch.tick()
    assert rung == [[gone.pk, there.pk], *[[there.pk]] * 9, [gone.pk, there.pk]]


def test_an_action_that_cannot_expire_leaves_the_others_their_turn(
    ann: User, monkeypatch: pytest.MonkeyPatch, later: Callable[..., None]
) -> None:
    bad, good = builders.action(by=ann), builders.action(by=ann)
    settle = deliver.settle

    def choosy(action: Action, *given: Any, **named: Any) -> None:
        if action.pk == bad.pk:
            raise DatabaseError("a row that cannot be written")
        settle(action, *given, **named)

    monkeypatch.setattr(deliver, "settle", choosy)
    later(days=2)
    deliver.tick()
    assert list(Action.objects.filter(status="expired")) == [good]
