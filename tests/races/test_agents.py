"""Agents on PostgreSQL with two real connections: two events never both move one, and none moves it twice."""

import pytest
from django.db import transaction

from project.lib import clock
from tests import builders
from tests.races.together import rounds, together
from triggers import agents, machines, moving
from triggers.ingest import store_internal
from triggers.machines import Move, machine
from triggers.models import Agent, AgentEvent, Event, Run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ROUNDS = rounds(10)


class Key:
    """Turned by whoever comes first."""

    states = ("free", "held")
    moves = (Move("free", "held", on="taken", action="notify"), Move("held", "free", on="given.back"))


@pytest.fixture(autouse=True)
def key():
    machine("key")(Key)
    yield
    machines.MACHINES.pop("key")


def named(agent: Agent, type: str = "taken") -> Event:
    event = builders.event(type, correlationid=agent.slug, received_at=clock.now())
    AgentEvent.objects.create(agent=agent, event=event)
    return event


def outcomes(agent: Agent) -> list[tuple[int | None, str]]:
    return list(agent.history.order_by("event").values_list("number", "outcome"))


def test_of_two_events_at_once_one_moves_it() -> None:
    for turn in range(ROUNDS):
        agent = agents.make(f"key-{turn}", "key", by=None)
        together(lambda: emit(agent), lambda: emit(agent))
        assert sorted(outcomes(agent)) == [(1, "moved"), (2, "no_move")]
        assert Run.objects.filter(event__correlationid=agent.slug).count() == 1


def emit(agent: Agent) -> None:
    with transaction.atomic():
        store_internal(source="/nightdesk", type="taken", correlationid=agent.slug, emitted_by=1)


def test_one_event_looked_at_by_two_moves_it_once() -> None:
    for turn in range(ROUNDS):
        agent = agents.make(f"key-{turn}", "key", by=None)
        for type in ("taken", "given.back", "taken"):
            named(agent, type)
        together(lambda: moving.catch_up(agent.pk), lambda: moving.catch_up(agent.pk))
        assert outcomes(agent) == [(1, "moved"), (2, "moved"), (3, "moved")]
        agent.refresh_from_db()
        assert (agent.status, agent.version, agent.moves) == ("held", 3, 3)
        assert Run.objects.filter(event__correlationid=agent.slug).count() == 2


def test_who_archives_it_while_it_moves_leaves_a_whole_history() -> None:
    for turn in range(ROUNDS):
        agent = agents.make(f"key-{turn}", "key", by=None)
        named(agent)
        together(lambda: moving.catch_up(agent.pk), lambda: agents.archive(agent, by=None))
        agent.refresh_from_db()
        assert agent.archived_at is not None
        assert outcomes(agent) in ([(1, "moved")], [])
        assert agent.version == agent.history.count()
