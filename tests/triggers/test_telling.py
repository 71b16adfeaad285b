"""What follows the door's answers keeps numbers, never bodies, and never more than it may hold."""

import asyncio
import json

import pytest

from tests import builders
from tests.deliveries import github, send
from triggers import agents, telling
from triggers.door import Door
from triggers.models import AgentEvent, Event, Run
from triggers.telling import Teller, Told

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[list[Told]]:
    """What each round was given to tell."""
    rounds: list[list[Told]] = []
    monkeypatch.setattr(telling, "tell", lambda fresh, repeats: rounds.append(fresh))
    return rounds


def take_in(*bodies: bytes) -> None:
    async def run() -> None:
        door = Door()
        door.teller = Patient()
        for number, body in enumerate(bodies):
            await send(door, **github(body, id=f"d-{number}"))
        await door.teller.go_on()
        await door.close()

    asyncio.run(run())


class Patient(Teller):
    """Gathers until it is asked."""

    def start(self) -> None:
        pass


def test_of_an_answered_event_only_numbers_are_kept(gathered: list[list[Told]]) -> None:
    builders.source()
    builders.trigger()
    take_in(json.dumps({"text": "x" * 100_000}).encode())
    event = Event.objects.get()
    assert gathered == [[Told(event.pk, (event.runs.get().pk,), awaited=False, later=False)]]


def test_beyond_its_number_the_rest_is_left_to_tick(
    gathered: list[list[Told]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "MOST", 2)
    builders.source()
    take_in(b'{"n": 1}', b'{"n": 2}', b'{"n": 3}')
    first, second, _ = Event.objects.order_by("pk").values_list("pk", flat=True)
    assert [[told.seq for told in fresh] for fresh in gathered] == [[first, second]]


def test_an_agent_that_a_delivery_names_has_moved_when_all_is_told() -> None:
    builders.source("api", kind="cloudevents", provider="", types=["**"])
    agents.make("coder", "code-agent", by=None)
    event = {"specversion": "1.0", "id": "1", "source": "/tasks", "type": "task.assigned", "correlationid": "coder"}
    headers = {"Content-Type": "application/cloudevents+json", "Authorization": f"Bearer {builders.SECRET}"}

    async def deliver() -> None:
        door = Door()
        for _ in range(2):
            await send(door, "api", body=json.dumps({**event, "data": {"title": "Tea"}}).encode(), headers=headers)
        await door.close()

    asyncio.run(deliver())
    assert AgentEvent.objects.values_list("outcome", "start", "end").get() == ("moved", "idle", "planning")
    assert Run.objects.get().handler == "plan-task"


def test_what_comes_while_it_rests_is_told_in_one_go(gathered: list[list[Told]]) -> None:
    """A bell costs as much as two deliveries, and a worker that heard one looks for more by itself."""

    async def run() -> None:
        teller = Teller()
        for seq in range(1, 6):
            teller.fresh.append(Told(seq, (seq,), awaited=False, later=False))
            teller.start()
            while len(gathered) == 0:
                await asyncio.sleep(0)
        await teller.finish()

    asyncio.run(run())
    assert [[told.seq for told in fresh] for fresh in gathered] == [[1], [2, 3, 4, 5]]


def test_a_round_rings_for_few(monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[int] = []
    monkeypatch.setattr(telling.bells, "ring", lambda runs: rung.extend(runs) or len(rung))
    telling.tell([Told(seq, (seq,), awaited=False, later=False) for seq in range(1, 40)], [])
    assert rung == [1, 2]
