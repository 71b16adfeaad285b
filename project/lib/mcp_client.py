"""One short conversation with an MCP server, by the official client. Only what calls one loads this (extra `mcp`)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from project.lib import egress_async
from project.lib.egress import EgressError

MOST_TOOLS = 200  # of one server
MOST_PAGES = 20
LONGEST = 60_000  # characters of one answer
FAULTS: tuple[type[Exception], ...] = (
    OSError,
    RuntimeError,
    ValueError,
    EgressError,
    ExceptionGroup,
    MCPError,
    httpx2.HTTPError,
)
FAULTS += (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
T = TypeVar("T")


class NotReached(Exception):
    """The server could not be asked: nothing was sent."""


class Declined(RuntimeError):
    """The server answered that it does not do this, or could not."""


class NoAnswer(Exception):
    """It was asked, and no whole answer came back."""


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
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += [
                {"name": one.name, "doc": one.description or "", "schema": one.input_schema} for one in page.tools
            ]
            cursor = page.next_cursor
            if not cursor or len(found) >= MOST_TOOLS:
                break
        return found[:MOST_TOOLS]

    try:
        return talk(server, ask, [])
    except (Declined, NoAnswer) as error:
        raise NotReached(str(error)) from None


def call(server: Server, tool: str, arguments: dict[str, Any], key: str = "") -> dict[str, Any]:
    """`{text, data}` of one call; `key` is told beside it. Raises NotReached, Declined, NoAnswer."""
    asked: list[bool] = []

    async def ask(client: Client) -> dict[str, Any]:
        asked.append(True)
        meta: Any = {"nightdesk/idempotency-key": key} if key else None
        result = await client.call_tool(tool, arguments, meta=meta)
        text = "\n".join(part.text for part in result.content if part.type == "text")[:LONGEST]
        if result.is_error:
            raise Declined(text[:500] or "the tool failed")
        return {"text": text, "data": result.structured_content}

    return talk(server, ask, asked)


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
    if isinstance(error, Declined):
        return error
    if asked and isinstance(error, MCPError):
        return Declined(str(error)[:500])
    words = str(error)[:300] if isinstance(error, EgressError | MCPError) else type(error).__name__
    return NoAnswer(f"no whole answer: {words}") if asked else NotReached(f"it cannot be reached: {words}")
