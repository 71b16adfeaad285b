"""What users of other systems report of interrupts, asked of ours: each answer goes to whoever asked, once."""

import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt

from approvals import decide
from approvals.errors import Refused
from approvals.kinds import Arguments
from approvals.tiers import Tier
from tests import builders
from tests.agent_runs import actions, again
from tests.handlers import work
from tests.nodding import Shop, changed_kind, handling, now_of, say, serving, settle
from triggers import redrive
from triggers.errors import Permanent
from triggers.models import Run

pytestmark = pytest.mark.django_db


class State(TypedDict, total=False):
    notes: Annotated[list[str], operator.add]
    item: str


def order(item: str) -> Any:
    return interrupt({"kind": "shop.order", "arguments": {"item": item}})


def told(answer: Any) -> str:
    return str(answer["result"]["cups"]) if answer["approved"] else answer["why"].partition(":")[0]


@pytest.fixture
def shop(connection) -> Iterator[Shop]:
    with serving() as shop:
        yield shop


@pytest.fixture
def running() -> Iterator[Callable[..., Run]]:
    """`running(node, …)`: a run of a graph of these nodes, one after the other."""
    with handling(lambda run: run.graph(graphs[-1], {"notes": []})):
        graphs: list[Any] = []

        def begin(*nodes: Any) -> Run:
            graphs.append(nodes[0] if len(nodes) == 1 and not callable(nodes[0]) else in_a_row(*nodes).compile())
            run = builders.run("story")
            work()
            return now_of(run)

        yield begin


def in_a_row(*nodes: Any) -> Any:
    graph = StateGraph(State)
    names = [START, *(f"n{number}" for number in range(len(nodes))), END]
    for number, node in enumerate(nodes):
        graph.add_node(f"n{number}", node)
    for before, after in itertools.pairwise(names):
        graph.add_edge(before, after)
    return graph


def test_two_that_ask_for_the_same_at_once_are_two_requests_each_with_its_own_answer(shop, running, ben):
    """42, 44, 52: ids of interrupts that were alike; one answer for all; one no for all."""
    graph = StateGraph(State)
    graph.add_node("buy", lambda state: {"notes": [f"{state['item']} {told(order('tea'))}"]})
    graph.add_conditional_edges(START, lambda state: [Send("buy", {"item": item}) for item in "ab"], ["buy"])
    graph.add_edge("buy", END)
    run = running(graph.compile())
    first, second = actions()
    say(second, ben, "reject")
    settle()
    assert (now_of(run).status, [action.status for action in actions()]) == ("waiting", ["awaiting", "rejected"])
    say(first, ben)
    settle()
    assert sorted(now_of(run).result["notes"]) == ["a 1", "b rejected"]
    assert len(shop.sent) == 1


def test_a_node_that_asks_twice_is_answered_twice_and_asks_for_nothing_again(shop, running, ben):
    """43: going on loops at the same pause, or repeats what was done."""
    ran: Counter[str] = Counter()

    def node(state: State) -> State:
        ran["node"] += 1
        return {"notes": [told(order("tea")), told(order("milk"))]}

    run = running(node)
    for item in ("tea", "milk"):
        action = actions()[-1]
        assert action.arguments["item"] == item
        say(action, ben)
        settle()
        again(run) if now_of(run).status == "waiting" else None
    assert (now_of(run).result["notes"], len(actions()), ran["node"]) == (["1", "1"], 2, 3)


def test_it_is_asked_in_a_loop_and_within_a_graph_within_it(shop, running, ben):
    """26: a gate in a branch, a loop or a sub-run that is passed by."""
    inner = in_a_row(lambda state: {"notes": [told(order(f"tea {len(state['notes'])}"))]}).compile()
    graph = StateGraph(State)
    graph.add_node("sub", inner)
    graph.add_edge(START, "sub")
    graph.add_conditional_edges("sub", lambda state: END if len(state["notes"]) > 2 else "sub", ["sub", END])
    run = running(graph.compile())
    for number in range(1, 9):
        if now_of(run).status != "waiting":
            break
        assert (len(actions()), len(shop.sent)) == (number, number - 1), "one more is asked for, none goes unasked"
        say(actions()[-1], ben)
        settle()
    assert (now_of(run).status, len(shop.sent)) == ("succeeded", len(actions()))


def test_after_a_no_nothing_is_sent_however_it_goes_on(shop, running, ben, owner):
    """34, 47: what was rejected or withdrawn is carried out all the same."""
    run = running(lambda state: {"notes": [told(order("tea"))]})
    say(actions()[0], ben, "reject")
    settle()
    again(run)
    assert (now_of(run).result["notes"], shop.sent) == (["rejected"], [])
    redrive.rerun(run, by=owner)
    settle()
    assert (actions()[-1].status, shop.sent) == ("awaiting", []), "asked anew, and nothing before somebody nods"
    decide.cancel(actions()[-1], by=owner)
    settle()
    assert (Run.objects.latest("pk").result["notes"], shop.sent) == (["cancelled"], [])


def test_silence_is_no_yes(shop, running, later):
    """5, 7: what nobody answered goes on as if somebody had said yes."""
    run = running(lambda state: {"notes": [told(order("tea"))]})
    later(days=2)
    settle()
    assert (now_of(run).result["notes"], shop.sent) == (["expired"], [])


def test_what_failed_at_the_far_side_is_no_answer_of_a_person(shop, running, ben):
    """56: the node gets what came of it, not that somebody nodded."""
    shop.faults = [Refused("422 no tea")]
    run = running(lambda state: {"notes": [told(order("tea"))]})
    say(actions()[0], ben)
    settle()
    assert (now_of(run).status, now_of(run).result["notes"]) == ("succeeded", ["failed"])


def test_the_node_learns_what_a_reviewer_made_of_it(shop, running, ben):
    """37, 56: people see one thing and another happens; the first arguments are told as what happened."""
    got: list[Any] = []

    def node(state: State) -> State:
        answer = order("tea")
        got.append(answer)
        return {"notes": [told(answer)]}

    run = running(node)
    say(actions()[0], ben, arguments={"item": "milk", "cups": 3})
    settle()
    assert now_of(run).result["notes"] == ["3"]
    assert (got[0]["arguments"], [done.item for done in shop.done.values()]) == ({"item": "milk", "cups": 3}, ["milk"])


def test_a_run_that_is_cancelled_closes_what_its_graph_asked_for(shop, running, owner):
    """13, 20: a request stays open although nobody waits for it any more."""
    run = running(lambda state: {"notes": [told(order("tea"))]})
    redrive.cancel(run, by=owner)
    assert [action.status for action in actions()] == ["cancelled"]


class Odd(Arguments):
    """Called like what `act()` itself takes."""

    item: str = "tea"
    cups: int = 1
    name: str = ""
    connection: str = ""
    key: str = ""
    reason: str = ""
    evidence: list[str] = []
    expires: float = 0
    compensate: dict[str, Any] = {}


def test_whatever_a_model_calls_its_arguments_they_are_arguments(shop, running, ben, owner):
    """37: a field that nobody was shown decides what happens, and where."""
    builders.connection("shop", slug="vip", practice=False)
    changed_kind(arguments=Odd, tier=Tier.LOW)
    undo = {"kind": "shop.order", "item": "all of it"}
    odd = {"name": "x", "connection": "vip", "key": "k", "reason": "r", "evidence": ["e"], "expires": 9.0}
    wish = {"kind": "shop.order", "connection": "practice-shop", "arguments": {**odd, "compensate": undo}}

    def node(state: State) -> State:
        interrupt(wish)
        raise Permanent("and then it fails")

    run = running(node)
    settle()
    [action] = actions()
    assert (now_of(run).status, action.connection.slug, action.reason, action.evidence) == (
        "dead",
        "practice-shop",
        "",
        [],
    )
    assert action.arguments == {"item": "tea", "cups": 1, **odd, "compensate": undo}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"connection": 7}, "connection: Input should be a valid string"),
        ({"expires": "soon"}, "expires: Input should be a valid number"),
        ({"evidence": 5}, "evidence"),
        ({"arguments": ["tea"]}, "arguments: Input should be a valid dictionary"),
        ({"compensate": {"kind": "shop.order"}}, "compensate: Extra inputs are not permitted"),
    ],
)
def test_what_is_no_wish_is_told_at_once(shop, running, more, said):
    run = running(lambda state: {"notes": [interrupt({"kind": "shop.order", **more})]})
    assert (run.status, run.attempt, run.error["type"]) == ("dead", 1, "NoWish")
    assert said in run.error["message"]
