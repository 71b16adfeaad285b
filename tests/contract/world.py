"""One row of every kind, and every operation of the API with a request that makes sense for it."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group
from django.test import Client

from approvals.models import Freeze, PolicyChange
from project.lib import clock
from project.people import roles
from project.people.models import User
from tests import builders
from tests.ruled import rule
from triggers import agents, bulk
from triggers.models import DeadLetter, EventType, Refusal

API = "/api/v1"
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Operation:
    """`path` as OpenAPI writes it; `who` is the ability it needs (several: any of them)."""

    method: str
    path: str
    who: str
    body: Any = None
    fresh: bool = False  # an admin in person who gave the password again

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


CLOUD_EVENT = {"specversion": "1.0", "id": "1", "source": "/t", "type": "t.happened", "data": {}}
DECISION = {"verdict": "approve", "digest": "sha256:none", "revision": 1}
SOURCE = {"slug": "fresh", "kind": "schedule", "config": {"every": 60}}
PAST = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"}
TRIGGER = {"slug": "fresh", "source": "github", "handler": "contract-test"}
RULE = {"when": "action.kind == 'stripe.refund'", "effect": "require", "quorum": 2}
WISH = {"kind": "github.comment", "arguments": {"repo": "acme/shop", "number": 7, "body": "Thank you"}}
FREEZE = {"name": "Release night", "starts_at": "2099-01-01T00:00:00Z", "ends_at": "2099-01-02T00:00:00Z"}
OPERATIONS = [
    Operation("GET", "/events", "view"),
    Operation("POST", "/events", "ingest", CLOUD_EVENT),
    Operation("GET", "/events/{seq}", "view"),
    Operation("POST", "/events/{seq}/run-again", "operate", {"trigger": "watch"}),
    Operation("GET", "/runs", "view"),
    Operation("GET", "/runs/{id}", "view"),
    Operation("POST", "/runs/{id}/cancel", "operate"),
    Operation("POST", "/runs/{id}/rerun", "operate", {}),
    Operation("POST", "/runs/{id}/choice", "operate", {"choice": "continue"}),
    Operation("GET", "/dead-letters", "view"),
    Operation("GET", "/dead-letters/{id}", "view"),
    Operation("POST", "/dead-letters/{id}/redrive", "operate", {}),
    Operation("POST", "/dead-letters/{id}/dismiss", "operate", {"reason": "known"}),
    Operation("POST", "/dead-letters/{id}/assign", "operate", {"to": None}),
    Operation("POST", "/bulk", "operate", {"verb": "redrive", "filter": {}, "dry_run": True}),
    Operation("GET", "/bulk/{id}", "view"),
    Operation("GET", "/bulk/{id}/items", "view"),
    Operation("POST", "/bulk/{id}/pause", "operate"),
    Operation("POST", "/bulk/{id}/resume", "operate"),
    Operation("POST", "/bulk/{id}/cancel", "operate"),
    Operation("GET", "/sources", "view"),
    Operation("POST", "/sources", "configure", SOURCE),
    Operation("POST", "/sources/preview", "view", {"config": {"cron": "0 8 * * *"}}),
    Operation("POST", "/sources/fit", "configure", {"headers": {}, "secret": "the secret word"}),
    Operation("GET", "/sources/{slug}", "view"),
    Operation("PATCH", "/sources/{slug}", "configure", {"version": 1, "enabled": False}),
    Operation("DELETE", "/sources/{slug}", "configure"),
    Operation("POST", "/sources/{slug}/backfill", "operate", PAST),
    Operation("POST", "/sources/{slug}/try", "configure"),
    Operation("GET", "/sources/{slug}/refusals", "view"),
    Operation("POST", "/sources/{slug}/refusals/{id}/admit", "operate"),
    Operation("GET", "/event-types", "view"),
    Operation("GET", "/event-types/{type}", "view"),
    Operation("PATCH", "/event-types/{type}", "configure", {"version": 1, "mode": "refuse"}),
    Operation("GET", "/agents", "view"),
    Operation("POST", "/agents", "configure", {"slug": "fresh", "machine": "code-agent"}),
    Operation("GET", "/agents/{slug}", "view"),
    Operation("DELETE", "/agents/{slug}", "configure"),
    Operation("GET", "/agents/{slug}/history", "view"),
    Operation("POST", "/agents/{slug}/replay", "view", {"since": "2026-01-01T00:00:00Z"}),
    Operation("GET", "/triggers", "view"),
    Operation("POST", "/triggers", "configure", TRIGGER),
    Operation("GET", "/triggers/{slug}", "view"),
    Operation("PATCH", "/triggers/{slug}", "configure", {"version": 1, "enabled": False}),
    Operation("DELETE", "/triggers/{slug}", "configure"),
    Operation("GET", "/actions", "view"),
    Operation("POST", "/actions", "propose", WISH),
    Operation("GET", "/actions/{id}", "view"),
    Operation("POST", "/actions/{id}/decisions", "decide", DECISION),
    Operation("POST", "/actions/{id}/cancel", "operate decide", {}),
    Operation("POST", "/actions/{id}/consume", "propose", {"digest": "sha256:none", "under": "call-1"}),
    Operation("POST", "/actions/{id}/take-back", "decide configure"),
    Operation("POST", "/actions/{id}/outcome", "operate", {"status": "failed"}),
    Operation("GET", "/audit", "view"),
    Operation("GET", "/connections", "view"),
    Operation("POST", "/connections", "configure", {"slug": "fresh", "system": "github", "practice": True}, fresh=True),
    Operation("GET", "/connections/{slug}", "view"),
    Operation("PATCH", "/connections/{slug}", "configure", {"version": 1, "name": "x"}, fresh=True),
    Operation("DELETE", "/connections/{slug}", "configure", fresh=True),
    Operation("GET", "/policies", "view"),
    Operation("POST", "/policies", "configure", {"slug": "fresh", **RULE}, fresh=True),
    Operation("GET", "/policies/{slug}", "view"),
    Operation("PATCH", "/policies/{slug}", "configure", {"version": 1, "order": 5}, fresh=True),
    Operation("DELETE", "/policies/{slug}", "configure", fresh=True),
    Operation("GET", "/freezes", "view"),
    Operation("POST", "/freezes", "configure", FREEZE, fresh=True),
    Operation("GET", "/freezes/{id}", "view"),
    Operation("DELETE", "/freezes/{id}", "configure", fresh=True),
    Operation("POST", "/policy-backtests", "configure", {"slug": "fresh", **RULE}),
    Operation("GET", "/policy-changes", "view"),
    Operation("POST", "/policy-changes/{id}/confirm", "configure", fresh=True),
    Operation("POST", "/policy-changes/{id}/withdraw", "configure", fresh=True),
    Operation("POST", "/triggers/{slug}/test", "view", {"limit": 5}),
    Operation("POST", "/switch", "operate", {"scope": "all", "paused": True}),
    Operation("GET", "/live", "view"),
    Operation("POST", "/step-up", "view", {"password": "wrong"}),
]


@dataclass(frozen=True)
class World:
    """The ids and slugs of the rows, by the segment of the path before them."""

    keys: dict[str, Any]

    def address(self, operation: Operation) -> str:
        segments = operation.path.split("/")
        filled = [str(self.keys[segments[at - 1]]) if "{" in part else part for at, part in enumerate(segments)]
        return f"{API}{'/'.join(filled)}"


def make_world(requester: User) -> World:
    source = builders.source("github")
    builders.source("api", provider="", kind="cloudevents", types=["**"])
    trigger = builders.trigger("contract-test", slug="watch")
    event = builders.event(data={"secret": "of the payload"})
    run = builders.run("contract-test", event=event, trigger=trigger)
    now = clock.now()
    letter = DeadLetter.objects.create(
        kind="run", run=run, fingerprint="f" * 16, error_type="Boom", first_at=now, last_at=now
    )
    bulk_job = bulk.press("dismiss", DeadLetter.objects.all(), by=requester, filter={}, reason="known")
    refusal = Refusal.objects.create(source=source, slug="github", at=now, reason="signature", answered=401)
    connection = builders.connection()
    action = builders.action(by=requester, run=run, arguments={"repo": "acme/shop", "title": "secret title"})
    rows = {"events": event, "runs": run, "dead-letters": letter, "actions": action, "refusals": refusal}
    rows["bulk"] = bulk_job
    rows["teams"] = Group.objects.get(name=roles.VIEWER)
    rows["policy-changes"] = PolicyChange.objects.create(verb="archive", slug="refunds", by=requester, at=now)
    times = {"starts_at": now + DAY, "ends_at": now + 2 * DAY, "at": now}
    rows["freezes"] = Freeze.objects.create(name="Later", by=requester, **times)
    slugs = {
        "policies": rule("refunds", **RULE).slug,
        "sources": source.slug,
        "agents": agents.make("coder", "code-agent", by=requester).slug,
        "event-types": EventType.objects.create(type=event.type, first_at=now, last_at=now, sample=event.pk).type,
        "triggers": trigger.slug,
        "connections": connection.slug,
    }
    return World({**{name: row.pk for name, row in rows.items()}, **slugs})


def send(client: Client, operation: Operation, world: World) -> Any:
    body = {"data": operation.body, "content_type": "application/json"} if operation.body is not None else {}
    if operation.name == "POST /events":
        body["content_type"] = "application/cloudevents+json"
    if operation.name == "POST /actions":
        body["headers"] = {"Idempotency-Key": "one"}
    return client.generic(operation.method, world.address(operation), **encoded(body))


def encoded(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "data": json.dumps(body["data"])} if "data" in body else body
