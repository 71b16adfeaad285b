"""A round of the machine: one bad row costs itself, never the round."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError

from approvals import deliver, telling, undoing
from approvals.models import Action
from project import checks_live, desk
from project.lib import apart, clock
from project.lib.crypto import Unreadable
from project.lib.problem import Problem
from project.people.models import User
from tests import builders
from tests.nodding import carry_out
from tests.races.together import together
from triggers import bells, dispatch, fire, learning, stopping, store, waking
from triggers.models import DeadLetter, Event, Pulse

UNWRITTEN = "IntegrityError: a row that cannot be written"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("fault", [DatabaseError("away"), Problem("refused"), Unreadable("sealed with a lost key")])
@pytest.mark.parametrize("stage", ["reclaim_lost", "repair_waits", "match_stored", "ring_due"])
def test_a_stage_that_fails_stops_no_other_one(stage: str, fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def broken(*given: Any, **named: Any) -> int:
        raise fault

    monkeypatch.setattr(fire, "fire_due", lambda: done.append("fire") or 3)
    monkeypatch.setattr(deliver, "deliver_due", lambda: done.append("deliver") or 0)
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
    assert dispatch.tick().done["matched"] == 1
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
    carry_out()
    assert list(Action.objects.filter(status="expired")) == [good]


def test_an_error_nobody_foresaw_stops_no_stage_either_and_is_raised_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> int:
        raise TypeError("a fault of the desk itself")

    done: list[str] = []
    monkeypatch.setattr(dispatch, "reclaim_lost", broken)
    monkeypatch.setattr(deliver, "deliver_due", lambda: done.append("deliver") or 0)
    with pytest.raises(TypeError, match="a fault of the desk itself"):
        desk.tick()
    assert done == ["deliver"]
    faults = Pulse.objects.get(name="tick").detail["faults"]
    assert faults == {"reclaimed": "broken() failed: TypeError: a fault of the desk itself"}


def test_a_process_that_is_told_to_end_begins_no_further_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    def told_to_end() -> int:
        raise SystemExit

    done: list[str] = []
    monkeypatch.setattr(dispatch, "reclaim_lost", told_to_end)
    monkeypatch.setattr(deliver, "deliver_due", lambda: done.append("deliver") or 0)
    with pytest.raises(SystemExit):
        desk.tick()
    assert done == []
    assert not Pulse.objects.filter(name="tick").exists()


def test_a_stage_whose_time_is_over_begins_no_further_row(monkeypatch: pytest.MonkeyPatch) -> None:
    builders.source()
    for _ in range(3):
        builders.event(status="accepted")
    monkeypatch.setattr(apart, "STAGE", -1.0)  # the time of every stage is over before its first row
    assert desk.tick().done["matched"] == 0
    monkeypatch.undo()
    assert desk.tick().done["matched"] == 3


def test_an_undoing_that_takes_all_its_time_leaves_the_deliveries_theirs(
    ann: User, monkeypatch: pytest.MonkeyPatch, later: Callable[..., None]
) -> None:
    def slow() -> int:
        stage = apart.current.get()
        assert stage is not None
        stage.until = 0.0
        return 0

    monkeypatch.setattr(undoing, "tick", slow)
    now = clock.now()
    action = builders.action(by=ann, status="approved", not_before=now, execute_by=now + timedelta(hours=1))
    later(seconds=1)
    assert desk.tick().done["delivered"] == 1
    assert Action.objects.get(pk=action.pk).status != "approved"


def test_what_went_wrong_in_a_round_is_asked_by_the_checks_until_a_round_is_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builders.source()
    builders.trigger()
    event = builders.event(status="accepted")

    def broken(*given: Any) -> bool:
        raise IntegrityError("a row that cannot be written")

    with monkeypatch.context() as patch:
        patch.setattr(store, "start_runs", broken)
        desk.tick()
        assert checks_live.stages() == f"matched: match_one({event.pk}) failed: {UNWRITTEN}"
    desk.tick()
    assert checks_live.stages() == ""


def test_beat_begins_no_round_beside_one_that_is_at_work_here(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATA_DIR = tmp_path
    rounds: list[str] = []

    def slow(_: Any) -> apart.Round:
        rounds.append("begun")
        desk.tick_alone()  # beat asks again meanwhile
        return apart.Round()

    monkeypatch.setattr(dispatch, "tick", slow)
    desk.tick_alone()
    desk.tick_alone()
    assert rounds == ["begun", "begun"]


def test_the_next_round_begins_at_once_while_more_timers_are_over_than_one_has_time_for(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beat asks every two seconds: a round that took a little more was followed by as long a pause."""
    settings.DATA_DIR = tmp_path
    took = [waking.WAKE_FOR, waking.WAKE_FOR + 1, waking.WAKE_FOR - 1, waking.WAKE_FOR]
    monkeypatch.setattr(dispatch, "tick", lambda _: apart.Round(took={"woken": took.pop(0)}))
    desk.tick_alone()
    assert took == [waking.WAKE_FOR]


@pytest.mark.parametrize("told", [(stopping, "SHARED", b"\x01"), (desk, "STINT", 0)], ids=["to stop", "so long"])
def test_no_further_round_begins_in_a_process_that_is_told_to_stop_or_when_its_time_is_over(
    told: tuple[Any, str, Any], settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATA_DIR = tmp_path
    rounds: list[str] = []

    def busy(_: Any) -> apart.Round:
        rounds.append("begun")
        return apart.Round(took={"woken": waking.WAKE_FOR})

    monkeypatch.setattr(dispatch, "tick", busy)
    monkeypatch.setattr(*told)
    desk.tick_alone()
    assert rounds == ["begun"]


def test_the_next_round_begins_in_time_while_a_mail_server_hangs(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATA_DIR = tmp_path
    rounds: list[str] = []
    monkeypatch.setattr(deliver, "deliver_due", lambda: rounds.append("deliver") or 0)

    def hangs() -> int:
        rounds.append("tell")
        desk.tick_alone()  # beat goes on meanwhile
        return 1

    monkeypatch.setattr(telling, "tick", hangs)
    desk.tick_alone()
    assert rounds == ["deliver", "tell", "deliver"]
    assert Pulse.objects.get(name="messages").detail["told"] == 1


def test_people_are_told_also_after_a_round_that_broke_by_an_error_nobody_foresaw(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> int:
        raise TypeError("a fault of the desk itself")

    settings.DATA_DIR = tmp_path
    told: list[str] = []
    monkeypatch.setattr(learning, "learn", broken)
    monkeypatch.setattr(telling, "tick", lambda: told.append("told") or 0)
    with pytest.raises(TypeError, match="a fault of the desk itself"):
        desk.tick_alone()
    assert told == ["told"]


def test_a_process_that_is_told_to_end_tells_nobody_any_more(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told_to_end() -> int:
        raise SystemExit

    settings.DATA_DIR = tmp_path
    told: list[str] = []
    monkeypatch.setattr(learning, "learn", told_to_end)
    monkeypatch.setattr(telling, "tick", lambda: told.append("told") or 0)
    with pytest.raises(SystemExit):
        desk.tick_alone()
    assert told == []


def test_a_dead_run_has_its_letter_also_when_its_end_was_cut_short(ann: User) -> None:
    error = {"type": "ValueError", "message": "no such issue", "traceback": ""}
    run = builders.run(status="dead", finished_at=clock.now(), reason="failed", error=error, attempt=3)
    shares = builders.run(status="dead", finished_at=clock.now(), reason="undeliverable")
    times = {"first_at": clock.now(), "last_at": clock.now()}
    of_action = DeadLetter.objects.create(kind="action", action_id=1, run=shares, error_type="E", **times)
    long_ago = builders.run(status="dead", finished_at=clock.now() - timedelta(days=2), reason="failed")
    assert dispatch.tick().done["buried"] == 1
    letter = DeadLetter.objects.exclude(pk=of_action.pk).get()
    assert (letter.run, letter.error_type, letter.message, letter.attempts) == (run, "ValueError", "no such issue", 3)
    assert dispatch.tick().done["buried"] == 0
    assert not DeadLetter.objects.filter(run__in=[shares, long_ago]).exclude(pk=of_action.pk).exists()


def test_two_rounds_at_once_do_everything_once(later: Callable[..., None]) -> None:
    """Two beats, two machines: each move is a compare-and-set."""
    builders.source()
    builders.trigger("story")
    event = builders.event(status="accepted")
    lost = builders.run("story", status="running", leased_until=clock.now() - timedelta(seconds=1), fence=1)
    rounds = together(*[dispatch.tick] * 3)
    lost.refresh_from_db()
    assert [each.faults for each in rounds] == [{}] * 3
    assert (event.runs.count(), lost.crashes, lost.fence) == (1, 1, 2)
