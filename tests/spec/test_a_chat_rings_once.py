"""What is said in a chat becomes one event, however often, by whichever way and to however many bots it is told."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any
from urllib.parse import urlencode

import pytest

from tests import builders, signers
from tests.deliveries import Answered, deliver
from tests.signers import SECRET, Request
from triggers.models import Event, Run, Source

pytestmark = pytest.mark.django_db(transaction=True)


def ask(request: Request, slug: str = "chat") -> Answered:
    given = {"slug": slug, "body": request.body, "headers": request.headers, "query": urlencode(request.query)}
    return deliver(given)[0]


def slack(event: dict[str, Any], id: str) -> Request:
    raw, when = json.dumps({"type": "event_callback", "event_id": id, "event": event}).encode(), str(int(time.time()))
    mark = "v0=" + hmac.new(SECRET.encode(), f"v0:{when}:".encode() + raw, hashlib.sha256).hexdigest()
    names = {"Content-Type": "application/json", "X-Slack-Request-Timestamp": when, "X-Slack-Signature": mark}
    return Request(names, raw)


def chat(kind: str, secret: str, slug: str = "chat", **fields: Any) -> Source:
    return builders.source(slug, kind=kind, provider=kind, secrets=(secret,), **fields)


def test_feishu_tells_again_for_hours_and_by_another_number_and_is_heard_once() -> None:
    """SR-01: at +15 s, +5 min, +1 h and +6 h, signed anew each time; then the same message under another event's id."""
    chat("feishu", "right:the key")
    builders.trigger("story", source="chat")
    for id in ("e1", "e1", "e1", "e1", "e1", "e2"):
        told = signers.feishu_message(id, "om_1")
        assert ask(signers.feishu_signed(signers.feishu_sealed(told, "the key"), "the key", time.time())).status == 200
    assert (Event.objects.get().duplicates, Run.objects.count()) == (5, 1)
    assert Source.objects.get().dedupe_window >= 8 * 3600


def test_two_bots_in_one_chat_both_hear() -> None:
    """SR-02: one message mentions both; each source has its own memory."""
    for slug in ("one", "two"):
        chat("feishu", "right:the key", slug)
        builders.trigger("story", source=slug)
        told = signers.feishu_message("e1", "om_1")
        request = signers.feishu_signed(signers.feishu_sealed(told, "the key"), "the key", time.time())
        assert ask(request, slug).status == 200
    assert set(Event.objects.values_list("source_slug", flat=True)) == {"one", "two"}
    assert Run.objects.count() == 2


def test_edits_deletions_and_the_bot_itself_start_nothing() -> None:
    """SR-10: a trigger on messages hears a post once, and neither what an unfurl changes nor what we say ourselves."""
    chat("slack", SECRET, actor="B1")
    builders.trigger("story", source="chat", type_pattern="slack.message")
    builders.trigger("story", source="chat", type_pattern="slack.app_mention")
    post = {"channel": "C1", "ts": "1.1", "text": "<@U1> run", "user": "U2", "client_msg_id": "m-1"}
    for number, event in enumerate(
        (
            {"type": "message", **post},
            {"type": "app_mention", **post},
            {"type": "message", "subtype": "message_changed", "channel": "C1", "ts": "1.2", "message": post},
            {"type": "message", "subtype": "message_deleted", "channel": "C1", "ts": "1.3", "deleted_ts": "1.1"},
            {"type": "message", "channel": "C1", "ts": "1.4", "text": "done", "bot_id": "B1"},
        )
    ):
        assert ask(slack(event, f"Ev{number}")).status == 200
    types = list(Event.objects.order_by("pk").values_list("type", "status"))
    assert types == [
        ("slack.message", "routed"),
        ("slack.message.message_changed", "ignored"),
        ("slack.message.message_deleted", "ignored"),
        ("slack.message", "suppressed"),
    ]
    assert Run.objects.count() == 1


def test_a_command_and_a_press_are_heard_before_anything_is_looked_up() -> None:
    """Slack wants its 200 within three seconds: the run has not begun when it has it."""
    chat("slack", SECRET)
    builders.trigger("story", source="chat")
    for fields in (
        {"command": "/desk", "text": "report", "trigger_id": "t1"},
        {"payload": json.dumps({"type": "block_actions", "trigger_id": "t2", "user": {"id": "U2"}})},
    ):
        raw, when = urlencode(fields).encode(), str(int(time.time()))
        mark = "v0=" + hmac.new(SECRET.encode(), f"v0:{when}:".encode() + raw, hashlib.sha256).hexdigest()
        names = {"X-Slack-Request-Timestamp": when, "X-Slack-Signature": mark}
        answer = ask(Request(names | {"Content-Type": "application/x-www-form-urlencoded"}, raw))
        assert (answer.status, answer.body) == (200, b"")
    assert list(Event.objects.order_by("pk").values_list("type", "ce_id")) == [
        ("slack.slash_command", "t1"),
        ("slack.block_actions", "t2"),
    ]
    assert set(Run.objects.values_list("status", flat=True)) == {"queued"}


def test_a_robot_of_dingtalk_is_mentioned() -> None:
    chat("dingtalk", SECRET)
    for _ in range(2):
        assert ask(signers.dingtalk_robot(SECRET, time.time())).status == 200
    event = Event.objects.get()
    assert (event.type, event.ce_id, event.duplicates) == ("dingtalk.robot.text", "msg-1", 1)
    assert event.data["text"]["content"] == " hello"


def test_a_robot_that_names_no_message_is_heard_all_the_same() -> None:
    """Its secret has no key to seal DingTalk's own answer with."""
    builders.source("robot", kind="dingtalk", provider="dingtalk", secrets=("SECrobot",))
    when = str(int(time.time() * 1000))
    mark = base64.b64encode(hmac.digest(b"SECrobot", f"{when}\nSECrobot".encode(), "sha256")).decode()
    headers = {"timestamp": when, "sign": mark, "Content-Type": "application/json"}
    [answer] = deliver({"slug": "robot", "body": b'{"text":"hi"}', "headers": headers})
    assert (answer.status, Event.objects.get().data) == (202, {"text": "hi"})
