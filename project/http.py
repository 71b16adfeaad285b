"""The server's HTTP protocol with an end to a request's head: uvicorn's own has none, and the head comes before any
signature. Chosen by `--http project.http:Bounded` (project/processes.py)."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024  # bytes of address and headers, as large proxies allow
REFUSAL = b"The headers of this request are too large.\n"
ANSWER = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(REFUSAL), REFUSAL)
)


class Bounded(HttpToolsProtocol):
    """Answers 431 and hangs up once a head is over MAX_HEAD, also while a single header of it still drips in."""

    in_head = True
    dripped = 0  # bytes that came in pieces which ended no head
    refused = False

    def data_received(self, data: bytes) -> None:
        if self.refused:
            return
        was_in_head = self.in_head
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
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > MAX_HEAD:
            self.refuse()
        if not self.refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self.in_head, self.dripped = True, 0
        if not self.refused:
            super().on_message_complete()

    def refuse(self) -> None:
        self.refused = True
        if not self.transport.is_closing():
            self.transport.write(ANSWER)
            self.transport.close()
