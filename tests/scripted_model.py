"""A model that plays a script: an OpenAI-compatible server on loopback that counts what it is asked, and misbehaves."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Asked = dict[str, Any]  # the body of one request
Line = dict[str, Any] | Callable[[Asked], dict[str, Any]]  # an answer, or what makes one of the request


@dataclass
class Model:
    """What it was asked, and what it says next; when the script is over it says the last line for ever."""

    url: str
    script: list[Line]
    asked: list[Asked] = field(default_factory=list)
    paid: int = 0  # answers that were charged for
    lock: Any = field(default_factory=threading.Lock)

    def next(self, body: Asked) -> dict[str, Any]:
        with self.lock:
            self.asked.append(body)
            line = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        answer = line(body) if callable(line) else line
        self.paid += answer.get("status", 200) == 200
        return answer

    def last(self) -> list[dict[str, Any]]:
        """The messages of the newest request."""
        messages: list[dict[str, Any]] = self.asked[-1]["messages"]
        return messages

    def results(self) -> dict[str, Any]:
        """What the newest request says of each call: id -> the result, read."""
        return {one["tool_call_id"]: json.loads(one["content"]) for one in self.last() if one["role"] == "tool"}


def says(
    text: str | None = None, *, finish: str = "", tokens: tuple[int, int] | None = (100, 20), **more: Any
) -> dict[str, Any]:
    """An answer in words; without `tokens` it does not say how many it took."""
    message = {"role": "assistant", "content": text, **more}
    calls = "tool_calls" if more.get("tool_calls") else "stop"
    went_in, came_out = tokens or (0, 0)
    usage = {"prompt_tokens": went_in, "completion_tokens": came_out, "total_tokens": went_in + came_out}
    return {
        "body": {
            "id": "completion",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [{"index": 0, "finish_reason": finish or calls, "message": message}],
            **({"usage": usage} if tokens else {}),
        }
    }


def calls(*wanted: tuple[str, Any], ids: tuple[str, ...] = (), **more: Any) -> Line:
    """An answer that asks for tools: `("shop_order", {"cups": 2})`; a text stands for the arguments as written."""
    parts = [
        {
            "id": ids[number] if ids else f"c{number + 1}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for number, (name, given) in enumerate(wanted)
    ]
    return says(tool_calls=parts, **more)


def fails(status: int, message: str = "no", *, code: str = "", after: int | None = None) -> Line:
    """An error of the provider."""
    headers = {} if after is None else {"retry-after": str(after)}
    return {"status": status, "headers": headers, "body": {"error": {"message": message, "code": code or None}}}


def drips() -> Line:
    """A byte now and then for half a minute, and only then an answer."""
    return {**says("late"), "drips": 300}


def streams(line: Any, *, cut: bool = False) -> Line:
    """The answer in pieces, as events (server-sent, `data:` lines), of which `cut` leaves out the second half."""
    [choice] = line["body"]["choices"]
    message = choice["message"]
    deltas = [{"role": "assistant"}, *({"content": sign} for sign in message.get("content") or "")]
    deltas += [{"tool_calls": [{"index": place, **call}]} for place, call in enumerate(message.get("tool_calls") or ())]
    ends = [None] * len(deltas) + [choice["finish_reason"]]
    parts = [
        {
            **line["body"],
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": end}],
        }
        for delta, end in zip([*deltas, {}], ends, strict=True)
    ]
    told = [f"data: {json.dumps(part)}\n\n" for part in parts] + ["data: [DONE]\n\n"]
    text = "".join(told[: len(told) // 2] if cut else told)
    return {"text": text, "headers": {"content-type": "text/event-stream"}}


def hangs_up() -> Line:
    """The connection is reset in the middle of the answer."""
    return {"status": 0}


@contextmanager
def serving(*script: Line) -> Iterator[Model]:
    """The model while the block lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    server.model = model = Model(f"http://127.0.0.1:{server.server_port}/v1", list(script))  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = self.server.model.next(body)  # type: ignore[attr-defined]
        time.sleep(answer.get("delay", 0))
        if answer.get("status") == 0:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        text = answer.get("text") or json.dumps(answer["body"])
        with suppress(ConnectionError):  # whoever asked may be gone
            self.say(answer, text)

    def say(self, answer: dict[str, Any], text: str) -> None:
        self.send_response(answer.get("status", 200))
        for name, value in {"content-type": "application/json", **answer.get("headers", {})}.items():
            self.send_header(name, value)
        drips: int = answer.get("drips", 0)
        self.send_header("content-length", str(drips + len(text.encode())))
        self.end_headers()
        for _ in range(drips):
            time.sleep(0.1)
            self.wfile.write(b" ")
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None: ...
