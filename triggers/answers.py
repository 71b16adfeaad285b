"""What the door says to whoever rang: a status, a body, and what is kept of a refusal."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from triggers.errors import TriggerProblem
from triggers.sources.replies import Reply

Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(slots=True)
class Answer:
    """Status, body and what is to be kept of a refusal."""

    status: int
    body: bytes
    reason: str = ""
    detail: str = ""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    greets: int = 0  # the source whose handshake this is
    visit: str = ""  # the address by which that handshake is confirmed
    kind: str = ""  # the body's media type, where it is not our own JSON


def replied(reply: Reply, *, greets: int = 0) -> Answer:
    """The provider's words as an answer."""
    return Answer(reply.status, reply.body, greets=greets, visit=reply.visit, kind=reply.kind)


def body_of(status: int, code: str, title: str, **facts: Any) -> bytes:
    return orjson.dumps({"type": f"/problems/{code}", "title": title, "status": status, "code": code, **facts})


PROBLEM_401 = body_of(401, "not_authentic", "This delivery does not prove who sent it.")
PROBLEM_405 = body_of(405, "method_not_allowed", "Deliveries are sent by POST.")
NOTHING = Answer(200, b'{"status":"accepted","events":[]}')
TOO_SLOW = Answer(408, body_of(408, "too_slow", "The body did not arrive in time."), reason="too_slow")
NOT_FOUND = Answer(404, body_of(404, "not_found", "There is no source here."), reason="not_found")


def problem(status: int, error: TriggerProblem, *, retry: int = 0) -> Answer:
    body = orjson.dumps({**error.body(), "status": status, "code": error.code, "type": f"/problems/{error.code}"})
    headers = [(b"retry-after", str(retry).encode())] if retry else []
    if "accepted" in error.facts:  # RFC 9110, 15.5.16
        headers.append((b"accept-encoding", error.facts["accepted"].encode()))
    return Answer(status, body, "" if retry else error.code, error.detail, headers)


def too_large(most: int) -> Answer:
    title = f"The body is over {most} bytes."
    return Answer(413, body_of(413, "too_large", title, limit=most), "too_large", title)


def too_many(wait: float) -> Answer:
    seconds = max(1, round(wait))
    body = body_of(429, "too_many", "This source sends faster than its limit.", retry_after=seconds)
    return Answer(429, body, "rate_limited", headers=[(b"retry-after", str(seconds).encode())])


def allowed(origin: str, rate: dict[str, float] | None) -> Answer:
    """Consent of a CloudEvents webhook to be rung by that host, and how often a minute; it opens nothing by itself."""
    often = f"{max(1, int(rate['limit'] * 60 / rate['period']))}" if rate else "*"
    told = {"webhook-allowed-origin": origin, "webhook-allowed-rate": often, "allow": "POST"}
    return Answer(200, b"", headers=[(name.encode(), value.encode()) for name, value in told.items()])


async def reply(send: Send, answer: Answer, *, head: bool) -> None:
    kind = answer.kind.encode() or (b"application/json" if answer.status < 300 else b"application/problem+json")
    headers = [(b"content-type", kind), (b"content-length", str(len(answer.body)).encode()), *answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else answer.body})
