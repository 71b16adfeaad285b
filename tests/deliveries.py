"""Deliver to the door as a sender would: bytes, headers, a signature; no server in between."""

import asyncio
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any

from django.db import connections

from tests.builders import SECRET
from triggers.door import Door


@dataclass
class Answered:
    """What the door said."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def signed(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def github(body: bytes | dict[str, Any], *, id: str = "d-1", event: str = "issues", **headers: str) -> dict[str, Any]:
    """A GitHub delivery, signed; keywords replace headers (`X_Hub_Signature_256=` for another signature)."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": id,
        "X-Hub-Signature-256": signed(raw),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return {"body": raw, "headers": given}


async def send(
    door: Door,
    slug: str = "github",
    *,
    body: bytes = b"",
    headers: dict[str, str] | list[tuple[str, str]] | None = None,
    method: str = "POST",
    chunks: int = 1,
    query: str = "",
) -> Answered:
    """One request in `chunks` parts."""
    pairs = headers.items() if isinstance(headers, dict) else headers or ()
    given = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
    scope = {"type": "http", "method": method, "path": f"/hooks/{slug}", "headers": given, "client": ("127.0.0.1", 9)}
    scope["query_string"] = query.encode("latin-1")
    step = max(1, -(-len(body) // chunks))
    parts = [body[start : start + step] for start in range(0, len(body), step)] or [b""]
    messages = [
        {"type": "http.request", "body": part, "more_body": number < len(parts) - 1}
        for number, part in enumerate(parts)
    ]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def keep(message: Any) -> None:
        sent.append(message)

    await door(scope, receive, keep)
    names = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answered(sent[0]["status"], names, b"".join(message.get("body", b"") for message in sent[1:]))


def deliver(*requests: dict[str, Any], door: Door | None = None) -> list[Answered]:
    """Send the requests at once through one door; waits for what the door does after its answers."""

    async def run() -> list[Answered]:
        gate = door or Door()
        answers = await asyncio.gather(*(send(gate, **request) for request in requests))
        await gate.close()
        return list(answers)

    try:
        return asyncio.run(run())
    finally:
        connections.close_all()
