"""The server's HTTP protocol with an end to a request's head: uvicorn's own has none, and the head comes before any
signature. Chosen by `--http project.http:Bounded` (project/processes.py). An answer's head and body leave together."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024  # bytes of address and headers, as large proxies allow
SHORT = 4096  # bytes of a write that waits for the next one of the same turn of the loop
REFUSAL = b"The headers of this request are too large.\n"
ANSWER = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(REFUSAL), REFUSAL)
)


class Bounded(HttpToolsProtocol):
    """Answers 431 and hangs up once a head is over MAX_HEAD, also while a single header of it still drips in."""

    in_head = True
    dripped = 0  # bytes that came in pieces which ended no head
    piece = 0  # bytes of the newest piece
    came = 0  # bytes of all pieces that hold some of this request: its head is no longer than that
    refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Joined(transport))  # type: ignore[arg-type]

    def handle_websocket_upgrade(self) -> None:
        self.transport = self.transport.transport  # type: ignore[attr-defined]  # a socket's frames do not wait
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        if self.refused:
            return
        was_in_head = self.in_head
        self.piece = len(data)
        self.came += self.piece
        super().data_received(data)
        if was_in_head and self.in_head:
            self.dripped += len(data)
            if self.dripped > MAX_HEAD:
                self.refuse()

    def on_message_begin(self) -> None:
        self.in_head, self.dripped = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self.in_head = False
        if self.came > MAX_HEAD and self.size_of_head() > MAX_HEAD:
            self.refuse()
        if not self.refused:
            super().on_headers_complete()

    def size_of_head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        if not self.refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self.in_head, self.dripped, self.came = True, 0, self.piece
        if not self.refused:
            super().on_message_complete()

    def refuse(self) -> None:
        self.refused = True
        if not self.transport.is_closing():
            self.transport.write(ANSWER)
            self.transport.close()


class Joined:
    """A transport where a short write leaves with the next one, or at the end of this turn of the loop.

    The server writes the head and the body of an answer apart; sent apart, each costs a call and wakes the client."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.held = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def write(self, data: bytes) -> None:
        if self.held or len(data) > SHORT:
            data, self.held = self.held + data, b""
            self.transport.write(data)
        else:
            self.held = data
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        if self.held and not self.transport.is_closing():
            self.transport.write(self.held)
        self.held = b""

    def close(self) -> None:
        self.flush()
        self.transport.close()
