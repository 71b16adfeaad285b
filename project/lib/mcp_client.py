"""One short conversation with an MCP server, by the official client. Only what calls one loads this (extra `mcp`)."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Tool

from project.lib import egress_async, json_schema
from project.lib.egress import EgressError

MOST_TOOLS = 200  # of one server
MOST_PAGES = 20
LONGEST = 60_000  # characters of one answer
T = TypeVar("T")


class NotReached(Exception):
    """The server could not be asked: nothing was sent."""


class Declined(RuntimeError):
    """The server offers no such tool, or takes other arguments: nothing was sent."""


class NoAnswer(Exception):
    """It was asked, and no answer says that it was done: none, half of one, or an error. Any error may be one that came
    after the deed, as when the tool asks a further server: whichever its code, it leaves open what was done."""


FAULTS: tuple[type[Exception], ...] = (
    NoAnswer,
    OSError,
    RuntimeError,
    ValueError,
    EgressError,
    ExceptionGroup,
    MCPError,
    httpx2.HTTPError,
)
FAULTS += (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


@dataclass(frozen=True, slots=True)
class Server:
    """Where it is: an address, or a command of the operator's with its arguments."""

    url: str = ""
    command: tuple[str, ...] = ()
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    budget: timedelta = timedelta(seconds=30)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Client]:
        if self.command:
            async with Client(StdioServerParameters(command=self.command[0], args=list(self.command[1:]))) as client:
                yield client
            return
        async with (
            egress_async.client(self.budget, self.headers) as http,
            Client(streamable_http_client(self.url, http_client=http), cache=None) as client,
        ):
            yield client


def tools(server: Server) -> list[dict[str, Any]]:
    """What it offers: `[{name, doc, schema}]`, at most MOST_TOOLS. Raises NotReached."""

    async def ask(client: Client) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        async for one in listed(client):
            if len(found) == MOST_TOOLS:
                break
            if one is not None:
                found.append({"name": one.name, "doc": one.description or "", "schema": one.input_schema})
        return found

    try:
        return talk(server, ask, [])
    except NoAnswer as error:
        raise NotReached(str(error)) from None


async def listed(client: Client) -> AsyncIterator[Tool | None]:
    """All that it offers, page by page; None at last when there are more pages than anybody reads."""
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        for one in page.tools:
            yield one
        cursor = page.next_cursor
        if not cursor:
            return
    yield None


def call(server: Server, tool: str, arguments: dict[str, Any], key: str = "") -> dict[str, Any]:
    """`{text, data}` of one call; `key` is told beside it. Raises NotReached, Declined, NoAnswer."""
    asked: list[bool] = []

    async def ask(client: Client) -> dict[str, Any]:
        if fault := await fault_of(client, tool, arguments):
            raise Declined(fault)
        asked.append(True)
        meta: Any = {"nightdesk/idempotency-key": key} if key else None
        result = await client.call_tool(tool, arguments, meta=meta)
        text = "\n".join(part.text for part in result.content if part.type == "text")[:LONGEST]
        if result.is_error:
            raise NoAnswer(f"the tool failed: {text[:500]}" if text else "the tool failed")
        return {"text": text, "data": small(result.structured_content)}

    return talk(server, ask, asked)


async def fault_of(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    """Why the server cannot take this call; empty where only it can tell."""
    async for one in listed(client):
        if one is None:
            return ""
        if one.name == tool:
            return misfit(one.input_schema, arguments)
    return "the server offers no such tool"


def misfit(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    """What does not fit; nothing by a schema that cannot be read here."""
    try:
        fault = next(json_schema.bounded(schema).iter_errors(arguments), None)
    except json_schema.BadSchema:
        return ""
    return f"{json_schema.place_of(fault) or 'arguments'}: {fault.message[:300]}" if fault else ""


def small(data: Any) -> Any:
    """As it is, or how long it is when that is too long to be kept."""
    size = len(json.dumps(data))
    return data if size <= LONGEST else f"({size:,} characters, left out)"


def talk(server: Server, ask: Callable[[Client], Awaitable[T]], asked: list[bool]) -> T:
    async def whole() -> T:
        async with server.opened() as client:
            return await ask(client)

    try:
        return asyncio.run(asyncio.wait_for(whole(), server.budget.total_seconds()))
    except FAULTS as error:
        raise told(error, bool(asked)) from None


def told(error: BaseException, asked: bool) -> Exception:
    """What a failure means, also one inside of what a task group gathered."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, Declined | NoAnswer):
        return error
    words = str(error)[:300] if isinstance(error, EgressError | MCPError) else type(error).__name__
    return NoAnswer(f"no whole answer: {words}") if asked else NotReached(f"it cannot be reached: {words}")
