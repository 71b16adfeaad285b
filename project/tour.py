"""What the first start puts into an empty desk: its owner, and a small world in which the whole story can be played."""

import secrets
from typing import Any

from django.conf import settings
from django.db import transaction

from approvals import first_rule
from approvals.models import Connection
from project.lib import clock, crypto
from project.people import roles
from project.people.models import User
from triggers import agents
from triggers.models import Agent, Audit, ConfigVersion, Source, Trigger
from triggers.sources.schedule import Schedule

OWNER = "owner"

SOURCES: dict[str, dict[str, Any]] = {
    "github": {
        "name": "GitHub",
        "kind": "webhook",
        "provider": "github",
        "types": ["github.**"],
        "dedupe_window": 7 * 86400,
    },
    "shopify": {"name": "Shopify", "kind": "webhook", "provider": "shopify", "types": ["shopify.**"]},
    "grafana": {"name": "Grafana", "kind": "webhook", "provider": "grafana", "types": ["grafana.**"]},
    "alertmanager": {
        "name": "Alertmanager",
        "kind": "webhook",
        "provider": "alertmanager",
        "types": ["alertmanager.**"],
    },
    "inbox": {"name": "Uploads", "kind": "file", "types": ["inbox.**"]},
    "generic": {"name": "Any program (signed JSON)", "kind": "webhook", "provider": "generic", "types": ["**"]},
    "api": {"name": "CloudEvents", "kind": "cloudevents", "types": ["**"]},
    "daily": {"name": "Every morning", "kind": "schedule", "config": {"cron": "0 8 * * *"}, "types": ["**"]},
}

RUNBOOKS = {"disk_full": "https://runbooks.example/free-disk"}  # on the practice page: nothing leaves the desk
TRIGGERS: dict[str, dict[str, Any]] = {
    "triage-issue": {
        "name": "Triage new issues",
        "source": "github",
        "type_pattern": "github.issues.opened",
        "handler": "triage-issue",
    },
    "daily-report": {
        "name": "Report every morning",
        "source": "daily",
        "handler": "daily-report",
        "limits": {"concurrency": {"limit": 1, "when_busy": "skip", "waiting_counts": True}},
    },
    "review-push": {
        "name": "Review pushes",
        "source": "github",
        "type_pattern": "github.push",
        "handler": "review-push",
    },
    "order-created": {
        "name": "Tell of new orders and confirm them",
        "source": "shopify",
        "type_pattern": "shopify.orders/create",
        "handler": "order-created",
    },
    "diagnose-grafana": {
        "name": "Diagnose alerts of Grafana",
        "source": "grafana",
        "handler": "diagnose-alert",
        "config": {"runbooks": RUNBOOKS},
    },
    "diagnose-alertmanager": {
        "name": "Diagnose alerts of Alertmanager",
        "source": "alertmanager",
        "handler": "diagnose-alert",
        "config": {"runbooks": RUNBOOKS},
    },
    "new-upload": {
        "name": "Look at new uploads",
        "source": "inbox",
        "type_pattern": "inbox.created",
        "handler": "new-upload",
    },
    "alarm": {
        "name": "Tell us when something gives up",
        "source": "/nightdesk",
        "type_pattern": "nightdesk.dead_letter.opened",
        "handler": "notify",
        "priority": 2,
    },
    "alarm-silent": {
        "name": "Tell us when a source falls silent",
        "source": "/nightdesk",
        "type_pattern": "nightdesk.source.*",
        "handler": "notify",
        "priority": 2,
    },
    "alarm-unreached": {
        "name": "Tell us when nobody could be asked",
        "source": "/nightdesk",
        "type_pattern": "nightdesk.approval.unreached",
        "handler": "notify",
        "priority": 2,
    },
}

AGENTS = {"coder": "code-agent"}  # slug -> machine

# Practice ones, beside `default`.
CONNECTIONS = ("github", "http", "smtp", "slack", "feishu", "wecom", "stripe", "kafka")


def first_start(*, bare: bool) -> str | None:
    """Seed an empty desk. Returns the owner's password when one had to be made up, else None.

    All or nothing: a start that is killed half-way begins again with an empty desk.
    """
    with transaction.atomic():
        if User.objects.exists():
            return None
        made_up = "" if settings.OWNER_PASSWORD else secrets.token_urlsafe(12)
        owner = User.objects.create_superuser(OWNER, password=settings.OWNER_PASSWORD or made_up)
        User.objects.filter(pk=owner.pk).update(must_change_password=bool(made_up))
        roles.grant(owner, *roles.ROLES)
        Audit.write("create", owner, first_start=True)
        first_rule.make(by=owner)
        if not bare:
            seed(owner)
    return made_up or None


def seed(owner: User) -> list[str]:
    """Add what is missing of the tour, in one transaction; returns the slugs that were added."""
    with transaction.atomic():
        added = [
            *(slug for slug, fields in SOURCES.items() if add_source(slug, fields)),
            *(slug for slug, fields in TRIGGERS.items() if add_trigger(slug, fields, owner)),
            *(slug for slug in map("practice-{}".format, CONNECTIONS) if add_connection(slug)),
            *(slug for slug, machine in AGENTS.items() if add_agent(slug, machine, owner)),
        ]
        if not Connection.objects.filter(slug="default").exists():
            # Without an address of ours the alarm goes to the practice page, where it can be seen.
            config, practice = {"from": "NOTIFY_URLS"}, not settings.NOTIFY_URLS
            Connection.objects.create(
                slug="default", name="Our own people", system="notify", config=config, practice=practice
            )
            added.append("default")
        ConfigVersion.bump()
    return added


def add_source(slug: str, fields: dict[str, Any]) -> bool:
    if Source.objects.filter(slug=slug).exists():
        return False
    row = Source(slug=slug, **fields)
    if row.kind == "schedule":
        row.config = {"timezone": settings.TIME_ZONE, **row.config}
        row.next_fire_at = Schedule.model_validate(row.config).next_after(clock.now())
    elif row.kind == "file":
        inbox = settings.DATA_DIR / slug
        inbox.mkdir(mode=0o700, exist_ok=True)
        row.config = {"path": str(inbox)}
        row.enabled = str(inbox) in settings.FILE_ROOTS  # whoever opens other folders need not open this one
    else:
        row.sealed_secrets = crypto.seal([{"value": secrets.token_hex(32)}])
    row.save()
    Audit.write("create", row, tour=True)
    return True


def add_trigger(slug: str, fields: dict[str, Any], owner: User) -> bool:
    if Trigger.objects.filter(slug=slug).exists():
        return False
    row = Trigger.objects.create(slug=slug, owner=owner, changed_by=owner, **fields)
    Audit.write("create", row, by=owner, tour=True)
    return True


def add_connection(slug: str) -> bool:
    if Connection.objects.filter(slug=slug).exists():
        return False
    system = slug.removeprefix("practice-")
    row = Connection.objects.create(slug=slug, name=f"Practice {system}", system=system, practice=True)
    Audit.write("create", row, tour=True)
    return True


def add_agent(slug: str, machine: str, owner: User) -> bool:
    if Agent.objects.filter(slug=slug).exists():
        return False
    agents.make(slug, machine, by=owner)
    return True
