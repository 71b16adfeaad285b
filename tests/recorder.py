"""A far side that writes down what reached it, and misbehaves on request.

    with Recorder(app) as far:
        far.next("drop")          # do the work, then close the connection without an answer
        far.next(503)             # answer 503 without doing the work
        far.next("hang")          # never answer (until the recorder closes)

`app(method, path, headers, body) -> (status, headers, json)` does the work; without one everything is 200 `{}`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.far_side import FarSide

Reply = tuple[int, Mapping[str, str], Any]
App = Callable[[str, str, Mapping[str, str], bytes], Reply]
Fault = str | int | Reply


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def agree(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
    return 200, {}, {}


@dataclass
class Recorder(FarSide):
    app: App = agree
    seen: list[Seen] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def make_server(self) -> ThreadingHTTPServer:
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer_one(self) -> None:
                recorder.serve(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = answer_one

            def log_message(self, format: str, *args: Any) -> None:
                return None

        return ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def calls(self, method: str, ending: str = "") -> list[Seen]:
        return [one for one in self.seen if one.method == method and one.path.partition("?")[0].endswith(ending)]

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self.lock:
            self.seen.append(Seen(handler.command, handler.path, headers, body))
            fault = self.faults.popleft() if self.faults else None
            if isinstance(fault, int):
                reply: Reply = (fault, {}, {"message": "as asked"})
            elif isinstance(fault, tuple):
                reply = fault
            elif fault in ("hang", "drop_before"):
                reply = (0, {}, None)
            else:
                reply = self.app(handler.command, handler.path, headers, body)
        if fault == "hang":
            self.closing.wait(60)
        if fault in ("hang", "drop", "drop_before"):
            handler.close_connection = True
            handler.connection.close()
            return
        _write(handler, reply)


def _write(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    status, headers, value = reply
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    handler.send_response(status)
    for name, text in {"content-type": "application/json", "content-length": str(len(body)), **headers}.items():
        handler.send_header(name, text)
    handler.end_headers()
    handler.wfile.write(body)
