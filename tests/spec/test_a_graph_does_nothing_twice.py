"""A graph that is run again from its start asks in other words, or by another node: that is one effect, done once."""

from collections.abc import Callable, Iterator
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from tests import builders
from tests.agent_runs import actions
from tests.handlers import work
from tests.nodding import Shop, handling, now_of, say, serving, settle
from triggers import redrive
from triggers.models import Run

pytestmark = pytest.mark.django_db
TEA = {"kind": "shop.order", "arguments": {"item": "tea"}}
Told = tuple[str, dict[str, Any]]  # the node that asks, and its wish


class State(TypedDict, total=False):
    answer: Any


@pytest.fixture
def shop(connection) -> Iterator[Shop]:
    with serving(tier="low") as shop:
        yield shop


@pytest.fixture
def twice(owner) -> Iterator[Callable[..., Run]]:
    """The same run, and run again from its start, by a graph of one node that asks."""
    graphs: list[Any] = []

    def one(name: str, wish: dict[str, Any]) -> None:
        graph = StateGraph(State)
        graph.add_node(name, lambda state: {"answer": interrupt(wish)})
        graph.add_edge(START, name)
        graph.add_edge(name, END)
        graphs.append(graph.compile())

    def again(first: Told, second: Told, meanwhile: Callable[[], Any] = settle) -> Run:
        one(*first)
        run = builders.run("story")
        work()
        meanwhile()
        settle()
        one(*second)
        new = redrive.rerun(now_of(run), by=owner)
        settle()
        return now_of(new)

    with handling(lambda run: run.graph(graphs[-1], {})):
        yield again


@pytest.mark.parametrize(
    "other",
    [
        {"reason": "the guests asked for it"},
        {"arguments": {"item": "tea", "cups": 1}},
        {"evidence": ["they are thirsty"]},
        {"expires": 3600},
        {"connection": "practice-shop"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_is_said_of_it_makes_it_no_other_effect(shop, twice, other):
    new = twice(("ask", TEA | {"reason": "the guests come"}), ("ask", TEA | other))
    assert (new.status, len(shop.sent), len(actions())) == ("succeeded", 1, 1)


def test_nor_does_the_node_that_asks(shop, twice):
    new = twice(("ask", TEA), ("ask_in_other_words", TEA))
    assert (new.status, new.result["answer"]["approved"], len(shop.sent)) == ("succeeded", True, 1)


def test_another_connection_is_another_effect(shop, twice):
    builders.connection("shop", slug="north", practice=False)
    twice(("ask", TEA | {"connection": "practice-shop"}), ("ask", TEA | {"connection": "north"}))
    assert [action.connection.slug for action in actions()] == ["practice-shop", "north"]


def test_a_question_that_was_answered_is_asked_no_second_time(twice, ben):
    question = {"question": "How many cups?"}
    other = question | {"reason": "nobody said", "evidence": ["there is no list"]}
    new = twice(("ask", question), ("ask", other), lambda: say(actions()[0], ben, answer="three"))
    assert (new.result["answer"], len(actions())) == ({"approved": True, "result": "three"}, 1)
