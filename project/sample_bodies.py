"""What the far sides of the tour would send: shaped like their real deliveries, with a new number each time."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Made = tuple[dict[str, str], Any]  # headers, body as JSON value


@dataclass(frozen=True)
class Sample:
    """One delivery somebody could send: to which source of the tour, and what it shows."""

    source: str
    about: str
    make: Callable[[int], Made]


def fresh_id() -> str:
    return f"sample-{secrets.token_hex(12)}"


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# GitHub

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


def github(event: str, body: dict[str, Any]) -> Made:
    headers = {"X-GitHub-Event": event, "X-GitHub-Delivery": fresh_id(), "User-Agent": "GitHub-Hookshot/sample"}
    return headers, body | {"repository": REPOSITORY, "sender": REPORTER}


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
        "created_at": now_text(),
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


def github_push(number: int) -> Made:
    """A push of two commits; one of them carries a file that should not be there."""
    after, before = secrets.token_hex(20), secrets.token_hex(20)
    first = commit(secrets.token_hex(20), f"Take vouchers at the till (#{number})", modified=["shop/till.py"])
    second = commit(after, "Add the settings of the new payment provider", added=[".env", "shop/payment.py"])
    body = {
        "ref": "refs/heads/main",
        "before": before,
        "after": after,
        "created": False,
        "deleted": False,
        "forced": False,
        "compare": f"https://github.com/acme/shop/compare/{before[:12]}...{after[:12]}",
        "commits": [first, second],
        "head_commit": second,
        "pusher": {"name": REPORTER["login"], "email": "mona@example.org"},
    }
    return github("push", body)


def commit(id: str, message: str, **paths: list[str]) -> dict[str, Any]:
    author = {"name": "Mona", "email": "mona@example.org", "username": REPORTER["login"]}
    changed = {"added": [], "removed": [], "modified": [], **paths}
    link = f"https://github.com/acme/shop/commit/{id}"
    return {"id": id, "message": message, "timestamp": now_text(), "url": link, "author": author, **changed}


# Shops


def generic(number: int) -> Made:
    data = {"order": number, "total": "49.90", "currency": "EUR", "customer": "ann@example.org"}
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {}, {"event_type": "order.created", "event_id": fresh_id(), "timestamp": now, "data": data}


def shopify_order(number: int) -> Made:
    headers = {
        "X-Shopify-Topic": "orders/create",
        "X-Shopify-Event-Id": fresh_id(),
        "X-Shopify-Webhook-Id": fresh_id(),
        "X-Shopify-Shop-Domain": "acme-shop.example",
        "X-Shopify-Triggered-At": now_text(),
    }
    lines = [
        {"id": number * 10 + 1, "title": "Tea, green, 250 g", "quantity": 2, "price": "12.50"},
        {"id": number * 10 + 2, "title": "Teapot", "quantity": 1, "price": "24.90"},
    ]
    body = {
        "id": 5_000_000_000 + number,
        "name": f"#{number}",
        "order_number": number,
        "email": "ann@example.org",
        "created_at": now_text(),
        "total_price": "49.90",
        "subtotal_price": "49.90",
        "currency": "EUR",
        "financial_status": "paid",
        "test": False,
        "customer": {"id": 77, "email": "ann@example.org", "first_name": "Ann"},
        "line_items": lines,
    }
    return headers, body


# Alerts


def alert(name: str, number: int, *, summary: str, **labels: str) -> dict[str, Any]:
    """One alert as Alertmanager and Grafana both send it."""
    return {
        "status": "firing",
        "labels": {"alertname": name, **labels},
        "annotations": {"summary": summary},
        "startsAt": now_text(),
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": f"https://monitoring.example/graph/{number}",
        "fingerprint": secrets.token_hex(8),
    }


def group(alerts: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    name = alerts[0]["labels"]["alertname"]
    shared = dict(set.intersection(*(set(one["labels"].items()) for one in alerts)))
    return {
        "receiver": "nightdesk",
        "status": "firing",
        "alerts": alerts,
        "groupLabels": {"alertname": name},
        "commonLabels": shared,
        "commonAnnotations": alerts[0]["annotations"] if len(alerts) == 1 else {},
        "groupKey": f'{{}}:{{alertname="{name}"}}',
        "truncatedAlerts": 0,
        **more,
    }


def alertmanager(number: int) -> Made:
    alerts = [
        alert("DiskSpaceLow", number, severity="critical", instance=f"{host}:9100", summary="4 % of / are left")
        for host in ("web-1", "web-2")
    ]
    return {"User-Agent": "Alertmanager/sample"}, group(alerts, version="4", externalURL="https://alerts.example")


def grafana(number: int) -> Made:
    one = alert(
        "HighMemoryConsumption", number, severity="warning", instance="db-1", summary="Memory over 90 % for 5 min"
    )
    one |= {"values": {"A": 91.4}, "valueString": "[ var='A' labels={instance=db-1} value=91.4 ]"}
    title = "[FIRING:1] HighMemoryConsumption (db-1)"
    return {}, group([one], version="1", orgId=1, title=title, state="alerting", message=title)


# Programs and folders


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


def task_assigned(number: int) -> Made:
    """It names the agent `coder` of the tour."""
    headers, body = cloudevents(number)
    task = {"repo": "acme/shop", "number": number, "title": "Correct the README"}
    text = 'The first line of README.md says "recieve"; it should be "receive".'
    named = {"type": "task.assigned", "subject": f"tasks/{number}", "correlationid": "coder"}
    return headers, {**body, **named, "data": {**task, "text": text}}


def upload(number: int) -> Made:
    """A table for the watched folder; its name travels as a header."""
    return {"File-Name": f"orders-{number}.csv"}, f"order,total\n{number},49.90\n{number + 1},12.50\n"


SAMPLES: dict[str, Sample] = {
    "github-issue": Sample("github", "an issue was opened; wakes triage-issue, which asks for your nod", github_issue),
    "github-fails": Sample("github", "an issue its handler cannot read; ends in the dead letters", github_fails),
    "github-push": Sample("github", "a push with a file that should not be there; wakes review-push", github_push),
    "github-ping": Sample("github", "GitHub's first sign of life; stored nowhere, the source shows it", github_ping),
    "shopify-order": Sample("shopify", "a new order; wakes order-created, which asks before it mails", shopify_order),
    "grafana": Sample("grafana", "memory runs short; wakes diagnose-alert", grafana),
    "alertmanager": Sample(
        "alertmanager", "disks fill up; diagnose-alert asks before it calls a runbook", alertmanager
    ),
    "upload": Sample("inbox", "a file in the watched folder; wakes new-upload", upload),
    "generic": Sample("generic", "an order from any program that signs its JSON", generic),
    "custom": Sample("custom", "the same, signed by a scheme of your own", generic),
    "none": Sample("none", "the same, which nobody signs", generic),
    "cloudevents": Sample("api", "a CloudEvent in structured form", cloudevents),
    "task-assigned": Sample("api", "a task for the agent `coder`, which plans it and asks for your nod", task_assigned),
}
