"""Slack as far as the desk speaks with it: messages to people, brought up to date, and buttons that are signed."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.test import Client

from project.lib import clock
from tests.recorder import Reply

SIGNING = "8f742231b10e8888abcd99yyyzzz85a5"
TEAM = "T111"
numbers = count(1)


@dataclass
class FakeSlack:
    """`messages` by their `ts`; each holds what stands in the chat now."""

    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    whispers: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        told = json.loads(body)
        name = path.rpartition("/")[2]
        if name == "auth.test":
            return 200, {}, {"ok": True, "team_id": TEAM}
        if name == "chat.postMessage":
            ts = f"{next(numbers)}.0"
            self.messages[ts] = told
            return 200, {}, {"ok": True, "channel": f"D{told['channel']}", "ts": ts}
        if name == "chat.update":
            self.messages[told["ts"]] |= told
            return 200, {}, {"ok": True}
        self.whispers.append(told)
        return 200, {}, {"ok": True}

    def to(self, member: str) -> list[dict[str, Any]]:
        return [one for one in self.messages.values() if one["channel"] in (member, f"D{member}")]

    def button(self, member: str) -> str | None:
        """What the newest message to this person lets them press."""
        blocks = self.to(member)[-1]["blocks"]
        pressed = [each for block in blocks if block["type"] == "actions" for each in block["elements"]]
        return next((each["value"] for each in pressed if "value" in each), None)


def press(
    value: str,
    *,
    by: str = "U2",
    slug: str = "slack",
    name: str = "approve",
    trigger: str = "",
    team: str = TEAM,
    secret: str = SIGNING,
    at: float | None = None,
) -> HttpResponse:
    """What Slack sends when somebody presses a button."""
    told = {
        "type": "block_actions",
        "user": {"id": by, "team_id": team, "username": "somebody"},
        "team": {"id": team},
        "container": {"type": "message", "message_ts": "1.0", "channel_id": f"D{by}"},
        "trigger_id": trigger or f"{next(numbers)}.trigger",
        "actions": [{"action_id": name, "value": value, "type": "button"}],
    }
    return deliver(urlencode({"payload": json.dumps(told)}), slug=slug, secret=secret, at=at)


def deliver(body: str, *, slug: str = "slack", secret: str = SIGNING, at: float | None = None) -> HttpResponse:
    moment = str(int(clock.now().timestamp() if at is None else at))
    mark = hmac.new(secret.encode(), f"v0:{moment}:{body}".encode(), hashlib.sha256).hexdigest()
    headers = {"X-Slack-Request-Timestamp": moment, "X-Slack-Signature": f"v0={mark}"}
    browser = Client(enforce_csrf_checks=True)
    form = "application/x-www-form-urlencoded"
    return browser.post(f"/api/v1/chat/{slug}", body, content_type=form, headers=headers)  # type: ignore[return-value]
