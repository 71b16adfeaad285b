"""The door behind a real server: what a sender's bytes pass before the door sees them is part of the test."""

import asyncio
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tests.conftest import until
from tests.deliveries import Answered
from triggers.door import Door


class Served:
    """A door that listens on loopback in a thread of this process."""

    def __init__(self) -> None:
        self.door = Door()
        config = uvicorn.Config(self.door, port=0, http="project.http:Bounded", lifespan="off", log_config=None)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=asyncio.run, args=[self.serve()], daemon=True)

    async def serve(self) -> None:
        await self.server.serve()
        await self.door.close()

    @property
    def port(self) -> int:
        return int(self.server.servers[0].sockets[0].getsockname()[1])

    def deliver(self, *requests: dict[str, Any]) -> list[Answered]:
        """One after the other; then what the door does after its answers is waited for."""
        answers = [self.ask(**request) for request in requests]
        until(lambda: not self.door.after)
        return answers

    def ask(
        self,
        slug: str = "github",
        *,
        body: bytes = b"",
        headers: dict[str, str] | list[tuple[str, str]] | None = None,
        method: str = "POST",
        query: str = "",
    ) -> Answered:
        """One request on a connection of its own; in two chunks, where a header says that it comes in chunks."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        pairs = list(headers.items() if isinstance(headers, dict) else headers or [])
        chunked = ("Transfer-Encoding", "chunked") in pairs
        connection.putrequest(method, f"/hooks/{slug}{'?' if query else ''}{query}", skip_accept_encoding=True)
        for name, value in pairs if chunked or method != "POST" else [*pairs, ("Content-Length", str(len(body)))]:
            connection.putheader(name, value.encode("latin-1"))
        half = len(body) // 2
        connection.endheaders([body[:half], body[half:]] if chunked else body, encode_chunked=chunked)
        with connection.getresponse() as answer:
            return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())


@contextmanager
def served() -> Iterator[Served]:
    one = Served()
    one.thread.start()
    try:
        until(lambda: one.server.started)
        yield one
    finally:
        one.server.should_exit = True
        one.thread.join(60)
