"""What is said in a chat becomes one event, however often, by whichever way and to however many bots it is told."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any
from urllib.parse import urlencode

import pytest

from project.lib import mrkdwn
from tests import builders, signers
from tests.deliveries import Answered, deliver
from tests.signers import SECRET, Request
from triggers.models import Event, Run, Source

pytestmark = pytest.mark.django_db(transaction=True)


def ask(request: Request, slug: str = "chat") -> Answered:
    given = {"slug": slug, "body": request.body, "headers": request.headers, "query": urlencode(request.query)}
    return deliver(given)[0]


def slack(event: dict[str, Any], id: str, **more: Any) -> Request:
    told, when = {"type": "event_callback", "event_id": id, "event": event, **more}, str(int(time.time()))
    raw = json.dumps(told).encode()
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


def feishu_press(own: str, value: int = 1) -> Request:
    """A button of a card in its first form, signed under the verification token; `own` updates the card."""
    told = {"open_id": "ou_1", "open_message_id": "om_1", "token": own, "action": {"value": {"n": value}}}
    raw, when = json.dumps(told).encode(), str(int(time.time()))
    mark = hashlib.sha1(f"{when}n-1right".encode() + raw).hexdigest()
    names = {"X-Lark-Request-Timestamp": when, "X-Lark-Request-Nonce": "n-1", "X-Lark-Signature": mark}
    return Request({"Content-Type": "application/json", **names}, raw)


@pytest.mark.parametrize("secret", ["right:the key", "right:"])
def test_each_press_of_one_card_is_heard_and_may_be_answered(secret: str) -> None:
    chat("feishu", secret)
    for own in ("c-1", "c-2", "c-2"):
        assert ask(feishu_press(own)).status == 200
    assert [event.data["token"] for event in Event.objects.order_by("pk")] == ["c-1", "c-2"]
    assert [event.duplicates for event in Event.objects.order_by("pk")] == [0, 1]


def test_a_press_nobody_signed_is_refused_and_tells_no_token() -> None:
    chat("feishu", "right:")
    one = feishu_press("right")
    assert ask(Request({"Content-Type": "application/json"}, one.body)).status == 401
    assert not Event.objects.exists()


def wecom_press(code: str) -> Request:
    inner = (
        "<xml><FromUserName>mona</FromUserName><CreateTime>1</CreateTime><MsgType>event</MsgType>"
        "<Event>template_card_event</Event><EventKey>yes</EventKey><TaskId>t1</TaskId>"
        f"<ResponseCode>{code}</ResponseCode></xml>"
    )
    return signers.wecom(signers.PAIR, time.time(), inner)


def test_two_presses_of_one_second_are_two_in_wecom_as_well() -> None:
    chat("wecom", signers.PAIR, config={"receiver": signers.RECEIVER})
    for code in ("r1", "r2", "r2"):
        assert ask(wecom_press(code)).status == 200
    assert [event.duplicates for event in Event.objects.order_by("pk")] == [0, 1]


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


@pytest.mark.parametrize("order", [("message", "app_mention"), ("app_mention", "message"), ("message",)], ids=str)
def test_a_post_that_speaks_to_the_desk_is_a_mention_whichever_slack_tells_first(order: tuple[str, ...]) -> None:
    """SR-10: else a trigger on mentions would miss those that came as a message before."""
    chat("slack", SECRET)
    for type in ("app_mention", "message"):
        builders.trigger("story", source="chat", type_pattern=f"slack.{type}")
    ours = [{"team_id": "T1", "user_id": "U1", "is_bot": True}]
    for number, type in enumerate(order):
        post = {"type": type, "channel": "C1", "ts": "1.1", "text": "<@U1> deploy", "user": "U2"}
        assert ask(slack(post, f"Ev{number}", authorizations=ours)).status == 200
    other = {"type": "message", "channel": "C1", "ts": "1.2", "text": "<@U9> deploy", "user": "U2"}
    ask(slack(other, "Ev9", authorizations=ours))
    assert [event.type for event in Event.objects.order_by("pk")] == ["slack.app_mention", "slack.message"]
    assert Run.objects.count() == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("run &lt;job&gt; &amp; go <https://e.com|e.com>", "run <job> & go https://e.com"),
        (
            "<@U1> ask <@U2|mona> in <#C1|ops>, <!here> and <!subteam^S1|@night>",
            "@U1 ask @mona in #ops, @here and @night",
        ),
        ("<mailto:a@example.org|a@example.org> &amp;lt; 1 < 2", "a@example.org &lt; 1 < 2"),
    ],
)
def test_what_was_typed_in_slack_is_read_by_a_handler(text: str, said: str) -> None:
    """SR-10: the event keeps Slack's own spelling; nothing of it is run by mistake."""
    chat("slack", SECRET)
    assert ask(slack({"type": "message", "channel": "C1", "ts": "1.1", "text": text}, "Ev1")).status == 200
    kept = Event.objects.get().data["event"]["text"]
    assert (kept, mrkdwn.plain(kept)) == (text, said)
    assert mrkdwn.plain(mrkdwn.escaped(said)) == said


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
