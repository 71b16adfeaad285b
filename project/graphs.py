"""A compiled LangGraph runs as steps of a run: each of its supersteps is remembered with what it wrote, and what a node
asks for by `interrupt()` becomes an action or a question. Only a handler that runs a graph loads this (extra
`langgraph`)."""

import asyncio
import base64
import copy
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from django.db import connection
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from approvals.act import act, ask
from approvals.propose import known_by
from project.agent.contents import Contents, content_of
from project.agent.tools import ENDS, not_done
from triggers.durable import Durable
from triggers.errors import Permanent

THREAD = {"configurable": {"thread_id": "run"}}
MOST_TURNS = 500  # supersteps of one graph
Wrote = dict[str, list[Any]]  # what a superstep added to the memory of the graph
Answer = dict[str, Any]


class EndlessGraph(Permanent):
    """The graph does not come to an end."""


class NoWish(Permanent):
    """An interrupt says `{kind, arguments}` or `{question}`, or is a question in words."""


def run_graph(run: Durable, graph: Any, given: Any, name: str) -> Any:
    """The values of the graph's state at its end.

    A node gets from `interrupt()` what became of it: `{approved: true, arguments, result}` or `{approved: false, why}`.
    Raises EndlessGraph, NoWish, and what a node raises."""
    memory = Memory()
    own = copy.copy(graph)
    own.checkpointer = memory
    contents = Contents()
    feed = given
    for turn in range(1, MOST_TURNS + 1):
        told = run.step(f"{name} turn {turn}", partial(one_superstep, own, memory, feed))
        memory.learn(told["wrote"])
        if told["asked"]:
            feed = Command(resume=answers(run, f"{name} turn {turn}", told["asked"], contents))
        elif told["is_over"]:
            return own.get_state(THREAD).values
        else:
            feed = None
    raise EndlessGraph(f"“{name}” has not ended after {MOST_TURNS} turns")


async def one_superstep(graph: Any, memory: "Memory", feed: Any) -> dict[str, Any]:
    """Go on until all nodes that are due have ended or asked: `{wrote, asked: [{id, node, value}], is_over}`."""
    asyncio.get_running_loop().set_default_executor(Threads())
    before = memory.whole()
    await graph.ainvoke(feed, THREAD, interrupt_after="*")
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


def answers(run: Durable, turn: str, asked: list[dict[str, Any]], contents: Contents) -> dict[str, Answer]:
    """By the id of each interrupt what its node gets; all wait side by side."""
    wishes = [(one["node"], wish_of(one["value"])) for one in asked]
    meant = [content_of(node, wish) for node, wish in wishes]
    branches = {
        f"{turn} ask {number}": partial(answered, run, node, wish, key)
        for number, ((node, wish), key) in enumerate(zip(wishes, contents.keys(meant), strict=True), 1)
    }
    told = run.parallel(branches)
    found: list[Answer] = [told[name] for name in branches]
    contents.note(content for content, answer in zip(meant, found, strict=True) if answer["approved"])
    return {one["id"]: answer for one, answer in zip(asked, found, strict=True)}


def wish_of(value: Any) -> dict[str, Any]:
    """`{kind, arguments, …}` or `{question, …}`. Raises NoWish."""
    wish = value if isinstance(value, dict) else {"question": str(value)}
    extra = {"question", "form"} if "question" in wish else {"kind", "arguments", "connection"}
    if unknown := set(wish) - extra - {"key", "reason", "evidence", "expires"}:
        raise NoWish(f"an interrupt says {{kind, arguments}} or {{question}}, not {sorted(unknown)[0]!r}")
    if "question" not in wish and not isinstance(wish.get("kind"), str):
        raise NoWish
    return wish


def answered(run: Durable, node: str, wish: Mapping[str, Any], known: str) -> Answer:
    rest = dict(wish)
    arguments = rest.pop("arguments", {})
    try:
        with known_by(run, known):
            if "question" in rest:
                return {"approved": True, "result": ask(run, node, rest.pop("question"), **rest)}
            done = act(run, node, **rest, **arguments)
    except tuple(ENDS) as error:
        return {"approved": False, "why": not_done(error)["why"]}
    return {"approved": True, "arguments": done.arguments, "result": dict(done)}


# What the graph remembers


class Memory(InMemorySaver):
    """The checkpoints of one graph while a worker is at it; what each superstep adds is kept in the run's journal."""

    def whole(self) -> dict[str, dict[tuple[Any, ...], Any]]:
        """Everything, flat: by kind and key."""
        places = self.storage.items()
        points = {(t, ns, id): row for t, spaces in places for ns, ids in spaces.items() for id, row in ids.items()}
        writes = {(*place, *key): row for place, rows in self.writes.items() for key, row in rows.items()}
        return {"checkpoints": points, "writes": writes, "values": dict(self.blobs)}

    def since(self, before: dict[str, dict[tuple[Any, ...], Any]]) -> Wrote:
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
