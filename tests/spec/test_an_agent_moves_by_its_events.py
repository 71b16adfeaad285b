"""An agent is one row: an event that names it moves it once, in its order, and the new state starts its work."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from statemachine.exceptions import InvalidDefinition

from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import registered, work
from triggers import agents, dispatch, machines, moving, redrive
from triggers.errors import NotValid, Permanent, SlugTaken
from triggers.ingest import match_stored, store_internal
from triggers.machines import BadMachine, DuplicateMachine, Move, machine
from triggers.models import Agent, AgentEvent, Audit, Event, Run, Source
from triggers.replaying import replay
from triggers.retention import prune

pytestmark = pytest.mark.django_db


def is_large(event: Event) -> bool:
    return bool(event.data["size"] > 10)


class Kettle:
    """Boils water, and says so."""

    states = ("cold", "hot", "full", "broken")
    moves = (
        Move("cold", "hot", on="heat.on", action="ring-a-bell"),
        Move("hot", "cold", on="heat.off"),
        Move(("cold", "hot"), "full", on="water.added", guard=is_large),
        Move("full", "cold", on="water.poured"),
        Move(("cold", "hot"), "broken", on="nightdesk.run.dead"),
    )
    on_enter = {"hot": "make-tea", "full": "make-tea"}


@pytest.fixture(autouse=True)
def kettle() -> Iterator[None]:
    machine("kettle", version="7")(Kettle)
    yield
    machines.MACHINES.pop("kettle")


@pytest.fixture
def source() -> Source:
    return builders.source("api", kind="cloudevents", provider="", types=["**"])


@pytest.fixture
def kitchen(owner: User) -> Agent:
    return agents.make("kitchen", "kettle", by=owner)


@pytest.fixture
def send(source: Source, owner: User, with_token: Callable[..., Client], commits: Any) -> Callable[..., int]:
    """`send("heat.on", …)`: a program publishes it, naming the agent; returns the event's number."""
    client, count = with_token(owner, "ingest"), iter(range(10_000))

    def publish(type: str, data: Any = None, **more: Any) -> int:
        event = {"specversion": "1.0", "id": str(next(count)), "source": "/stove", "type": type, "data": data or {}}
        body = {**event, "correlationid": "kitchen", **more}
        with commits():
            answer = client.post("/api/v1/events", body, content_type="application/cloudevents+json")
        assert answer.status_code == 202, answer.content
        return int(answer.json()["events"][0]["seq"])

    return publish


@pytest.fixture
def commits(django_capture_on_commit_callbacks: Any) -> Callable[[], Any]:
    return lambda: django_capture_on_commit_callbacks(execute=True)


def state() -> str:
    return Agent.objects.get().status


def history() -> list[tuple[int | None, str, str, str]]:
    return list(AgentEvent.objects.order_by("number").values_list("number", "outcome", "start", "end"))


def started() -> list[str]:
    return list(Run.objects.order_by("pk").values_list("handler", flat=True))


def test_an_event_that_names_it_moves_it_and_starts_the_action_and_what_the_state_asks_for(
    kitchen: Agent, send: Callable[..., int]
) -> None:
    seq = send("heat.on")
    assert (state(), history()) == ("hot", [(1, "moved", "cold", "hot")])
    assert started() == ["ring-a-bell", "make-tea"]
    assert {(run.event_id, run.trigger, run.status) for run in Run.objects.all()} == {(seq, None, "queued")}
    assert AgentEvent.objects.get().machine_version == "7"


def test_an_event_that_fits_no_move_is_told_by_its_name(kitchen: Agent, send: Callable[..., int]) -> None:
    send("heat.off")
    row = AgentEvent.objects.get()
    assert (state(), row.outcome, row.detail) == ("cold", "no_move", "cold has no move on heat.off")
    assert started() == []


def test_a_guard_decides_by_the_event_alone(kitchen: Agent, send: Callable[..., int]) -> None:
    send("water.added", {"size": 3})
    row = AgentEvent.objects.get()
    assert (state(), row.outcome, row.detail) == ("cold", "guarded", "is_large said no")
    send("water.added", {"size": 30})
    assert state() == "full"


def test_a_guard_that_breaks_moves_nothing_and_quotes_nothing(kitchen: Agent, send: Callable[..., int]) -> None:
    send("water.added", {"password": "tea"})
    row = AgentEvent.objects.get()
    assert (state(), row.outcome) == ("cold", "could_not_evaluate")
    assert row.detail == "guard is_large raised KeyError"


def test_a_guard_that_breaks_leaves_its_event_to_no_other_move() -> None:
    class Table:
        states = ("a", "b", "c")
        moves = (Move("a", "b", on="go", guard=is_large), Move("a", "c", on="go"), Move(("b", "c"), "a", on="back"))

    table = machines.read("table", Table, version="1", place="here")
    broken = table.judge(builders.event("go", data={}))
    assert table.answer("a", "go", broken).outcome == "could_not_evaluate"
    assert table.answer("a", "go", table.judge(builders.event("go", data={"size": 3}))).end == "c"


@pytest.mark.parametrize("type", ["heat.on.now", "heat.on.", "heat"])
def test_a_type_that_only_begins_like_one_of_its_own_moves_nothing(
    type: str, kitchen: Agent, send: Callable[..., int]
) -> None:
    send(type)
    send("heat.on")
    assert [outcome for _, outcome, _, _ in history()] == ["no_move", "moved"]


def test_what_the_desk_says_nobody_else_can_say(kitchen: Agent, send: Callable[..., int]) -> None:
    send("nightdesk.run.dead")
    row = AgentEvent.objects.get()
    assert (state(), row.outcome) == ("cold", "no_move")
    assert row.detail == "nightdesk.run.dead counts only when the desk itself says it"


def test_an_event_that_names_nobody_costs_nobody_anything(kitchen: Agent, send: Callable[..., int]) -> None:
    send("heat.on", correlationid="cellar")
    assert (state(), history()) == ("cold", [])


def test_an_event_of_before_it_was_made_moves_it_not(send: Callable[..., int], owner: User) -> None:
    send("heat.on")
    agents.make("kitchen", "kettle", by=owner)
    dispatch.tick()
    assert (state(), history()) == ("cold", [])


def test_a_repeated_delivery_moves_it_once(kitchen: Agent, send: Callable[..., int]) -> None:
    seq = send("heat.on", id="the same")
    Agent.objects.update(status="cold")
    moving.move_agents(["kitchen"])
    assert AgentEvent.objects.get().event_id == seq
    assert state() == "cold", "what it took up once it takes up no second time"


def test_tick_repeats_what_a_crash_swallowed(kitchen: Agent, source: Source) -> None:
    event = builders.event("heat.on", source_slug="api", status="accepted", correlationid="kitchen")
    assert state() == "cold"
    dispatch.tick()
    assert (state(), history()) == ("hot", [(1, "moved", "cold", "hot")])
    assert event.moved.agent == kitchen
    dispatch.tick()
    assert len(history()) == 1
    assert started() == ["ring-a-bell", "make-tea"]


def test_what_came_first_moves_it_first_also_when_it_is_matched_last(
    kitchen: Agent, send: Callable[..., int], source: Source
) -> None:
    first = store_internal(source="/nightdesk", type="heat.on", correlationid="kitchen", emitted_by=1)
    send("heat.off")
    assert (state(), history()) == ("cold", [(None, "", "", ""), (None, "", "", "")]), "one of them is not matched yet"
    match_stored([first.pk])
    dispatch.tick()
    assert [(start, end) for _, _, start, end in history()] == [("cold", "hot"), ("hot", "cold")]


def test_the_runs_it_starts_move_it_on_by_what_they_emit(
    kitchen: Agent, send: Callable[..., int], commits: Any
) -> None:
    with registered("ring-a-bell", lambda run: None), registered("make-tea", lambda run: run.emit(type="heat.off")):
        send("heat.on")
        with commits():
            work()
    assert [(start, end) for _, _, start, end in history()] == [("cold", "hot"), ("hot", "cold")]
    assert Event.objects.get(type="heat.off").hops == 1


def test_a_machine_hears_that_a_run_of_its_own_died(kitchen: Agent, send: Callable[..., int], commits: Any) -> None:
    def burn(run: Any) -> None:
        raise Permanent("no tea left")

    with registered("ring-a-bell", lambda run: None), registered("make-tea", burn):
        send("heat.on")
        with commits():
            work()
    assert state() == "broken"
    death = Event.objects.get(type="nightdesk.run.dead")
    assert (death.correlationid, death.hops) == ("kitchen", 1)


def test_a_machine_hears_that_a_run_of_its_own_succeeded(
    owner: User, send: Callable[..., int], commits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Kettle, "moves", (*Kettle.moves, Move("hot", "cold", on="nightdesk.run.succeeded")))
    machines.MACHINES.pop("kettle")
    machine("kettle", version="7")(Kettle)
    agents.make("kitchen", "kettle", by=owner)
    with registered("ring-a-bell", lambda run: None), registered("make-tea", lambda run: "tea"):
        send("heat.on")
        assert state() == "hot"
        with commits():
            work()
    assert state() == "cold"


class TestAStateThatWasLeft:
    """What its run says counts until another event has moved the agent on."""

    @pytest.fixture
    def says(self, commits: Any) -> Callable[..., tuple[str, str]]:
        """`says(run, "heat.off")`: the run emits it; how the event ended, and the state."""

        def emit(run: Run, type: str, **more: Any) -> tuple[str, str]:
            told = more or {"source": "/nightdesk", "emitted_by": run.pk}
            with commits():
                store_internal(type=type, correlationid="kitchen", hops=1, **told)
            return AgentEvent.objects.latest("number").outcome, state()

        return emit

    @pytest.fixture
    def runs(self, kitchen: Agent, send: Callable[..., int]) -> list[Run]:
        """Of the action of the move into `hot`, and of that state."""
        send("heat.on")
        return list(Run.objects.order_by("pk"))

    def test_its_run_is_let_go_and_that_of_the_move_is_not(self, runs: list[Run], send: Callable[..., int]) -> None:
        send("heat.off")
        bell, tea = Run.objects.order_by("pk")
        assert (bell.cancel_requested_at, tea.cancel_reason) == (None, "state_left")
        dispatch.tick()
        assert [(run.status, run.reason) for run in Run.objects.order_by("pk")][1] == ("cancelled", "state_left")
        assert replay(Agent.objects.get()).is_equal

    def test_what_it_says_comes_too_late(self, runs: list[Run], send: Callable[..., int], says: Any) -> None:
        bell, tea = runs
        send("heat.off")
        assert says(tea, "heat.on") == ("too_late", "cold")
        died = {"source": "/nightdesk", "subject": f"runs/{tea.pk}"}
        assert says(tea, "nightdesk.run.dead", **died) == ("too_late", "cold")
        assert says(bell, "heat.on") == ("moved", "hot"), "an action goes on whatever becomes of the agent"
        assert replay(Agent.objects.get()).is_equal

    def test_run_again_it_comes_too_late_as_well(
        self, runs: list[Run], send: Callable[..., int], says: Any, owner: User
    ) -> None:
        send("heat.off")
        dispatch.tick()
        assert says(redrive.rerun(Run.objects.get(pk=runs[1].pk), by=owner), "heat.on") == ("too_late", "cold")

    def test_what_it_moved_itself_it_may_move_on(self, runs: list[Run], says: Any, send: Callable[..., int]) -> None:
        _, tea = runs
        assert says(tea, "heat.off") == ("moved", "cold")
        assert says(tea, "heat.on") == ("moved", "hot")
        first, second = Run.objects.filter(handler="make-tea").order_by("pk")
        assert (first.cancel_requested_at, second.cancel_requested_at) == (None, None)
        assert says(second, "heat.off") == ("moved", "cold")
        assert says(tea, "heat.on") == ("too_late", "cold"), "the state that it led to has spoken since"
        assert replay(Agent.objects.get()).is_equal


def test_what_the_desk_says_on_the_way_is_no_part_of_its_history(kitchen: Agent, commits: Any) -> None:
    with commits():
        store_internal(source="/approvals", type="approvals.action.decided", correlationid="kitchen")
    assert history() == []


def test_a_chain_that_goes_round_in_circles_ends(kitchen: Agent, commits: Any, source: Source) -> None:
    with commits():
        store_internal(source="/nightdesk", type="heat.on", correlationid="kitchen", hops=9, emitted_by=1)
    assert (state(), history()) == ("cold", [(1, "suppressed", "cold", "cold")])
    assert started() == []


def test_whoever_sent_the_event_asked_for_what_follows(kitchen: Agent, send: Callable[..., int], owner: User) -> None:
    send("heat.on")
    assert {run.requester for run in Run.objects.all()} == {owner}


def test_an_event_whose_machine_is_not_loaded_waits_and_keeps_its_payload(
    kitchen: Agent, send: Callable[..., int], later: Callable[..., None]
) -> None:
    known = machines.MACHINES.pop("kettle")
    send("water.added", {"size": 30})
    assert (state(), history()) == ("cold", [(None, "", "", "")])
    later(days=40)
    prune()
    machines.MACHINES["kettle"] = known
    dispatch.tick()
    assert state() == "full"


def test_an_archived_agent_moves_no_more(kitchen: Agent, send: Callable[..., int], owner: User) -> None:
    agents.archive(kitchen, by=owner)
    send("heat.on")
    dispatch.tick()
    assert (state(), history()) == ("cold", [])
    assert list(Audit.objects.filter(kind="agent").order_by("pk").values_list("verb", flat=True)) == [
        "create",
        "archive",
    ]


def test_an_event_that_was_under_way_as_its_agent_was_archived_starts_nothing(
    kitchen: Agent, send: Callable[..., int]
) -> None:
    loaded = machines.MACHINES.pop("kettle")
    send("heat.on")
    machines.MACHINES["kettle"] = loaded
    Agent.objects.update(archived_at=clock.now())
    dispatch.tick()
    assert (state(), history(), started()) == ("cold", [], [])


def test_two_agents_have_two_names(kitchen: Agent, owner: User) -> None:
    with pytest.raises(SlugTaken):
        agents.make("kitchen", "kettle", by=owner)
    with pytest.raises(NotValid, match="no machine `toaster`"):
        agents.make("bath", "toaster", by=owner)


def test_a_table_that_makes_no_sense_is_refused_in_words() -> None:
    def declared(**said: Any) -> str:
        with pytest.raises((BadMachine, InvalidDefinition)) as refused:
            machine("nonsense")(type("Nonsense", (), said))
        assert "nonsense" not in machines.MACHINES
        return str(refused.value)

    assert "two or more" in declared(states=("one",))
    assert "small letters" in declared(states=("one", "Two!"))
    assert "no state 'three'" in declared(states=("one", "two"), moves=(Move("one", "three", on="x"),))
    assert "no state 'four'" in declared(
        states=("one", "two"), moves=(Move("one", "two", on="x"),), on_enter={"four": "h"}
    )
    assert "unreachable" in declared(
        states=("one", "two", "three"), moves=(Move("one", "two", on="x"), Move("two", "one", on="y"))
    )


def test_two_classes_cannot_have_one_name() -> None:
    with pytest.raises(DuplicateMachine, match="registered by"):
        machine("kettle")(type("Other", (), {"states": Kettle.states, "moves": Kettle.moves}))
