"""Somebody who rings all the time, and remembers what he was answered."""

import hashlib
import hmac
import itertools
import json
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import httpx

from tests.processes import Desk

HANDLER = """
from approvals.act import act
from triggers.registry import handler


@handler("take-order")
def take_order(run):
    number = run.event.data["data"]["order"]
    run.step("look", lambda: number)
    if number % 10 == 0:
        act(run, "tell", kind="github.comment", repo="acme/shop", number=number + 1, body=f"order {number}")
    return run.step("done", lambda: number * 2)
"""
QUIET = HANDLER.replace("% 10", "% 10_000_000")  # without effects: after thirty an hour people would be asked
TRIGGER = """
    from project.people.models import User
    from triggers.models import ConfigVersion, Source, Trigger
    Trigger.objects.create(slug="take-order", name="Take orders", source="generic", type_pattern="order.created",
                           handler="take-order", owner=User.objects.get())
    ConfigVersion.bump()
    print(Source.objects.get(slug="generic").secrets[0]["value"])
"""


@dataclass
class Caller:
    """Rings source `generic` with orders 0, 1, 2 … from a few threads, each until it is answered 2xx."""

    shop: Desk
    secret: str
    pause: float = 0.05  # seconds between two orders of one thread
    threads: int = 2
    answered: dict[int, int] = field(default_factory=dict)  # order -> number of its event
    twice: dict[int, int] = field(default_factory=dict)  # the same, of a second delivery
    surprises: list[str] = field(default_factory=list)  # answers that no caller should see
    took: list[float] = field(default_factory=list)  # seconds to each 2xx
    refused: int = 0  # connection errors and 503: it rings again
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    stopped: threading.Event = field(default_factory=threading.Event)
    given_up: threading.Event = field(default_factory=threading.Event)  # the test has failed: nobody insists any more
    held: threading.Event = field(default_factory=threading.Event)  # while set, no further order is rung
    crew: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.crew = [threading.Thread(target=self.work, daemon=True) for _ in range(self.threads)]
        for one in self.crew:
            one.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        if error is not None:
            self.given_up.set()
        for one in self.crew:
            one.join(90)

    def work(self) -> None:
        with httpx.Client(base_url=self.shop.url, timeout=30, trust_env=False) as http:
            while not self.stopped.is_set():
                if self.held.is_set():
                    time.sleep(self.pause)
                    continue
                order = next(self.numbers)
                self.answered[order] = self.insist(http, order)
                if order % 7 == 0:
                    self.twice[order] = self.insist(http, order)
                time.sleep(self.pause)

    def insist(self, http: httpx.Client, order: int) -> int:
        """Ring until it is taken, as every sender of webhooks does."""
        headers, body = sign(self.secret, order)
        while not self.given_up.is_set():
            began = time.monotonic()
            try:
                answer = http.post("/hooks/generic", content=body, headers=headers)
            except httpx.TransportError:
                self.refused += 1
                time.sleep(0.1)
                continue
            if answer.status_code in (200, 202):
                self.took.append(time.monotonic() - began)
                seq: int = answer.json()["seq"]
                return seq
            self.refused += 1
            if answer.status_code != 503:
                self.surprises.append(f"{answer.status_code} {answer.text[:200]}")
            time.sleep(0.1)
        return 0


def sign(secret: str, order: int, type: str = "order.created") -> tuple[dict[str, str], bytes]:
    """Headers and body of a generic delivery about this order, the same each time."""
    envelope = {"event_type": type, "event_id": f"order-{order}", "timestamp": "2026-01-01T00:00:00Z"}
    body = json.dumps({**envelope, "data": {"order": order}}).encode()
    mark = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"content-type": "application/json", "x-signature": mark}, body
