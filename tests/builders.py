"""Rows for tests with sensible defaults; every keyword replaces one field. For what a door makes, call the door."""

import itertools
import json
from datetime import timedelta
from typing import Any

from approvals import policy
from approvals.kinds import KINDS
from approvals.models import Action, Connection
from approvals.tiers import Tier
from project.lib import canonical, clock, crypto
from project.people.models import User
from tests import ruled
from triggers.models import ConfigVersion, Event, Run, Source, Step, Trigger

SECRET = "an old but sturdy secret"
numbers = itertools.count(1)


def source(slug: str = "github", *, secrets: tuple[str, ...] = (SECRET,), **fields: Any) -> Source:
    """An open webhook source; GitHub's unless told otherwise."""
    given = {"name": slug, "kind": "webhook", "provider": "github", "types": ["**"], **fields}
    row = Source.objects.create(slug=slug, sealed_secrets=crypto.seal([{"value": value} for value in secrets]), **given)
    ConfigVersion.bump()
    return row


def trigger(handler: str = "triage-issue", *, slug: str = "", **fields: Any) -> Trigger:
    """An enabled trigger on source `github` that every type fits."""
    given = {"name": handler, "source": "github", "type_pattern": "**", **fields}
    row = Trigger.objects.create(slug=slug or f"{handler}-{next(numbers)}", handler=handler, **given)
    ConfigVersion.bump()
    return row


def event(type: str = "github.issues.opened", *, data: Any = None, **fields: Any) -> Event:
    """A stored, matched event of source `github`."""
    slug = fields.setdefault("source_slug", "github")
    given = {
        "source": Source.objects.filter(slug=slug).first(),
        "ce_id": f"delivery-{next(numbers)}",
        "ce_source": f"/{slug}",
        "raw": json.dumps({} if data is None else data).encode(),
        "received_at": clock.now(),
        "status": "routed",
        **fields,
    }
    return Event.objects.create(type=type, **given)


def run(handler: str = "triage-issue", *, event: Event | None = None, **fields: Any) -> Run:
    """A queued run that is due; made for a fresh event unless one is given."""
    now = clock.now()
    given = {"queued_at": now, "due_at": now, **fields}
    return Run.objects.create(handler=handler, event=event or make_event(), **given)


def step(run: Run, seq: int, **fields: Any) -> Step:
    """A finished step of `run`."""
    now = clock.now()
    given = {"name": f"step {seq}", "fence": 1, "started_at": now, "finished_at": now, "result_json": "1", **fields}
    return Step.objects.create(run=run, seq=seq, **given)


make_event = event  # `run` has an argument of that name


def connection(system: str = "github", *, slug: str = "", practice: bool = True, **fields: Any) -> Connection:
    """A practice connection to `system`."""
    return Connection.objects.create(slug=slug or f"practice-{system}", system=system, practice=practice, **fields)


def action(
    kind: str = "github.create_pr",
    *,
    by: User | None = None,
    tier: str = "medium",
    status: str = "awaiting",
    arguments: dict[str, Any] | None = None,
    **fields: Any,
) -> Action:
    """A proposed action as `act()` would have frozen it; `by` is who asked for it. What is high has its rule."""
    if tier == "high" or policy.usual(kind, arguments or {}) is Tier.HIGH:
        ruled.first()
    now, way, known = clock.now(), fields.get("connection"), KINDS.get(kind)
    arguments = arguments or {"repo": "acme/shop", "title": "Fix the typo"}
    envelope = {
        "kind": kind,
        "kind_version": 1,
        "connection": way.slug if way else None,
        "connection_version": fields.get("connection_version", 0),
        "arguments": arguments,
        "preconditions": {},
    }
    text = canonical.text(envelope)
    digest = canonical.digest_of_text(text)
    given = {
        "title": known.headline_of(arguments) if known else kind,
        "key": f"key-{next(numbers)}",
        "requested_by": by,
        "requester_chain": [by.pk] if by else [],
        "take_back_for": 10,
        "created_at": now,
        "expires_at": now + timedelta(days=1),
        **fields,
    }
    return Action.objects.create(
        kind=kind, tier=tier, status=status, canonical=text, digest=digest, proposal_digest=digest, **given
    )
