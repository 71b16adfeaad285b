"""An MCP server that says whatever a test wants, and keeps to no rule of its own."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Asked = dict[str, Any]
PLAIN = {"type": "object", "properties": {}}


def offer(name: str, schema: Any = PLAIN, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": schema, **more}


@contextmanager
def serving(
    tools: list[dict[str, Any]],
    answer: Any = None,
    *,
    headers: dict[str, str] | None = None,
    page: int = 1000,
    called: list[str] | None = None,
) -> Iterator[str]:
    """Its address while the block lasts. `answer` is the result of every call: an object, bytes as they are sent, a
    number for the code of an error, or None to hang up. It lists `page` tools at once, and notes in `called` which were
    called."""

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            match asked.get("method"):
                case "initialize":
                    known = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}}
                    self.say(asked, known | {"serverInfo": {"name": "strange", "version": "1"}})
                case "tools/list":
                    first = int((asked.get("params") or {}).get("cursor") or 0)
                    rest = {"nextCursor": str(first + page)} if first + page < len(tools) else {}
                    self.say(asked, {"tools": tools[first : first + page]} | rest)
                case "tools/call":
                    if called is not None:
                        called.append(asked["params"]["name"])
                    self.say(asked, answer, headers or {})
                case _ if "id" not in asked:
                    self.send(b"", 202)
                case _:
                    self.say(asked, -32601)

        def say(self, asked: Asked, what: Any, extra: dict[str, str] | None = None) -> None:
            if what is None:
                self.close_connection = True
                return None
            if isinstance(what, bytes):
                return self.send(what, 200, extra)
            told = {"error": {"code": what, "message": "no"}} if isinstance(what, int) else {"result": what}
            return self.send(json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), **told}).encode(), 200, extra)

        def send(self, body: bytes, status: int, extra: dict[str, str] | None = None) -> None:
            self.send_response(status)
            usual = {"content-type": "application/json", "content-length": str(len(body))}
            for name, value in (usual | (extra or {})).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.send(b"", 405)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
