"""An agent's events, played again by its machine from any snapshot to any moment, give the state it was in then."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from project.lib import clock
from project.people.models import User
from tests import builders
from triggers import agents, machines, moving
from triggers.errors import NotValid, PayloadGone
from triggers.machines import Move, machine
from triggers.models import Agent, AgentEvent, AgentSnapshot, Event, Run
from triggers.replaying import replay

pytestmark = pytest.mark.django_db
TYPES = ("up", "down", "stop", "lost", "unheard")


def is_even(event: Event) -> bool:
    return bool(event.data["n"] % 2 == 0)


class Lift:
    """Goes up and down."""

    states = ("ground", "first", "second", "stuck")
    moves = (
        Move("ground", "first", on="up", guard=is_even),
        Move("ground", "second", on="up", action="ring-a-bell"),
        Move("first", "second", on="up"),
        Move(("first", "second"), "ground", on="down"),
        Move(("ground", "first", "second"), "stuck", on="stop", guard=is_even),
        Move("stuck", "ground", on="up"),
    )
    on_enter = {"second": "look-around"}


@pytest.fixture(autouse=True)
def lift(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(moving, "SNAPSHOT", 3)
    machine("lift")(Lift)
    yield
    machines.MACHINES.pop("lift")


def ride(agent: Agent, *rides: tuple[str, int]) -> None:
    """Each event at a later second than the one before; one of 5 and more is said by a run that the agent started."""
    for type, n in rides:
        status = "suppressed" if type == "lost" else "routed"
        own = list(Run.objects.filter(event__moved__agent=agent).order_by("pk").values_list("pk", flat=True))
        by = own[-(n - 4) :][0] if n > 4 and own else None
        told = {"status": status, "correlationid": agent.slug, "received_at": clock.now(), "emitted_by": by}
        event = builders.event(type, data={"n": n}, **told)
        AgentEvent.objects.create(agent=agent, event=event)
        moving.catch_up(agent.pk)
        clock.shift += timedelta(seconds=1)


def lives() -> Iterator[tuple[AgentEvent, Any]]:
    for row in AgentEvent.objects.order_by("number"):
        assert row.at is not None
        yield row, row.at


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rides=st.lists(st.tuples(st.sampled_from(TYPES), st.integers(0, 9)), min_size=1, max_size=14), data=st.data())
def test_any_replay_to_any_moment_equals_what_was_lived(
    rides: list[tuple[str, int]], data: st.DataObject, later: Callable[..., None]
) -> None:
    agent = agents.make(f"lift-{Agent.objects.count()}", "lift", by=None)
    ride(agent, *rides)
    agent.refresh_from_db()
    assert replay(agent).state == agent.status
    row, at = data.draw(st.sampled_from([pair for pair in lives() if pair[0].agent_id == agent.pk]))
    _, since = data.draw(st.sampled_from([pair for pair in lives() if pair[0].agent_id == agent.pk]))
    before = Run.objects.count()
    for begin in (None, since):
        if begin is not None and at < begin:
            with pytest.raises(NotValid, match="earlier than"):
                replay(agent, since=begin, until=at)
            continue
        found = replay(agent, since=begin, until=at)
        assert (found.state, found.is_equal) == (row.end, True), (begin, at)
    assert Run.objects.count() == before, "nothing is started"
    assert list(agent.history.values_list("number", flat=True).order_by("number")) == [*range(1, len(rides) + 1)]


def test_a_snapshot_is_kept_every_so_many_moves_and_a_replay_begins_at_the_last_one_before(
    owner: User, later: Callable[..., None]
) -> None:
    agent = agents.make("lift", "lift", by=owner)
    ride(agent, *[("up", 0), ("unheard", 0), ("up", 0), ("down", 0), ("up", 0), ("up", 0)])
    assert list(AgentSnapshot.objects.values_list("number", "status")) == [(4, "ground")]
    [_, _, _, _, fifth, sixth] = [at for _, at in lives()]
    assert (replay(agent).began_at, replay(agent).count) == (0, 6)
    found = replay(agent, since=sixth)
    assert (found.began_at, found.count, [one.row.number for one in found.played]) == (4, 2, [6])
    assert (found.state, found.is_equal) == ("second", True)
    assert replay(agent, since=fifth, until=fifth).state == "first"


def test_a_machine_that_was_changed_is_seen_in_the_replay_and_changes_nothing(
    owner: User, later: Callable[..., None]
) -> None:
    agent = agents.make("lift", "lift", by=owner)
    ride(agent, ("up", 0), ("up", 0))
    machines.MACHINES.pop("lift")
    machine("lift", version="2")(
        type("Low", (), {"states": Lift.states[:2], "moves": (Move("ground", "first", "up"),)})
    )
    found = replay(agent)
    assert (found.state, found.lived, found.differences, found.is_equal) == ("first", "second", 1, False)
    assert [(one.outcome, one.is_as_it_was) for one in found.played] == [("moved", True), ("no_move", False)]
    agent.refresh_from_db()
    assert agent.status == "second"


def test_what_retention_removed_cannot_be_judged_again_and_says_from_when_it_can(
    owner: User, later: Callable[..., None]
) -> None:
    agent = agents.make("lift", "lift", by=owner)
    ride(agent, ("up", 0), ("up", 0), ("down", 0), ("down", 0), ("up", 0))
    Event.objects.filter(pk=AgentEvent.objects.get(number=1).event_id).update(pruned_at=clock.now())
    with pytest.raises(PayloadGone, match="ask for a moment after"):
        replay(agent)
    last = AgentEvent.objects.get(number=5)
    assert replay(agent, since=last.at).is_equal


def test_a_replay_needs_the_code(owner: User) -> None:
    agent = agents.make("lift", "lift", by=owner)
    known = machines.MACHINES.pop("lift")
    with pytest.raises(NotValid, match="No code is loaded"):
        replay(agent)
    machines.MACHINES["lift"] = known
