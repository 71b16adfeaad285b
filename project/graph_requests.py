"""What a node of a graph asks a model, remembered request by request: neither a crash in the middle of a node nor the
answer that its `interrupt()` waited for, which runs the node from its start, pays for one of them twice.

Chat models of LangChain are known here by themselves, as by a cache. Everything else a node pays for it asks through
`remembered()`. Only a handler that runs a graph loads this (extra `langgraph`)."""

import contextvars
import hashlib
import inspect
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from django.db import connection
from langchain_core.caches import RETURN_VAL_TYPE, BaseCache
from langchain_core.globals import get_llm_cache, set_llm_cache
from langchain_core.messages import message_to_dict, messages_from_dict
from langchain_core.outputs import ChatGeneration, Generation
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.base import BaseCheckpointSaver

from project.agent.budget import DayReserved, LimitReached, check_priced
from project.graph_spending import ASKS, GENERATIONS, SPENT, Purse
from triggers import calls
from triggers.durable import Durable
from triggers.errors import AskedInTransaction
from triggers.results import to_json

UUID = re.compile(r":[0-9a-f-]{36}\b")
LONGEST_PLACE = 100  # characters of a step's name that say which node asks
LOOK_UP = 5.0  # seconds after which who waits for the worker's thread looks whether it is still there
TRIES = 5  # times a request looks whether others have left something of the day
TAKEN = "the run was taken from this worker"
Asked = tuple[str, int, str]  # by which node, in which try of it, and what
T = TypeVar("T")


class Requests:
    """Those of one superstep. Its nodes work beside the worker's thread, which alone reads and writes the run."""

    def __init__(self, run: Durable, name: str, memory: BaseCheckpointSaver[Any], purse: Purse) -> None:
        self.run, self.name, self.memory, self.purse = run, name, memory, purse
        self.told: Counter[Asked] = Counter()  # answers that a node has had of those it was given
        self.wishes: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.over = ""  # why nobody is served any more
        self.parts = 0

    def serve(self, work: Callable[[], T]) -> T:
        """What `work` returns, done beside this thread, which meanwhile does what it is asked for."""
        outcome = Future[T]()
        context = contextvars.copy_context()
        context.run(current.set, self)
        threading.Thread(target=self.beside, args=(context, work, outcome), name=self.name[:60], daemon=True).start()
        try:
            while (wish := self.wishes.get()) is not None:
                wish()
            self.over = "the superstep of this node is over"
        except BaseException:
            self.over = TAKEN
            raise
        finally:
            self.purse.close()
        return outcome.result()

    def beside(self, context: contextvars.Context, work: Callable[[], T], outcome: "Future[T]") -> None:
        calls.beside(context, outcome, work, (), {}, None)
        self.wishes.put(None)

    def by_worker(self, function: Callable[[], T]) -> T:
        """What `function` returns when the worker's thread calls it. What ends the run ends it there.

        Raises AskedInTransaction: the worker would write down what is paid for while whoever asks holds rows, on
        SQLite all of them, until that is written down."""
        if connection.in_atomic_block:
            raise AskedInTransaction
        outcome = Future[T]()

        def call() -> None:
            try:
                outcome.set_result(function())
            except BaseException:
                outcome.set_exception(RuntimeError(TAKEN))
                raise

        self.wishes.put(call)
        while True:
            with suppress(TimeoutError):
                return outcome.result(0 if self.over else LOOK_UP)
            if self.over:
                raise RuntimeError(self.over)

    # What ended before its siblings

    def known(self, part: str) -> Iterator[Any]:
        """What was kept of this superstep by a worker, or a try, before; asked in the worker's thread."""
        while step := self.run.journal.recall(self.named(f"{part} {self.parts + 1}"), "call"):
            self.parts += 1
            yield step.result

    def keep_part(self, part: str, wrote: Any) -> None:
        self.parts += 1
        name = self.named(f"{part} {self.parts}")
        self.by_worker(partial(self.write, name, to_json(wrote, f"“{name}”"), 0.0))

    def named(self, what: str) -> str:
        return self.run.beneath_branch(f"{self.name} {what}")

    # One request

    def recall(self, content: str, *, letters: int | None = None) -> Any:
        """The next answer that this node was given to a request of this content; None when it is to be made.

        The same asked twice is two requests, unless the node is tried again by a rule of the graph's own. One that
        fails is none: whoever asks once more gets the same answer the next time he runs from his start. One that is
        paid for by tokens, and has so many `letters`, ends the run when its limits are reached, whatever the node would
        make of that; while others may use the rest of the day it waits."""
        asked = self.asked(content)

        def look() -> Any:
            if (known := self.next_of(asked)) is None and letters is not None:
                try:
                    self.purse.ask(asked, letters)
                except DayReserved as busy:
                    return busy
            return known

        for number in range(1, TRIES + 1):
            found = self.by_worker(look)
            if not isinstance(found, DayReserved):
                return found
            if number < TRIES:
                time.sleep(found.after.total_seconds() * number)
        return self.by_worker(partial(refuse, str(found)))

    def keep(self, content: str, answer: dict[str, Any], took: float) -> None:
        """Raises NotJson, ResultTooLarge."""
        asked = self.asked(content)
        text = to_json(answer, f"“{self.step_of(asked, 1)}”")

        def write() -> None:
            name = self.next_name(asked)
            if spent := answer.get(SPENT):
                self.purse.book(asked, name, spent)
            self.write(name, text, took)
            if spent:
                check_priced(self.purse.limits, spent["cost"])

        self.by_worker(write)

    def write(self, name: str, text: str, took: float) -> None:
        journal = self.run.journal

        def record(now: datetime) -> Any:
            since = now - timedelta(seconds=took)
            return journal.record(name, "call", text, now=now, error=None, attempt=1, started_at=since, finished_at=now)

        journal.write(record, ending=True, stopping=True)

    def asked(self, content: str) -> Asked:
        return (*place_of(self.memory), content)

    def next_of(self, asked: Asked) -> Any:
        step = self.run.journal.recall(self.step_of(asked, self.told[asked] + 1), "call")
        if step is None:
            return None
        self.told[asked] += 1
        return step.result

    def next_name(self, asked: Asked) -> str:
        while self.next_of(asked):
            pass  # it came from a try before this one
        self.told[asked] += 1
        return self.step_of(asked, self.told[asked])

    def step_of(self, asked: Asked, number: int) -> str:
        place, _, content = asked
        name = self.named(f"{place}{ASKS}{content[:12]}")
        return name if number == 1 else f"{name}#{number}"


current: contextvars.ContextVar[Requests | None] = contextvars.ContextVar("requests", default=None)
began: contextvars.ContextVar[float] = contextvars.ContextVar("began")  # when the request of this context was made


def place_of(memory: BaseCheckpointSaver[Any]) -> tuple[str, int]:
    """Which node asks, of which superstep, the same in every worker; and in which try of it by the graph's own rule."""
    config: Any = var_child_runnable_config.get() or {}
    told, given = config.get("metadata") or {}, config.get("configurable") or {}
    nodes = UUID.sub("", str(told.get("langgraph_checkpoint_ns", ""))).replace("|", ">").replace("/", "_")
    root = {"thread_id": given.get("thread_id"), "checkpoint_ns": ""}
    begun = memory.get_tuple({"configurable": root | {"checkpoint_id": given.get("checkpoint_map", {}).get("")}})
    steps = [begun.metadata.get("step", 0) if begun else 0, told.get("langgraph_step", 0)]
    numbers = ".".join(map(str, [*steps, *numbers_in(told.get("langgraph_path", ()))]))
    info = getattr(given.get("__pregel_runtime"), "execution_info", None)
    return f"{nodes[:LONGEST_PLACE]} {numbers}", getattr(info, "node_attempt", 1)


def numbers_in(path: Any) -> Iterator[int]:
    """Which of several tasks of one node it is."""
    for part in path:
        if isinstance(part, tuple):
            yield from numbers_in(part)
        elif isinstance(part, int):
            yield int(part)


def refuse(why: str) -> None:
    raise LimitReached(why)


def content_of(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()


# What asks


def remembered(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What `function(*arguments, **named)` returned when this node of this run called it first, as JSON; to be awaited
    when it is an `async def`. Outside of `run.graph` it is only called."""
    asking = current.get()
    call = partial(function, *arguments, **named)
    if asking is None:
        return call()
    content = content_of(function.__module__, function.__qualname__, arguments, named)
    return ended(asking, content, call) if inspect.iscoroutinefunction(function) else done(asking, content, call)


def done(asking: Requests, content: str, call: Callable[[], Any]) -> Any:
    known = asking.recall(content)
    if known is not None:
        return known["answer"]
    since = time.monotonic()
    answer = call()
    asking.keep(content, {"answer": answer}, time.monotonic() - since)
    return answer


async def ended(asking: Requests, content: str, call: Callable[[], Awaitable[Any]]) -> Any:
    known = asking.recall(content)
    if known is not None:
        return known["answer"]
    since = time.monotonic()
    answer = await call()
    asking.keep(content, {"answer": answer}, time.monotonic() - since)
    return answer


class Cache(BaseCache):
    """Where LangChain's chat models look before they ask. Beside `run.graph` the cache that was there before."""

    def __init__(self, before: BaseCache | None) -> None:
        self.before = before

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        asking = current.get()
        if asking is None:
            return self.before.lookup(prompt, llm_string) if self.before else None
        known = asking.recall(content_of(prompt, llm_string), letters=len(prompt))
        began.set(time.monotonic())
        return None if known is None else [unpacked(one) for one in known[GENERATIONS]]

    async def alookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        known = await super().alookup(prompt, llm_string)
        began.set(time.monotonic())  # in whoever asks, and not in the thread that has looked
        return known

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        asking, took = current.get(), time.monotonic() - began.get(time.monotonic())
        if asking is None:
            return self.before.update(prompt, llm_string, return_val) if self.before else None
        answer = {
            GENERATIONS: [packed(one) for one in return_val],
            SPENT: asking.purse.bill(prompt, return_val, took),
        }
        return asking.keep(content_of(prompt, llm_string), answer, took)

    def clear(self, **kwargs: Any) -> None:
        if self.before:
            self.before.clear(**kwargs)


def packed(one: Generation) -> dict[str, Any]:
    said = {"message": message_to_dict(one.message)} if isinstance(one, ChatGeneration) else {"text": one.text}
    plain: dict[str, Any] = json.loads(json.dumps(said | {"info": one.generation_info}, default=str))
    return plain


def unpacked(told: dict[str, Any]) -> Generation:
    if "text" in told:
        return Generation(text=told["text"], generation_info=told["info"])
    [message] = messages_from_dict([told["message"]])
    return ChatGeneration(message=message, generation_info=told["info"])


def known_to_models() -> None:
    """From now on chat models of LangChain look here first."""
    before = get_llm_cache()
    if not isinstance(before, Cache):
        set_llm_cache(Cache(before))
