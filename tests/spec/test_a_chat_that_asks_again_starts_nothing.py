"""DD-05: a chat that got its answer late sends the same call-back again, signed anew; the work is done once."""

import hashlib
import hmac
import json
import time
from typing import Any

import pytest

from tests import builders
from tests.builders import SECRET
from tests.deliveries import deliver
from triggers.models import Event, Run, Source

pytestmark = pytest.mark.django_db(transaction=True)

# A call-back of the v0 kind, as somebody describes it: the time is signed, the id stands in the body.
CONFIG = {
    "header": "X-Chat-Signature",
    "prefix": "v0=",
    "template": "v0:{h:X-Chat-Request-Timestamp}:{body}",
    "timestamp": "{h:X-Chat-Request-Timestamp}",
    "tolerance": 300,
    "delivery_id": "{json:event_id}",
    "event_type": "{json:event.type}",
}


@pytest.fixture(autouse=True)
def chat(db: None) -> Source:
    builders.trigger("answer", source="chat")
    return builders.source("chat", provider="custom", config=CONFIG, types=[])


def call_back(event_id: str, *, ago: int = 0, **more: str) -> dict[str, Any]:
    """A delivery signed `ago` seconds ago; `more` are headers, and they change the body too."""
    body = json.dumps({"event_id": event_id, "event": {"type": "app_mention"}, "try": more}).encode()
    moment = str(int(time.time()) - ago)
    mac = hmac.new(SECRET.encode(), f"v0:{moment}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {"Content-Type": "application/json", "X-Chat-Request-Timestamp": moment, "X-Chat-Signature": f"v0={mac}"}
    return {"slug": "chat", "body": body, "headers": headers | more}


def test_the_second_try_of_a_call_back_is_the_same_event_whatever_its_signature_and_body() -> None:
    [first] = deliver(call_back("Ev1", ago=10))
    [again] = deliver(call_back("Ev1", **{"X-Chat-Retry-Num": "1", "X-Chat-Retry-Reason": "http_timeout"}))
    assert (first.status, again.status) == (202, 200)
    assert again.json | {"status": "accepted"} == first.json
    assert Event.objects.get().duplicates == Run.objects.count() == 1


def test_the_door_answers_before_any_handler_has_begun() -> None:
    deliver(call_back("Ev2"))
    assert Run.objects.get().status == "queued"
