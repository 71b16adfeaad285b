"""What a node of a graph asks a model is paid for once: when its worker dies, when it waits, when a sibling fails."""

import asyncio
import contextvars
import operator
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from django.db import transaction
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt

from approvals.tiers import Tier
from project.graph_requests import remembered
from project.people.models import User
from tests import builders
from tests.agent_runs import actions
from tests.dying import dying_behind, to_its_end
from tests.handlers import work
from tests.nodding import Shop, changed_kind, handling, now_of, say, serving, settle
from triggers import redrive
from triggers.models import DeadLetter, Run, Step

pytestmark = pytest.mark.django_db
WISH = {"kind": "shop.order", "arguments": {"item": "tea"}}


class State(TypedDict, total=False):
    notes: Annotated[list[str], operator.add]
    cups: int


class Paid(BaseChatModel):
    """A chat model of LangChain that counts what it is paid for."""

    asked: Any  # a list of the test's own

    @property
    def _llm_type(self) -> str:
        return "paid"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.asked.append(messages[-1].text)
        call = {"name": "order", "args": {"cups": 2}, "id": f"c{len(self.asked)}", "type": "tool_call"}
        answer = AIMessage(f"{messages[-1].text}: {len(self.asked)}", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


@dataclass
class Story:
    """A node that asks three times and then waits for a nod; after it one that asks again."""

    asked: list[str] = field(default_factory=list)
    ran: Counter[str] = field(default_factory=Counter)
    last: Callable[[], None] = lambda: None

    def compiled(self) -> Any:
        graph = StateGraph(State)
        graph.add_node("think", self.think)
        graph.add_node("thank", self.thank)
        graph.add_edge(START, "think")
        graph.add_edge("think", "thank")
        graph.add_edge("thank", END)
        return graph.compile()

    @property
    def model(self) -> Paid:
        return Paid(asked=self.asked)

    def think(self, state: State) -> State:
        self.ran["think"] += 1
        first = self.model.invoke("how many?")
        again = self.model.invoke("how many?").text
        price = remembered(self.price, "tea", cups=2)
        answer = interrupt(WISH)
        return {
            "notes": [first.text, again, price, str(answer["approved"])],
            "cups": first.tool_calls[0]["args"]["cups"],
        }

    def price(self, item: str, cups: int) -> str:
        self.asked.append("price")
        return f"{cups} {item} cost 3"

    async def thank(self, state: State) -> State:
        self.ran["thank"] += 1
        words = (await self.model.ainvoke("thank them")).text
        price = await remembered(self.later, "milk")
        self.last()
        return {"notes": [words, price]}

    async def later(self, item: str) -> str:
        self.asked.append("later")
        return item


@pytest.fixture
def shop(connection) -> Iterator[Shop]:
    with serving() as shop:
        yield shop


@pytest.fixture
def story() -> Iterator[Story]:
    told = Story()
    with handling(lambda run: run.graph(told.compiled(), {"notes": []})):
        yield told


def begin() -> Run:
    run = builders.run("story")
    work()
    return now_of(run)


def test_the_node_that_waited_runs_from_its_start_and_asks_nothing_again(shop, story, ben):
    run = begin()
    assert (run.status, story.asked) == ("waiting", ["how many?", "how many?", "price"])
    say(actions()[0], ben)
    settle()
    run = now_of(run)
    assert (run.status, story.ran) == ("succeeded", {"think": 2, "thank": 1})
    assert story.asked == ["how many?", "how many?", "price", "thank them", "later"]
    told = ["how many?: 1", "how many?: 2", "2 tea cost 3", "True", "thank them: 4", "milk"]
    assert (run.result["notes"], run.result["cups"]) == (told, 2)


def test_each_answer_is_a_step_beneath_its_superstep(shop, story):
    run = begin()
    steps = list(Step.objects.filter(run=run, inside="graph turn 1").order_by("seq"))
    assert [step.name.rpartition(" ")[0] for step in steps] == ["graph think 0.1 asks"] * 3
    assert steps[1].name == f"{steps[0].name}#2"


def test_no_answer_that_was_kept_is_paid_for_again_wherever_the_worker_dies(shop, story):
    """Behind each single commit of the run, in the middle of a node too."""
    changed_kind(tier=Tier.LOW)
    deaths = 0
    for nth in range(1, 40):
        story.asked.clear()
        story.ran.clear()
        shop.done.clear()
        with dying_behind(nth) as passed:
            run = to_its_end(begin)
        assert run.status == "succeeded", f"it died at commit {nth}"
        assert len(story.asked) == 5, f"it died at commit {nth}"
        if passed.commits < nth:
            break
        deaths += 1
    assert deaths >= 8


def test_a_node_that_fails_after_it_asked_asks_nothing_again(shop, story, ben, owner):
    def fail() -> None:
        raise ValueError("no words")

    story.last = fail
    changed_kind(tier=Tier.LOW)
    run = begin()
    assert run.status == "retrying"
    Run.objects.filter(pk=run.pk).update(status="queued", attempt=4, due_at="2020-01-01T00:00Z")
    work()
    assert (now_of(run).status, len(story.asked)) == ("dead", 5)
    story.last = lambda: None
    redriven = redrive.redrive(DeadLetter.objects.get(), by=owner)
    settle()
    assert (now_of(redriven).status, len(story.asked)) == ("succeeded", 5)


def test_each_of_several_tasks_of_one_node_has_its_own_answers(story):
    graph = StateGraph(State)
    graph.add_node("think", lambda state: {"notes": [story.model.invoke("how many?").text]})
    graph.add_conditional_edges(START, lambda state: [Send("think", {}), Send("think", {})], ["think"])
    graph.add_edge("think", END)
    with handling(lambda run: run.graph(graph.compile(), {"notes": []}), name="several"):
        run = builders.run("several")
        work()
    assert sorted(now_of(run).result["notes"]) == ["how many?: 1", "how many?: 2"]


def test_a_graph_within_a_graph_asks_anew_each_time_it_is_entered(story):
    inner = StateGraph(State)
    inner.add_node("think", lambda state: {"notes": [story.model.invoke("how many?").text]})
    inner.add_edge(START, "think")
    inner.add_edge("think", END)
    graph = StateGraph(State)
    graph.add_node("first", inner.compile())
    graph.add_node("second", inner.compile())
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_conditional_edges("second", lambda state: "first" if len(story.asked) < 4 else END, ["first", END])
    with handling(lambda run: run.graph(graph.compile(), {"notes": []}), name="nested"):
        run = builders.run("nested")
        work()
    assert (now_of(run).status, len(story.asked)) == ("succeeded", 4)
    assert len(set(now_of(run).result["notes"])) == 4


class TestARequestThatFails:
    """It is no answer, so it counts as none: what is asked after it is known by the same name in every worker."""

    @pytest.fixture
    def flaky(self, story, monkeypatch) -> list[Exception]:
        """The model, and the price, first raise what is in here."""
        faults: list[Exception] = []
        generate, price = Paid._generate, story.price

        def fails_first(whole: Callable[..., Any]) -> Callable[..., Any]:
            def asked(*given: Any, **named: Any) -> Any:
                if faults:
                    raise faults.pop()
                return whole(*given, **named)

            return asked

        monkeypatch.setattr(Paid, "_generate", fails_first(generate))
        monkeypatch.setattr(story, "price", fails_first(price))
        return faults

    def paid_after_the_nod(self, graph: StateGraph[Any], asked: list[str], ben: User) -> int:
        with handling(lambda run: run.graph(graph.compile(), {"notes": []}), name="flaky"):
            run = builders.run("flaky")
            work()
            before = len(asked)
            say(actions()[0], ben)
            settle()
        assert now_of(run).status == "succeeded"
        return len(asked) - before

    def test_in_a_node_before(self, shop, story, flaky, ben):
        def one(state: State) -> State:
            flaky.append(ConnectionError("away"))
            with suppress(ConnectionError):
                story.model.invoke("status?")
            return {"notes": ["one"]}

        def two(state: State) -> State:
            words = story.model.invoke("status?").text
            return {"notes": [words, str(interrupt(WISH)["approved"])]}

        graph = StateGraph(State)
        graph.add_sequence([one, two])
        graph.add_edge(START, "one")
        assert self.paid_after_the_nod(graph, story.asked, ben) == 0

    @pytest.mark.parametrize("how", ["model", "model, awaited", "function", "function, awaited"])
    def test_in_the_same_node_which_asks_once_more(self, shop, story, flaky, ben, how):
        async def later() -> str:
            return str(story.price("tea", cups=2))

        async def ask() -> str:
            if how == "model, awaited":
                return (await story.model.ainvoke("status?")).text
            if how == "function, awaited":
                return str(await remembered(later))
            return story.model.invoke("status?").text if how == "model" else str(remembered(story.price, "tea", cups=2))

        async def one(state: State) -> State:
            flaky.extend([] if story.asked else [ConnectionError("away")])
            words = ""
            while not words:
                with suppress(ConnectionError):
                    words = await ask()
            return {"notes": [words, str(interrupt(WISH)["approved"])]}

        graph = StateGraph(State)
        graph.add_sequence([one])
        graph.add_edge(START, "one")
        assert self.paid_after_the_nod(graph, story.asked, ben) == 0

    def test_two_at_once_of_which_one_fails(self, shop, story, flaky, ben):
        async def one(state: State) -> State:
            flaky.extend([] if story.asked else [ConnectionError("away")])
            told = await asyncio.gather(*[story.model.ainvoke("status?") for _ in range(2)], return_exceptions=True)
            return {"notes": [*map(str, told), str(interrupt(WISH)["approved"])]}

        graph = StateGraph(State)
        graph.add_sequence([one])
        graph.add_edge(START, "one")
        assert self.paid_after_the_nod(graph, story.asked, ben) == 1, "the one that has no answer yet"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["model", "function"])
def test_a_node_that_asks_inside_of_a_transaction_is_told_so(story, how):
    """Its answer is kept by another connection, which on SQLite would wait for the end of this very transaction."""

    def one(state: State) -> State:
        with transaction.atomic():
            words = story.model.invoke("status?").text if how == "model" else remembered(story.price, "tea", cups=2)
        return {"notes": [words]}

    graph = StateGraph(State)
    graph.add_sequence([one])
    graph.add_edge(START, "one")
    with handling(lambda run: run.graph(graph.compile(), {"notes": []}), name="inside"):
        run = builders.run("inside")
        work()
    run = now_of(run)
    assert (run.status, run.error["type"], story.asked) == ("dead", "AskedInTransaction", [])


def test_whoever_a_node_left_behind_asks_for_nothing_once_its_superstep_is_over(story):
    told, go = [], threading.Event()
    threads: list[threading.Thread] = []

    def late() -> None:
        go.wait(10)
        try:
            remembered(story.price, "tea", cups=1)
        except RuntimeError as error:
            told.append(str(error))

    def one(state: State) -> State:
        threads.append(threading.Thread(target=contextvars.copy_context().run, args=[late], daemon=True))
        threads[0].start()
        return {"notes": ["one"]}

    def two(state: State) -> State:
        go.set()
        threads[0].join(10)
        return {"notes": [str(threads[0].is_alive())]}

    graph = StateGraph(State)
    graph.add_sequence([one, two])
    graph.add_edge(START, "one")
    with handling(lambda run: run.graph(graph.compile(), {"notes": []}), name="late"):
        run = builders.run("late")
        work()
    assert (now_of(run).result["notes"], told) == (["one", "False"], ["the superstep of this node is over"])
    assert story.asked == []


def test_beside_a_graph_nothing_is_remembered(story):
    begin()
    before = len(story.asked)
    assert get_llm_cache() is not None
    assert story.model.invoke("how many?").text == f"how many?: {before + 1}"
    assert remembered(story.price, "tea", cups=1) == "1 tea cost 3"
    assert len(story.asked) == before + 2
