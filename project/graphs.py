"""A compiled LangGraph runs as steps of a run: each of its supersteps is remembered with what it wrote, and what a node
asks for by `interrupt()` becomes an action or a question. Only a handler that runs a graph loads this (extra
`langgraph`)."""

import asyncio
import base64
import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar

from django.db import connection
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from approvals.act import effect_of, settled, told
from approvals.models import Action
from approvals.naming import known_by_content
from approvals.wish import Wish
from project.agent.tools import ENDS, not_done
from project.graph_requests import Requests, known_to_models
from project.graph_spending import Purse
from project.lib.faults import first_fault
from triggers.durable import Durable
from triggers.errors import Permanent

THREAD = {"configurable": {"thread_id": "run"}}
MOST_TURNS = 500  # supersteps of one graph
Wrote = dict[str, list[Any]]  # what a superstep added to the memory of the graph
Whole = dict[str, dict[tuple[Any, ...], Any]]  # all of that memory, by kind and key
Answer = dict[str, Any]


class EndlessGraph(Permanent):
    """The graph does not come to an end."""


class NoWish(Permanent):
    """An interrupt says `{kind, arguments}` or `{question}`, or is a question in words."""


class Asked(BaseModel):
    """What goes along with what a node asks for."""

    model_config = ConfigDict(extra="forbid")

    key: str | None = None
    reason: str = ""
    evidence: list[Any] | dict[str, Any] | str = []
    expires: float | None = Field(default=None, allow_inf_nan=False)  # seconds


class Effect(Asked):
    """The arguments are a model's perhaps, and are nothing but arguments, whatever they are called."""

    kind: str
    connection: str | None = None
    arguments: dict[str, Any] = {}


class Question(Asked):
    """Like one of `ask()`."""

    question: str
    form: dict[str, Any] | None = None

    kind: ClassVar[str] = "human.question"
    connection: ClassVar[None] = None

    @property
    def arguments(self) -> dict[str, Any]:
        return self.model_dump(include={"question", "form"}, exclude_none=True)


def run_graph(run: Durable, graph: Any, given: Any, name: str, limits: Mapping[str, Any]) -> Any:
    """The values of the graph's state at its end.

    A node gets from `interrupt()` what became of it: `{approved: true, arguments, result}` or `{approved: false, why}`.
    Raises EndlessGraph, NoWish, NoLimits, LimitReached, and what a node raises."""
    memory = Memory()
    own = copy.copy(graph)
    own.checkpointer = memory
    known_to_models()
    purse = Purse(run, limits)
    feed = given
    for turn in range(1, MOST_TURNS + 1):
        asking = Requests(run, name, memory, purse)
        told = run.step(
            f"{name} turn {turn}", partial(one_superstep, asking, own, memory, feed, f"part of turn {turn}")
        )
        memory.learn(told["wrote"])
        if told["asked"]:
            feed = Command(resume=answers(run, f"{name} turn {turn}", told["asked"]))
        elif told["is_over"]:
            return own.get_state(THREAD).values
        else:
            feed = None
    raise EndlessGraph(f"“{name}” has not ended after {MOST_TURNS} turns")


def one_superstep(requests: Requests, graph: Any, memory: "Memory", feed: Any, part: str) -> dict[str, Any]:
    """Nodes work beside this thread, which keeps the run's memory for them. What ends before its siblings is kept at
    once: when one of those fails, or the worker dies, it is not run again."""
    before = memory.whole()
    for wrote in requests.known(part):
        memory.learn(wrote)
        feed = feed if isinstance(feed, Command) else None  # what was given is in the memory
    memory.begin(lambda wrote: requests.keep_part(part, wrote))
    return requests.serve(lambda: asyncio.run(superstep(graph, memory, feed, before)))


async def superstep(graph: Any, memory: "Memory", feed: Any, before: Whole) -> dict[str, Any]:
    """Go on until all nodes that are due have ended or asked: `{wrote, asked: [{id, node, value}], is_over}`."""
    asyncio.get_running_loop().set_default_executor(Threads())
    async for task in graph.astream(feed, THREAD, interrupt_after="*", stream_mode="tasks"):
        memory.due.add(task["id"])
    state = await graph.aget_state(THREAD)
    asked = [{"id": one.id, "node": task.name, "value": one.value} for task in state.tasks for one in task.interrupts]
    return {"wrote": memory.since(before), "asked": asked, "is_over": not state.next}


class Threads(ThreadPoolExecutor):
    """Nodes that are plain functions run beside the loop, and leave no connection to the database behind."""

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        return super().submit(closing, partial(function, *given, **named))


def closing(function: Callable[[], Any]) -> Any:
    try:
        return function()
    finally:
        connection.close()


# What nodes ask for


def answers(run: Durable, turn: str, asked: list[dict[str, Any]]) -> dict[str, Answer]:
    """By the id of each interrupt what its node gets; all wait side by side."""
    branches = {
        f"{turn} ask {number}": partial(answered, run, one["node"], wish_of(one["value"]))
        for number, one in enumerate(asked, 1)
    }
    found = run.parallel(branches)
    return {one["id"]: found[name] for one, name in zip(asked, branches, strict=True)}


def wish_of(value: Any) -> Effect | Question:
    """Raises NoWish."""
    wish = value if isinstance(value, dict) else {"question": str(value)}
    shape = Question if "question" in wish else Effect
    try:
        return shape.model_validate(wish)
    except ValidationError as error:
        place, said = first_fault(error)
        raise NoWish(f"an interrupt says {{kind, arguments}} or {{question}}: {place or 'it'}: {said}") from None


def answered(run: Durable, node: str, asked: Effect | Question) -> Answer:
    """A graph that is run again may come to the same effect by another node: that is one effect all the same."""
    said = (asked.key, asked.reason, asked.evidence, asked.expires)
    try:
        with known_by_content():
            step = settled(run, node, partial(Wish.of, asked.kind, asked.connection, *said, asked.arguments))
        result, number = told(step)
    except tuple(ENDS) as error:
        return {"approved": False, "why": not_done(error)["why"]}
    if isinstance(asked, Question):
        return {"approved": True, "result": result}
    done = effect_of(result, Action.objects.get(pk=number))
    return {"approved": True, "arguments": done.arguments, "result": dict(done)}


# What the graph remembers


class Memory(InMemorySaver):
    """The checkpoints of one graph while a worker is at it; what each superstep adds is kept in the run's journal."""

    def begin(self, keep: Callable[[Wrote], None]) -> None:
        """A superstep begins; what one of its tasks wrote is given to `keep` while others are still at work."""
        self.due: set[str] = set()  # tasks of it
        self.done: set[str] = set()
        self.keep, self.kept = keep, self.whole()

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        super().put_writes(config, writes, task_id, task_path)
        if config["configurable"]["checkpoint_ns"] or all(channel in WRITES_IDX_MAP for channel, _ in writes):
            return  # of a graph within this one, or no end of a task
        self.done.add(task_id)
        if task_id in self.due and self.due - self.done:
            self.keep(self.since(self.kept))
            self.kept = self.whole()

    def whole(self) -> Whole:
        """Everything, flat: by kind and key."""
        places = self.storage.items()
        points = {(t, ns, id): row for t, spaces in places for ns, ids in spaces.items() for id, row in ids.items()}
        writes = {(*place, *key): row for place, rows in self.writes.items() for key, row in rows.items()}
        return {"checkpoints": points, "writes": writes, "values": dict(self.blobs)}

    def since(self, before: Whole) -> Wrote:
        """What is new or other now, as JSON."""
        return {
            sort: [[list(key), packed(row)] for key, row in rows.items() if before[sort].get(key) != row]
            for sort, rows in self.whole().items()
        }

    def learn(self, wrote: Wrote) -> None:
        """What a superstep wrote, in this worker or in one before."""
        for (thread, space, point), row in pairs(wrote["checkpoints"]):
            self.storage[thread][space][point] = row
        for (thread, space, point, *key), row in pairs(wrote["writes"]):
            self.writes[thread, space, point][tuple(key)] = row
        for key, row in pairs(wrote["values"]):
            self.blobs[key] = row


def pairs(rows: list[Any]) -> Any:
    return ((tuple(key), unpacked(row)) for key, row in rows)


def packed(row: Any) -> Any:
    """Bytes as `{b: base64}`, tuples as lists."""
    if isinstance(row, bytes):
        return {"b": base64.b64encode(row).decode()}
    return [packed(one) for one in row] if isinstance(row, tuple) else row


def unpacked(row: Any) -> Any:
    if isinstance(row, dict):
        return base64.b64decode(row["b"])
    return tuple(unpacked(one) for one in row) if isinstance(row, list) else row
