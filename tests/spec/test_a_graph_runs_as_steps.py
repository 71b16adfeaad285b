"""A compiled LangGraph as a handler: its nodes run once, and what one asks for by `interrupt()` waits for a nod."""

import operator
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from approvals.models import Action
from approvals.tiers import Tier
from project.lib import failpoints
from tests import builders
from tests.agent_runs import actions, again
from tests.dying import Gone, dying_behind, to_its_end
from tests.handlers import work
from tests.house.tree import ROOT
from tests.nodding import Shop, changed_kind, handling, now_of, say, serving, settle
from triggers import redrive, registry
from triggers.models import DeadLetter, Run, Step

pytestmark = pytest.mark.django_db
ORDER = {"kind": "shop.order", "arguments": {"item": "tea", "cups": 2}, "reason": "the guests come"}


class State(TypedDict, total=False):
    guests: int
    cups: int
    notes: Annotated[list[str], operator.add]
    answer: Any


@dataclass
class Story:
    """A graph whose nodes count how often they are run."""

    ran: Counter[str] = field(default_factory=Counter)
    wish: Any = field(default_factory=lambda: dict(ORDER))
    last: Callable[[], None] = lambda: None

    def compiled(self) -> Any:
        graph = StateGraph(State)
        graph.add_node("count", self.count)
        graph.add_node("look", self.look)
        graph.add_node("ask", self.ask)
        graph.add_node("thank", self.thank)
        graph.add_edge(START, "count")
        graph.add_edge("count", "look")
        graph.add_edge("count", "ask")
        graph.add_edge(["look", "ask"], "thank")
        graph.add_edge("thank", END)
        return graph.compile()

    def count(self, state: State) -> State:
        self.ran["count"] += 1
        return {"cups": state["guests"] * 2, "notes": ["counted"]}

    async def look(self, state: State) -> State:
        self.ran["look"] += 1
        return {"notes": ["looked"]}

    def ask(self, state: State) -> State:
        self.ran["ask"] += 1
        return {"answer": interrupt(self.wish)}

    def thank(self, state: State) -> State:
        self.ran["thank"] += 1
        self.last()
        return {"notes": ["thanked"]}


@pytest.fixture
def shop(connection) -> Iterator[Shop]:
    with serving() as shop:
        yield shop


@pytest.fixture
def story() -> Iterator[Story]:
    told = Story()
    with handling(lambda run: run.graph(told.compiled(), {"guests": 1, "notes": []})):
        yield told


def begin() -> Run:
    run = builders.run("story")
    work()
    return now_of(run)


def test_a_node_waits_for_its_nod_and_gets_what_became_of_it(shop, story, ben):
    run = begin()
    [action] = actions()
    assert (run.status, action.arguments, action.reason) == ("waiting", ORDER["arguments"], "the guests come")
    assert story.ran == {"count": 1, "look": 1, "ask": 1}
    say(action, ben)
    settle()
    run = now_of(run)
    told = run.result["answer"]
    assert (run.status, told["approved"], told["result"]["cups"]) == ("succeeded", True, 2)
    assert (run.result["cups"], run.result["notes"]) == (2, ["counted", "looked", "thanked"])
    assert story.ran == {"count": 1, "look": 1, "ask": 2, "thank": 1}, "only the node that asked goes on from its start"
    assert len(shop.sent) == 1


def test_a_replay_runs_no_node(shop, story):
    run = begin()
    for _ in range(3):
        again(run)
    assert story.ran == {"count": 1, "look": 1, "ask": 1}
    assert Action.objects.count() == 1


def test_no_node_before_the_interrupt_runs_twice_wherever_the_worker_dies(shop, story):
    """Behind each single commit of the run; the effect happens once."""
    changed_kind(tier=Tier.LOW)
    deaths = 0
    for nth in range(1, 40):
        shop.done.clear()
        story.ran.clear()
        with dying_behind(nth) as passed:
            run = to_its_end(begin)
        assert run.status == "succeeded", f"it died at commit {nth}"
        assert (story.ran["count"], story.ran["look"], story.ran["thank"]) == (1, 1, 1), f"it died at commit {nth}"
        assert story.ran["ask"] in (2, 3), "what was at work as its worker died begins anew"
        assert [order.cups for order in shop.done.values()] == [2]
        if passed.commits < nth:
            break
        deaths += 1
    assert deaths >= 5


def test_a_node_that_fails_is_run_again_and_those_before_it_are_not(shop, story, ben, owner):
    def fail() -> None:
        raise ValueError("no cups")

    story.last = fail
    run = begin()
    say(actions()[0], ben)
    settle()
    Run.objects.filter(pk=run.pk).update(status="queued", attempt=4, due_at="2020-01-01T00:00Z")
    work()
    assert now_of(run).status == "dead"
    story.last = lambda: None
    redriven = redrive.redrive(DeadLetter.objects.get(), by=owner)
    settle()
    assert now_of(redriven).status == "succeeded"
    assert (story.ran["count"], story.ran["look"], len(shop.sent)) == (1, 1, 1)


def test_run_again_from_the_start_it_asks_for_the_same_effect(shop, story, owner):
    changed_kind(tier=Tier.LOW)
    run = begin()
    assert run.status == "succeeded"
    new = redrive.rerun(run, by=owner)
    settle()
    assert (now_of(new).status, len(shop.sent), Action.objects.count()) == ("succeeded", 1, 1)


def test_a_no_is_told_to_the_node(shop, story, ben):
    run = begin()
    say(actions()[0], ben, "reject")
    settle()
    told = now_of(run).result["answer"]
    assert (told["approved"], shop.sent) == (False, [])
    assert told["why"].startswith("rejected: ")


@pytest.mark.parametrize("wish", ["How many cups?", {"question": "How many cups?", "reason": "nobody said"}])
def test_a_question_is_asked_and_the_answer_is_the_value(story, ben, wish):
    story.wish = wish
    run = begin()
    [action] = actions()
    assert (action.kind, action.arguments["question"]) == ("human.question", "How many cups?")
    say(action, ben, answer="three")
    settle()
    assert now_of(run).result["answer"] == {"approved": True, "result": "three"}


@pytest.mark.parametrize("wish", [{"order": "tea"}, {"arguments": {}}, {"kind": "shop.order", "tier": "low"}])
def test_what_is_no_wish_ends_the_run_and_says_why(shop, story, wish):
    story.wish = wish
    run = begin()
    assert (run.status, run.error["type"]) == ("dead", "NoWish")


def test_several_that_ask_at_once_wait_side_by_side(shop, ben):
    def asking(item: str) -> Callable[[State], State]:
        def ask(state: State) -> State:
            answer = interrupt({"kind": "shop.order", "arguments": {"item": item}})
            return {"notes": [f"{item} {answer['approved']}"]}

        return ask

    graph = StateGraph(State)
    for item in ("tea", "milk"):
        graph.add_node(item, asking(item))
        graph.add_edge(START, item)
        graph.add_edge(item, END)
    with handling(lambda run: run.graph(graph.compile(), {"notes": []})):
        run = begin()
        tea, milk = actions()
        say(milk, ben, "reject")
        settle()
        assert now_of(run).status == "waiting"
        say(tea, ben)
        settle()
    assert sorted(now_of(run).result["notes"]) == ["milk False", "tea True"]


@pytest.mark.parametrize("dies", [False, True])
def test_what_ended_beside_a_node_that_did_not_is_not_run_again(dies, monkeypatch):
    ran: Counter[str] = Counter()
    is_kept = threading.Event()
    monkeypatch.setattr(failpoints, "reached", lambda place: is_kept.set() if place == "after_journal" else None)

    def quick(state: State) -> State:
        ran["quick"] += 1
        return {"notes": ["quick"]}

    def slow(state: State) -> State:
        ran["slow"] += 1
        if ran["slow"] == 1:
            assert is_kept.wait(30)
            raise Gone if dies else ValueError("no tea")
        return {"notes": ["slow"], "cups": 2}

    graph = StateGraph(State)
    for node in (quick, slow):
        graph.add_node(node)
        graph.add_edge(START, node.__name__)
        graph.add_edge(node.__name__, END)
    with handling(lambda run: run.graph(graph.compile(), {"notes": ["here"]})):
        run = to_its_end(begin)
        Run.objects.filter(pk=run.pk, status="retrying").update(due_at="2020-01-01T00:00Z", status="queued")
        settle()
    assert (now_of(run).result, ran) == ({"notes": ["here", "quick", "slow"], "cups": 2}, {"quick": 1, "slow": 2})


def test_a_graph_without_an_end_is_stopped(monkeypatch):
    graph = StateGraph(State)
    graph.add_node("again", lambda state: {"cups": 1})
    graph.add_edge(START, "again")
    graph.add_edge("again", "again")
    monkeypatch.setattr("project.graphs.MOST_TURNS", 5)
    with handling(lambda run: run.graph(graph.compile(), {})):
        run = begin()
    assert (run.status, run.error["type"], Step.objects.filter(run=run).count()) == ("dead", "EndlessGraph", 5)


@pytest.fixture
def example() -> Iterator[None]:
    registry.load_file(ROOT / "examples" / "issue_story.py")
    assert "issue_story.py" not in registry.BROKEN
    yield
    for name in ("issue-story", "issue-story-graph"):
        registry.HANDLERS.pop(name)


@pytest.mark.django_db(transaction=True)  # nodes read connections in threads of their own
@pytest.mark.parametrize("fixable", [True, False])
def test_the_story_of_an_issue_is_the_same_with_a_graph_and_without(example, ben, later, fixable):
    builders.connection("github")
    text = 'In README.md "recieve" should be "receive".' if fixable else "Nothing works."
    issue = {"number": 7, "title": "Typo", "body": text}
    event = builders.event(data={"issue": issue, "repository": {"full_name": "acme/shop", "default_branch": "main"}})
    told = []
    for name in ("issue-story", "issue-story-graph"):
        run = builders.run(name, event=event)
        work()
        for action in Action.objects.filter(run=run, status="awaiting"):
            say(action, ben)
        later(seconds=11)
        settle()
        assert now_of(run).status == "succeeded"
        asked = [(one.kind, one.arguments) for one in Action.objects.filter(run=run).order_by("pk")]
        told.append([(kind, {**said, "body": said["body"].rstrip("0123456789")}) for kind, said in asked])
    assert told[0] == told[1]
    assert [kind for kind, _ in told[0]] == (["github.create_pr"] if fixable else []) + ["github.comment"]


def test_without_the_library_it_says_what_to_install(shop, story, monkeypatch):
    monkeypatch.delitem(sys.modules, "project.graphs", raising=False)
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.memory", None)
    run = begin()
    assert (run.status, run.error["type"]) == ("dead", "Permanent")
    assert "pip install langgraph" in run.error["message"]
