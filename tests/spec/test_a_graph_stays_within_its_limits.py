"""What chat models take within a graph is booked, told and bounded as what an agent asks for."""

import operator
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from project.agent import budget
from project.agent.models import Reservation, Spending
from project.graph_requests import remembered
from project.lib import clock
from tests import builders
from tests.agent_runs import actions
from tests.handlers import work
from tests.nodding import handling, now_of, say, serving, settle
from triggers.models import DeadLetter, Run, Step, Trigger

pytestmark = pytest.mark.django_db
COUNTED = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
PRICED = {"price_in": 10, "price_out": 50}  # dollars a million: 0.002 an answer


class State(TypedDict, total=False):
    notes: Annotated[list[str], operator.add]


class Model(BaseChatModel):
    """A chat model of LangChain that says what it took, or nothing."""

    asked: Any  # a list of the test's own
    counted: Any = COUNTED

    @property
    def _llm_type(self) -> str:
        return "counted"

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        self.asked.append(messages[-1].text)
        said = {"model_name": "scripted-1", "model_provider": "openai"}
        answer = AIMessage("words " * 20, usage_metadata=self.counted, response_metadata=said)
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Broken(Model):
    """One that fails."""

    def _generate(self, *told: Any, **_: Any) -> ChatResult:
        raise ZeroDivisionError


@pytest.fixture
def asked() -> list[str]:
    return []


def graph_of(*nodes: Callable[[State], Any]) -> Any:
    made = StateGraph(State)
    made.add_sequence(list(nodes))
    made.add_edge(START, nodes[0].__name__)
    made.add_edge(nodes[-1].__name__, END)
    return made.compile()


def begun(graph: Any, limits: Any = None) -> Run:
    with handling(lambda run: run.graph(graph, {"notes": []}, limits=limits), name="bounded"):
        run = builders.run("bounded", trigger=builders.trigger("bounded"))
        work()
    return now_of(run)


def three_times(model: Model) -> Callable[[State], State]:
    def think(state: State) -> State:
        return {"notes": [model.invoke(f"question {number}").text for number in range(3)]}

    return think


@pytest.mark.parametrize("awaited", [False, True])
def test_each_answer_is_booked_with_what_the_model_counted(asked, awaited):
    model = Model(asked=asked)

    async def think(state: State) -> State:
        words = await model.ainvoke("status?") if awaited else model.invoke("status?")
        return {"notes": [words.text]}

    run = begun(graph_of(think), PRICED)
    row = Spending.objects.get()
    assert (run.status, row.run_id, row.trigger, row.model) == ("succeeded", run.pk, run.trigger_id, "scripted-1")
    assert (row.tokens_in, row.tokens_out, row.micros) == (100, 20, 2000)
    assert row.step == Step.objects.get(name__contains=" asks ").name


@pytest.mark.parametrize("nonsense", [None, {**COUNTED, "output_tokens": -5}, {**COUNTED, "input_tokens": -5}])
def test_one_that_counts_nothing_or_nonsense_is_booked_by_its_length(asked, nonsense):
    begun(graph_of(three_times(Model(asked=asked, counted=nonsense))))
    assert (len(asked), Spending.objects.count()) == (3, 3)
    assert all(row.tokens_in > 0 and row.tokens_out == 30 and row.micros is None for row in Spending.objects.all())


@pytest.mark.parametrize(
    ("limits", "told", "paid"),
    [
        ({"max_requests": 2}, "2 requests of a run", 2),
        ({"max_tokens": 200}, "200 tokens of a run", 2),
        ({"max_cost": 0.002, **PRICED}, "0.002 dollars of a run", 1),
        ({"day_tokens": 100}, "100 tokens of a day", 1),
        ({"day_cost": 0.004, **PRICED}, "0.004 dollars of a day", 2),
    ],
)
def test_one_that_would_be_too_many_ends_the_run_and_says_which_limit(asked, limits, told, paid):
    run = begun(graph_of(three_times(Model(asked=asked))), limits)
    assert (run.status, run.reason, len(asked)) == ("cancelled", "limit_reached", paid)
    assert run.error["message"] == f"limit reached: {told}"
    assert not DeadLetter.objects.exists()


def test_a_node_that_catches_everything_does_not_go_on_without_its_model(asked):
    model, after = Model(asked=asked), []

    def think(state: State) -> State:
        for number in range(3):
            try:
                model.invoke(f"question {number}")
            except Exception:
                after.append(number)
        return {"notes": ["done"]}

    assert begun(graph_of(think), {"max_requests": 1}).reason == "limit_reached"


def test_the_usual_limits_of_an_agent_hold_where_none_are_said(asked):
    def think(state: State) -> State:
        return {"notes": [Model(asked=asked).invoke(f"question {number}").text for number in range(25)]}

    run = begun(graph_of(think))
    assert (run.reason, len(asked)) == ("limit_reached", 20)


def test_the_seconds_of_a_run_are_those_of_its_requests(asked, monkeypatch):
    moments = iter(range(0, 10_000, 200))
    monkeypatch.setattr("project.graph_requests.time", SimpleNamespace(monotonic=lambda: float(next(moments))))
    run = begun(graph_of(three_times(Model(asked=asked))), {"max_seconds": 400})
    assert (run.reason, run.error["message"]) == ("limit_reached", "limit reached: 400 seconds of a run")
    assert len(asked) == 2


@pytest.mark.usefixtures("connection")
def test_what_was_asked_before_a_wait_is_counted_after_it(asked, ben):
    model = Model(asked=asked)

    def ask(state: State) -> State:
        return {"notes": [model.invoke("first").text, str(interrupt({"kind": "shop.order", "arguments": {}})["why"])]}

    def thank(state: State) -> State:
        return {"notes": [model.invoke("second").text, model.invoke("third").text]}

    graph = graph_of(ask, thank)
    with serving(), handling(lambda run: run.graph(graph, {"notes": []}, limits={"max_requests": 2}), name="bounded"):
        run = builders.run("bounded")
        work()
        say(actions()[0], ben, "reject")
        settle()
    assert (now_of(run).reason, asked) == ("limit_reached", ["first", "second"])
    assert Spending.objects.count() == 2


def test_what_a_function_is_paid_for_counts_no_tokens(asked):
    def think(state: State) -> State:
        return {"notes": [remembered(str, number) for number in range(3)]}

    assert (begun(graph_of(think), {"max_requests": 1}).status, Spending.objects.count()) == ("succeeded", 0)


@pytest.mark.parametrize("told", [{"spent": 5}, {"spent": {"tokens_in": 1}}, "nobody", {"generations": []}])
def test_a_step_of_ones_own_is_no_answer_whatever_it_is_called(asked, told):
    def story(run: Any) -> Any:
        run.step("who asks for it", lambda: told)
        return run.graph(graph_of(three_times(Model(asked=asked))), {"notes": []}, limits={"max_requests": 3})

    with handling(story):
        run = builders.run("story")
        work()
    assert (now_of(run).status, len(asked)) == ("succeeded", 3)


class TestWhatOthersMayUse:
    """Of several runs of a trigger at once none asks for what another one is about to use."""

    @pytest.fixture
    def other(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
        """`other(seconds)`: another run of every trigger holds all of the day back for so long."""
        monkeypatch.setattr(budget.DayReserved, "after", timedelta(seconds=0.05))

        def holds(seconds: float) -> None:
            run, until = builders.run("other"), clock.now() + timedelta(seconds=seconds)
            trigger = builders.trigger("bounded").pk
            Reservation.objects.create(run=run, trigger=trigger, tokens=5000, micros=0, until=until)

        return holds

    def begun(self, node: Callable[[State], State]) -> Run:
        trigger = Trigger.objects.get(handler="bounded")
        with handling(
            lambda run: run.graph(graph_of(node), {"notes": []}, limits={"day_tokens": 5000}), name="bounded"
        ):
            run = builders.run("bounded", trigger=trigger)
            work()
        return now_of(run)

    def test_it_waits_and_then_says_which_limit(self, asked, other):
        other(3600)
        run = self.begun(three_times(Model(asked=asked)))
        told = "limit reached: 5000 tokens of a day, with what requests under way may use"
        assert (run.status, run.reason, run.error["message"], asked) == ("cancelled", "limit_reached", told, [])

    def test_it_goes_on_when_that_is_free_and_holds_its_own_share_meanwhile(self, asked, other, monkeypatch):
        held: list[int] = []
        release = budget.release

        def released(run: Run) -> None:
            held.extend(Reservation.objects.filter(run=run).values_list("tokens", flat=True))
            release(run)

        monkeypatch.setattr(budget, "release", released)
        other(0.01)
        run = self.begun(three_times(Model(asked=asked)))
        assert (run.status, len(held), len(asked)) == ("succeeded", 3, 3)
        assert all(tokens > 4096 for tokens in held)
        assert not Reservation.objects.filter(run=run).exists()

    def test_a_request_that_fails_holds_nothing_once_its_superstep_is_over(self, asked, other):
        def fail(state: State) -> State:
            with suppress(ZeroDivisionError):
                Broken(asked=asked).invoke("question")
            return {"notes": ["without it"]}

        other(0)
        assert self.begun(fail).status == "succeeded"
        assert not Reservation.objects.exclude(run__handler="other").exists()


def test_a_limit_in_dollars_needs_a_price(asked):
    run = begun(graph_of(three_times(Model(asked=asked))), {"max_cost": 1})
    assert (run.status, run.error["type"], len(asked)) == ("dead", "NoPrice", 1)


@pytest.mark.parametrize("limits", [{"max_request": 2}, {"max_tokens": 0}, {"instructions": "x"}])
def test_limits_that_are_none_are_refused_by_name(asked, limits):
    run = begun(graph_of(three_times(Model(asked=asked))), limits)
    assert (run.status, run.error["type"], asked) == ("dead", "NoLimits", [])
    assert next(iter(limits)) in run.error["message"]


def test_pages_tell_what_it_took(asked, ann, sign_in):
    run = begun(graph_of(three_times(Model(asked=asked))), PRICED)
    shown = " ".join(sign_in(ann).get(f"/runs/{run.pk}").content.decode().split())
    for told in ("<dt>Answers</dt><dd>3</dd>", "<dt>Tokens</dt><dd>360</dd>", "<dd>$0.006</dd>"):
        assert told in shown
    assert "what it was told" not in shown
    with handling(lambda run: None, name="bounded"):
        assert "$0.006 an event, $0.006 and 360 tokens today" in sign_in(ann).get("/handlers").content.decode()
