"""What the door is measured against: a FastAPI endpoint that checks an HMAC and remembers ids in memory.

It keeps nothing: after a restart every delivery is gone. It runs in an environment of its own (`var/bench`)."""

import hashlib
import hmac
import os

import orjson
from fastapi import FastAPI, HTTPException, Request  # type: ignore[import-not-found]

SECRET = os.environ["BENCH_SECRET"].encode()
app = FastAPI()
seen: set[str] = set()


@app.post("/hooks/github", status_code=202)  # type: ignore[untyped-decorator]
async def receive(request: Request) -> dict[str, str]:
    body = await request.body()
    expected = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, request.headers.get("X-Hub-Signature-256", "")):
        raise HTTPException(401, "not authentic")
    event = orjson.loads(body)
    delivery = request.headers["X-GitHub-Delivery"]
    if delivery in seen:
        return {"status": "duplicate", "id": delivery}
    seen.add(delivery)
    return {"status": "accepted", "id": delivery, "type": f"{request.headers['X-GitHub-Event']}.{event['action']}"}
