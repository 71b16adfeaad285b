"""Real, correctly signed sample deliveries, as the far side would send them; new ids and numbers each time."""

import base64
import fcntl
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from django.conf import settings
from django.db.models import Max

from project.lib.crypto import Unreadable
from triggers.models import Event, Source

TIMEOUT = 20.0  # seconds for the whole delivery
Made = tuple[dict[str, str], Any]  # headers, body as JSON value


class NotSent(Exception):
    """The delivery could not be made or was not taken; the message says why in one line."""


@dataclass(frozen=True)
class Sample:
    """One delivery somebody could send: to which source of the tour, and what it shows."""

    source: str
    about: str
    make: Callable[[int], Made]


@dataclass(frozen=True)
class Sent:
    """What the desk answered."""

    status: str  # accepted, duplicate, handshake
    seq: int | None
    link: str


def github(event: str, body: dict[str, Any]) -> Made:
    headers = {"X-GitHub-Event": event, "X-GitHub-Delivery": fresh_id(), "User-Agent": "GitHub-Hookshot/sample"}
    return headers, body | {"repository": REPOSITORY, "sender": REPORTER}


REPORTER = {"login": "mona-reports", "id": 4711, "type": "User"}
REPOSITORY = {
    "id": 815,
    "name": "shop",
    "full_name": "acme/shop",
    "private": False,
    "default_branch": "main",
    "html_url": "https://github.com/acme/shop",
    "owner": {"login": "acme", "id": 42, "type": "Organization"},
}


def issue(number: int, title: str, body: str | None) -> dict[str, Any]:
    """An issue as GitHub writes it, cut to what people look at."""
    return {
        "id": 2_000_000_000 + number,
        "number": number,
        "title": title,
        "body": body,
        "state": "open",
        "labels": [],
        "comments": 0,
        "user": REPORTER,
        "created_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "html_url": f"https://github.com/acme/shop/issues/{number}",
    }


def github_issue(number: int) -> Made:
    text = 'The first line of README.md says "recieve"; it should be "receive".'
    return github("issues", {"action": "opened", "issue": issue(number, "Typo in the README: recieve", text)})


def github_fails(number: int) -> Made:
    made = issue(number, "It does not work", None)
    return github("issues", {"action": "opened", "issue": made})


def github_ping(_: int) -> Made:
    return github("ping", {"zen": "Keep it logically awesome.", "hook_id": 109, "hook": {"events": ["issues"]}})


def generic(number: int) -> Made:
    data = {"order": number, "total": "49.90", "currency": "EUR", "customer": "ann@example.org"}
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {}, {"event_type": "order.created", "event_id": fresh_id(), "timestamp": now, "data": data}


def cloudevents(number: int) -> Made:
    body = {
        "specversion": "1.0",
        "id": fresh_id(),
        "source": "/sample/warehouse",
        "type": "stock.low",
        "subject": f"articles/{number}",
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "datacontenttype": "application/json",
        "data": {"article": number, "left": 3},
    }
    return {"Content-Type": "application/cloudevents+json"}, body


SAMPLES: dict[str, Sample] = {
    "github-issue": Sample("github", "an issue was opened; wakes triage-issue, which asks for your nod", github_issue),
    "github-fails": Sample("github", "an issue its handler cannot read; ends in the dead letters", github_fails),
    "github-ping": Sample("github", "GitHub's first sign of life; stored nowhere, the source shows it", github_ping),
    "generic": Sample("generic", "an order from any program that signs its JSON", generic),
    "cloudevents": Sample("api", "a CloudEvent in structured form", cloudevents),
}


def send(name: str, base_url: str = "", *, again: bool = False) -> Sent:
    """Send the sample `name` to the desk at `base_url` (default: this machine's). `again` repeats its last body and
    id byte for byte. Raises NotSent."""
    sample = SAMPLES.get(name)
    if sample is None:
        raise NotSent(f"there is no sample {name!r}; there are: {', '.join(SAMPLES)}")
    source = Source.objects.kept().filter(slug=sample.source).first()
    try:
        known = source is not None and source.secrets
    except Unreadable as error:
        raise NotSent(error.detail) from error
    if source is None or not known:
        raise NotSent(f"this desk has no source {sample.source!r} with a secret; manage.py seed_tour makes one")
    headers, body = recall(name) if again else prepare(sample)
    remember(name, headers, body)
    url = f"{base_url.rstrip('/') or own_address()}/hooks/{source.slug}"
    return read(post(url, headers | signature(source, body), body), base_url)


def prepare(sample: Sample) -> tuple[dict[str, str], bytes]:
    """Fresh headers and the exact bytes of the body."""
    headers, value = sample.make(next_number())
    return {"Content-Type": "application/json"} | headers, json.dumps(value, ensure_ascii=False).encode()


def signature(source: Source, body: bytes) -> dict[str, str]:
    """What proves the sender, by the kind of source."""
    secret = str(source.secrets[0]["value"])
    mark = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if source.kind == "cloudevents":
        return {"Authorization": f"Bearer {secret}"}
    return {"X-Hub-Signature-256": f"sha256={mark}"} if source.provider == "github" else {"X-Signature": mark}


def post(url: str, headers: dict[str, str], body: bytes) -> httpx.Response:
    try:
        return httpx.post(url, content=body, headers=headers, timeout=TIMEOUT, trust_env=False)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise NotSent(f"no desk answers at {url}; start it with: make up") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NotSent(f"{url}: {error or type(error).__name__}") from error


def read(answer: httpx.Response, base_url: str) -> Sent:
    """The desk's answer, or NotSent with its status and text."""
    if answer.status_code not in (200, 202):
        raise NotSent(f"the desk refused it: {answer.status_code} {answer.text[:300]}".strip())
    try:
        told = answer.json()
    except ValueError as error:
        raise NotSent(f"no Nightdesk answers at {answer.request.url}") from error
    seq = told.get("seq")
    link = f"{base_url.rstrip('/') or settings.BASE_URL}{told['event']}" if told.get("event") else ""
    return Sent(told.get("status", ""), seq, link)


def own_address() -> str:
    """How this machine reaches its own desk; BASE_URL may lead around the world and through a proxy."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.HOST, settings.HOST)
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.PORT}"


def next_number() -> int:
    """A number no sample of this desk had before: larger than the last one here, and than any event's."""
    with (folder() / "number").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        newest = Event.objects.aggregate(newest=Max("id"))["newest"] or 0
        number = max(int(file.read() or 0), 100 + newest) + 1
        file.truncate(0)
        file.write(str(number))
    return number


def fresh_id() -> str:
    return f"sample-{secrets.token_hex(12)}"


def folder() -> Path:
    """Where this machine remembers what it rang."""
    place: Path = settings.DATA_DIR / "rung"
    place.mkdir(mode=0o700, exist_ok=True)
    return place


def remember(name: str, headers: dict[str, str], body: bytes) -> None:
    kept = {"headers": headers, "body": base64.b64encode(body).decode()}
    (folder() / f"{name}.json").write_text(json.dumps(kept))


def recall(name: str) -> tuple[dict[str, str], bytes]:
    try:
        kept = json.loads((folder() / f"{name}.json").read_text())
    except FileNotFoundError as error:
        raise NotSent(f"{name} was not sent from here yet, so it cannot be sent again") from error
    return kept["headers"], base64.b64decode(kept["body"])
