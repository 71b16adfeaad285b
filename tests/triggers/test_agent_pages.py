"""The pages of agents: what teaches when there is none, the diagram, the history page by page, the replay."""

from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from django.test import Client

from project.lib import clock
from project.lib.diagram import Arrow, states
from project.people.models import User
from tests import builders
from triggers import agents, machines, moving
from triggers.machines import Move, machine
from triggers.models import Agent, AgentEvent

pytestmark = pytest.mark.django_db
HOSTILE = "<img src=x onerror=window.__x=1>"


class Door:
    """Opens & closes."""

    states = ("closed", "open", "locked")
    moves = (
        Move("closed", "open", on="pushed", action="notify"),
        Move("open", "closed", on="pulled"),
        Move(("closed", "open"), "locked", on="key.turned"),
        Move("locked", "locked", on="pushed"),
    )


@pytest.fixture(autouse=True)
def door() -> Iterator[None]:
    machine("door")(Door)
    yield
    machines.MACHINES.pop("door")


@pytest.fixture
def gate(owner: User) -> Agent:
    return agents.make("gate", "door", by=owner)


def push(agent: Agent, *types: str) -> None:
    for type in types:
        event = builders.event(type, correlationid=agent.slug)
        AgentEvent.objects.create(agent=agent, event=event)
    moving.catch_up(agent.pk)


@pytest.fixture
def admin(owner: User, sign_in: Callable[[User], Client]) -> Client:
    return sign_in(owner)


def text_of(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def test_the_empty_list_teaches_how_to_write_one(admin: Client) -> None:
    page = text_of(admin, "/agents")
    assert "No agent yet" in page
    assert "from triggers.machines import Move, machine" in page
    assert "Opens &amp; closes." in page


def test_an_admin_makes_one_and_archives_it(admin: Client) -> None:
    answer = admin.post("/agents", {"slug": "gate", "machine": "door"})
    assert answer["location"] == "/agents/gate"
    assert Agent.objects.get().status == "closed"
    assert "This slug is in use" in admin.post("/agents", {"slug": "gate", "machine": "door"}).content.decode()
    assert admin.post("/agents", {"slug": "two words", "machine": "door"}).status_code == 422
    assert admin.post("/agents/gate/archive")["location"] == "/agents"
    assert "gate" not in text_of(admin, "/agents").split("<main", 1)[1].split("No agent yet")[1]
    assert "Archived" in text_of(admin, "/agents/gate")


def test_the_page_shows_the_state_the_diagram_and_what_each_event_did(admin: Client, gate: Agent) -> None:
    assert "Nothing has moved it yet" in text_of(admin, "/agents/gate")
    push(gate, "pushed", "knocked", "key.turned")
    page = text_of(admin, "/agents/gate")
    start = page.index('<svg class="machine"')
    svg = ElementTree.fromstring(page[start : page.index("</svg>", start) + 6])
    now = [group for group in svg.iter("g") if group.get("class") == "state now"]
    assert [group.findtext("text") for group in now] == ["locked"]
    assert svg.get("aria-label") == "The states of door: closed, open, locked. gate is locked."
    assert "open has no move on knocked" in page
    assert 'href="/runs/' in page, "the run that the first move started"
    assert 'data-live="agent:gate"' in page


def test_the_history_comes_page_by_page_and_as_a_file(admin: Client, gate: Agent) -> None:
    push(gate, *["pushed", "pulled"] * 30)
    page = text_of(admin, "/agents/gate")
    assert page.count('class="mono">pushed') + page.count('class="mono">pulled') == 50 + 3, "and the table of moves"
    assert "Load 50 more" in page
    assert text_of(admin, "/agents/gate?rows=100").count('<li class="row" data-key=') == 60
    rows = admin.get("/agents/gate?format=csv").getvalue().decode().splitlines()
    assert (len(rows), rows[1].split(",")[0]) == (61, "60")
    assert "Nothing matches" in text_of(admin, "/agents/gate?outcome=guarded")


def test_a_replay_is_told_on_the_page(admin: Client, gate: Agent) -> None:
    push(gate, "pushed", "pulled", "pushed")
    assert "3 events played again: it ends in <b>open</b>" in text_of(admin, "/agents/gate?replay=on")
    machines.MACHINES.pop("door")
    machine("door")(type("Stuck", (), {"states": Door.states[:2], "moves": (Move("closed", "open", "pushed"),)}))
    assert "2 went another way" in text_of(admin, "/agents/gate?replay=on")


def test_a_machine_that_is_not_loaded_is_said(admin: Client, gate: Agent) -> None:
    known = machines.MACHINES.pop("door")
    assert "No code is loaded for this machine" in text_of(admin, "/agents/gate")
    assert "No code is loaded" in text_of(admin, "/agents/gate?replay=on")
    machines.MACHINES["door"] = known


def test_hostile_words_of_an_event_stay_words(admin: Client, gate: Agent) -> None:
    push(gate, HOSTILE)
    assert HOSTILE not in text_of(admin, "/agents/gate")


def test_the_page_of_an_event_names_the_agent_it_moved(admin: Client, gate: Agent) -> None:
    push(gate, "pushed")
    page = text_of(admin, f"/events/{AgentEvent.objects.get().event_id}")
    assert 'href="/agents/gate"' in page
    assert "Run by hand" not in page


def test_a_list_of_agents_asks_few_questions(
    admin: Client, gate: Agent, one_look: None, django_assert_max_num_queries: Any
) -> None:
    push(gate, *["pushed", "pulled"] * 10)
    admin.get("/agents")  # what every page asks once
    with django_assert_max_num_queries(15):
        admin.get("/agents/gate")
    with django_assert_max_num_queries(12):
        admin.get("/agents")


def test_the_api_tells_and_replays(admin: Client, gate: Agent) -> None:
    push(gate, "pushed", "knocked")
    told = admin.get("/api/v1/agents/gate").json()
    assert (told["status"], told["version"], told["moves"], told["waiting"]) == ("open", 2, 1, 0)
    assert [(row["number"], row["outcome"], len(row["runs"])) for row in told["history"]] == [
        (2, "no_move", 0),
        (1, "moved", 1),
    ]
    found = admin.post(
        "/api/v1/agents/gate/replay", {"since": clock.now().isoformat()}, content_type="application/json"
    )
    assert (found.json()["equal"], found.json()["status"], found.json()["played"]) == (True, "open", [])
    assert admin.get("/api/v1/agents/gate/history?outcome=no_move").json()["items"][0]["type"] == "knocked"


def test_arrows_of_one_side_keep_out_of_each_others_way() -> None:
    arrows = [Arrow(0, 2, "1"), Arrow(1, 3, "2"), Arrow(3, 0, "3"), Arrow(2, 2, "4"), Arrow(0, 1, "5", "last")]
    svg = ElementTree.fromstring(states(("a", "b", "c", "d" * 40), arrows, current="b", label="A & B"))
    words = {group.findtext("text"): group for group in svg.iter("g") if (group.get("class") or "").startswith("arrow")}
    assert set(words) == {"1", "2", "3", "4", "5"}
    lanes = {name: group.find("text").get("x") for name, group in words.items()}  # type: ignore[union-attr]
    assert lanes["1"] != lanes["2"]
    assert words["5"].get("class") == "arrow last"
    assert all(0 < int(x or 0) < 320 for x in lanes.values())
    assert "d" * 40 not in ElementTree.tostring(svg, "unicode")
