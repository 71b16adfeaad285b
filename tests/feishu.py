"""Feishu as far as the desk speaks with it: cards to people, brought up to date, and call-backs that are signed."""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from django.http import HttpResponse
from django.test import Client

from project.lib import clock
from tests.recorder import Reply

KEY = "encrypt-key-1"
APP = "cli_a1"
BEN = "ou_ben"
numbers = count(1)


@dataclass
class FakeFeishu:
    """`cards` by the id of their message; each holds what stands in the chat now."""

    cards: dict[str, dict[str, Any]] = field(default_factory=dict)
    to: dict[str, str] = field(default_factory=dict)
    ben: str = BEN  # whose the address ben@example.org is

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        told = json.loads(body)
        if path.endswith("/tenant_access_token/internal"):
            good = told == {"app_id": APP, "app_secret": "app-secret-1"}
            return 200, {}, {"code": 0, "tenant_access_token": "t-1"} if good else {"code": 10003, "msg": "no"}
        if headers.get("authorization") != "Bearer t-1":
            return 200, {}, {"code": 99991663, "msg": "token"}
        if "batch_get_id" in path:
            known = [{"user_id": self.ben, "email": "ben@example.org"}] if told["emails"] == ["ben@example.org"] else []
            return 200, {}, {"code": 0, "data": {"user_list": known}}
        if method == "PATCH":
            self.cards[path.rpartition("/")[2]] = json.loads(told["content"])
            return 200, {}, {"code": 0, "data": {}}
        name = f"om_{next(numbers)}"
        self.cards[name], self.to[name] = json.loads(told["content"]), told["receive_id"]
        return 200, {}, {"code": 0, "data": {"message_id": name}}

    @property
    def last(self) -> dict[str, Any]:
        return list(self.cards.values())[-1]

    def button(self) -> dict[str, Any] | None:
        """What the newest card lets a person press."""
        pressed = [each for one in self.last["elements"] for each in one.get("actions", [])]
        return next((each["value"] for each in pressed if "value" in each), None)


def told(value: object, *, by: str = BEN, app: str = APP, event: str = "") -> dict[str, Any]:
    """What Feishu says when somebody presses a button."""
    header = {"event_id": event or f"ev-{next(numbers)}", "event_type": "card.action.trigger", "app_id": app}
    pressed = {"action": {"value": value, "tag": "button"}, "operator": {"open_id": by, "tenant_key": "t"}}
    where = {"open_message_id": "om_1", "open_chat_id": "oc_1"}
    return {"schema": "2.0", "header": header, "event": {**pressed, "context": where, "host": "im_message"}}


def press(value: object, *, key: str = KEY, at: float | None = None, slug: str = "lark", **of: str) -> HttpResponse:
    return deliver(sealed(told(value, **of), key), key=key, at=at, slug=slug)


def sealed(what: object, key: str = KEY) -> str:
    plain, vector = json.dumps(what).encode(), b"0123456789abcdef"
    plain += bytes([16 - len(plain) % 16]) * (16 - len(plain) % 16)
    closing = Cipher(AES(hashlib.sha256(key.encode()).digest()), CBC(vector)).encryptor()
    text = base64.b64encode(vector + closing.update(plain) + closing.finalize()).decode()
    return json.dumps({"encrypt": text})


def deliver(body: str, *, key: str = KEY, at: float | None = None, slug: str = "lark", mark: str = "") -> HttpResponse:
    moment = str(int(clock.now().timestamp() if at is None else at))
    mark = mark or hashlib.sha256(f"{moment}n1{key}{body}".encode()).hexdigest()
    headers = {"X-Lark-Request-Timestamp": moment, "X-Lark-Request-Nonce": "n1", "X-Lark-Signature": mark}
    browser = Client(enforce_csrf_checks=True)
    form = "application/json"
    return browser.post(f"/api/v1/chat/{slug}", body, content_type=form, headers=headers)  # type: ignore[return-value]
