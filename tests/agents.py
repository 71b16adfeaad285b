"""Programs outside, for tests: what an agent sends to the desk, and a far side that takes its call-backs."""

import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from django.test import Client

from project.people.models import ApiToken, User
from tests.contract.world import API
from tests.far_side import FarSide

ORDER = {"kind": "shop.order", "arguments": {"item": "tea", "cups": 2}}


def agent(user: User | str, *scopes: str, made_by: User | None = None) -> Client:
    """A program with a token of this person, or of the service of this name; `.token` is its row."""
    person, service = (None, user) if isinstance(user, str) else (user, "")
    given = {"user": person, "service": service, "name": "agent", "scopes": list(scopes or ("propose",))}
    row, secret = ApiToken.objects.all().issue(**given, made_by=made_by)
    client = Client(headers={"authorization": f"Bearer {secret}"})
    client.token, client.secret = row, secret  # type: ignore[attr-defined]
    return client


def ask(client: Client, key: str = "one", **body: Any) -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(f"{API}/actions", {**ORDER, **body}, content_type="application/json", headers=headers)


@dataclass(kw_only=True)
class Receiver(FarSide):
    """Takes call-backs; a fault is the status it answers instead of 204."""

    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def make_server(self) -> TCPServer:
        receiver = self

        class Taking(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append((dict(self.headers), body))
                self.send_response(receiver.faults.popleft() if receiver.faults else 204)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        return ThreadingHTTPServer(("127.0.0.1", 0), Taking)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/told?of=it"

    @property
    def told(self) -> list[Any]:
        return [json.loads(body)["data"] for _, body in self.got]
