"""An MCP server on loopback, over streamable HTTP or as a command: `python -m tests.scripted_mcp`."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError


@dataclass
class Tools:
    """What was called, by tool, and how it misbehaves."""

    url: str = ""
    called: list[tuple[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)  # of the next calls of `order`: hang, fail

    def server(self) -> MCPServer:
        made = MCPServer("shop")

        @made.tool()
        def find(word: str) -> str:
            """Find what the shop has by this word."""
            self.called.append(("find", word))
            return f"{word}: 3 left"

        @made.tool()
        def order(item: str, cups: int = 1) -> str:
            """Order something."""
            self.called.append(("order", (item, cups)))
            fault = self.faults.pop(0) if self.faults else ""
            if fault == "hang":
                time.sleep(3)
            if fault == "fail":
                raise ToolError("no tea today")
            return f"ordered {cups} {item}"

        @made.tool()
        def close_shop() -> str:
            """Close it for good."""
            self.called.append(("close_shop", None))
            return "closed"

        return made


@contextmanager
def serving() -> Iterator[Tools]:
    """The server while the block lasts."""
    tools = Tools()
    app = tools.server().streamable_http_app()

    async def heard(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            tools.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await app(scope, receive, send)

    door = socket.socket()
    door.bind(("127.0.0.1", 0))
    tools.url = f"http://127.0.0.1:{door.getsockname()[1]}/mcp"
    server = uvicorn.Server(uvicorn.Config(heard, log_level="error", lifespan="on", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started and time.monotonic() < until:
        time.sleep(0.01)
    try:
        yield tools
    finally:
        server.should_exit = True
        thread.join(10)


if __name__ == "__main__":
    Tools().server().run("stdio")
