"""Providers greet before they send: each is answered as it wants, nothing is stored, no greeting lets an event in."""

import base64
import hashlib
import hmac
import json
import re
import time
from typing import Any
from urllib.parse import urlencode

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tests import builders, signers
from tests.deliveries import Answered, deliver
from tests.signers import AES, PAIR, RECEIVER, SECRET, Request
from triggers import refusals
from triggers.models import Event, Refusal, Run, Source
from triggers.sources import certificates, sns

pytestmark = pytest.mark.django_db(transaction=True)
SCRIPT = "<script>alert(1)</script>"


def source(provider: str, secret: str = SECRET, **config: str) -> Source:
    builders.trigger("story", source="it")
    return builders.source("it", provider=provider, secrets=(secret,), config=config, types=["**"])


def ask(request: Request, method: str = "POST") -> Answered:
    [answer] = deliver(
        {
            "slug": "it",
            "body": request.body,
            "headers": request.headers,
            "query": urlencode(request.query),
            "method": method,
        }
    )
    return answer


def slack(body: dict[str, Any], secret: str = SECRET, *, signed: bool = True) -> Request:
    raw, when = json.dumps(body).encode(), str(int(time.time()))
    mark = "v0=" + hmac.new(secret.encode(), f"v0:{when}:".encode() + raw, hashlib.sha256).hexdigest()
    proof = {"X-Slack-Request-Timestamp": when, "X-Slack-Signature": mark} if signed else {}
    return Request({"Content-Type": "application/json"} | proof, raw)


def nothing_stored() -> bool:
    return not Event.objects.exists() and not Run.objects.exists()


def test_slack_hears_its_challenge_when_it_is_signed() -> None:
    """WH-15: the handshake is no way around the signature, and what is echoed is no page."""
    source("slack")
    hello = {"type": "url_verification", "challenge": "c1"}
    answer = ask(slack(hello))
    assert (answer.status, answer.json) == (200, {"challenge": "c1"})
    assert answer.headers["content-type"] == "application/json"
    assert Source.objects.get(slug="it").connected_at is not None
    for unsigned in (hello, hello | {"challenge": SCRIPT}, hello | {"event": {"type": "app_mention"}}):
        refused = ask(slack(unsigned, signed=False))
        assert (refused.status, "alert" in refused.body.decode()) == (401, False)
    ask(slack(hello | {"event": {"type": "app_mention"}}))
    assert nothing_stored()


def feishu(inner: dict[str, Any], *, sealed: bool = False, key: str = "the key") -> Request:
    raw = signers.feishu_sealed(inner, key) if sealed else json.dumps(inner).encode()
    return Request({"Content-Type": "application/json"}, raw)


@pytest.mark.parametrize("sealed", [False, True])
def test_feishu_hears_its_challenge_when_the_token_inside_is_right(sealed: bool) -> None:
    """WH-15: it carries no signature, so nothing but a greeting is taken by its token."""
    source("feishu", "right:the key")
    hello = {"type": "url_verification", "token": "right", "challenge": "c2"}
    answer = ask(feishu(hello, sealed=sealed))
    assert (answer.status, answer.json) == (200, {"challenge": "c2"})
    for wrong in (hello | {"token": "wrong"}, hello | {"token": ""}, {"type": "url_verification", "challenge": SCRIPT}):
        assert ask(feishu(wrong, sealed=sealed)).status == 401
    assert ask(feishu(hello, sealed=True, key="another")).status == 401
    assert ask(feishu(hello | signers.feishu_message(), sealed=sealed)).status == 200, "a greeting, and no event"
    assert ask(feishu(signers.feishu_message(), sealed=sealed)).status == 401, "an event must be signed"
    assert nothing_stored()


def test_zoom_hears_its_token_signed() -> None:
    source("zoom", "zoomwebhooksecret")
    body = {"payload": {"plainToken": "Kn5a3Wv7SP6YP5b4BWfZpg"}, "event": "endpoint.url_validation"}
    raw, when = json.dumps(body).encode(), str(int(time.time()))
    mark = "v0=" + hmac.new(b"zoomwebhooksecret", f"v0:{when}:".encode() + raw, hashlib.sha256).hexdigest()
    answer = ask(Request({"x-zm-request-timestamp": when, "x-zm-signature": mark}, raw))
    digest = "2a41c3138d2187a756c51428f78d192e9b88dcf44dd62d1b081ace4ec2241e0a"  # published
    assert answer.json == {"plainToken": "Kn5a3Wv7SP6YP5b4BWfZpg", "encryptedToken": digest}
    assert nothing_stored()


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"type": 1, "id": "1"}, 200, {"type": 1}),
        ({"type": 0, "version": 1}, 204, None),
    ],
)
def test_discord_hears_its_ping(body: dict[str, Any], status: int, told: Any) -> None:
    source("discord", signers.ed_raw(SECRET).hex())
    raw, when = json.dumps(body).encode(), str(int(time.time()))
    mark = signers.ed_key(SECRET).sign(when.encode() + raw).hex()
    request = Request({"X-Signature-Timestamp": when, "X-Signature-Ed25519": mark}, raw)
    answer = ask(request)
    assert (answer.status, json.loads(answer.body or b"null")) == (status, told)
    assert ask(request.with_header("X-Signature-Ed25519", "00" * 64)).status == 401, "it probes with wrong ones"
    assert nothing_stored()


def test_discord_hears_that_its_command_is_being_worked_on() -> None:
    source("discord", signers.ed_raw(SECRET).hex())
    assert ask(signers.discord(signers.ed_raw(SECRET).hex(), time.time())).json == {"type": 5}
    assert Event.objects.get().type == "discord.2"


def test_event_grid_hears_its_code() -> None:
    source("azure_eventgrid")
    body = [
        {"id": "1", "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent", "data": {"validationCode": "c"}}
    ]
    greeting = Request({"aeg-event-type": "SubscriptionValidation"}, json.dumps(body).encode(), {"code": SECRET})
    assert ask(greeting).json == {"validationResponse": "c"}
    assert ask(Request(greeting.headers, greeting.body, {"code": "another secret"})).status == 401
    assert nothing_stored()


def test_a_subscription_to_a_topic_is_confirmed_at_amazon_and_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    """The address that would be called is in what is signed, and must lie with Amazon all the same."""
    certificates.keep(signers.CERTIFICATE_AT, signers.rsa_pair()[1])
    source("aws_sns", signers.TOPIC)
    more = {"Type": "SubscriptionConfirmation", "Token": "t", "SubscribeURL": "http://169.254.169.254/latest"}
    assert ask(signers.sns(signers.TOPIC, time.time(), **more)).json == {"status": "handshake"}
    assert "was not confirmed" in caplog.text
    assert ask(signers.sns(signers.TOPIC_OTHER, time.time(), **more)).status == 401
    assert nothing_stored()


def test_a_subscription_that_was_refused_is_confirmed_when_it_is_admitted(caplog: pytest.LogCaptureFixture) -> None:
    certificates.keep(signers.CERTIFICATE_AT, signers.rsa_pair()[1])
    row = source("aws_sns", signers.TOPIC_OTHER)
    more = {"Type": "SubscriptionConfirmation", "Token": "t", "SubscribeURL": "http://169.254.169.254/latest"}
    assert ask(signers.sns(signers.TOPIC, time.time(), **more)).status == 401
    row.change(by=None, secrets=[{"value": signers.TOPIC}])
    assert refusals.admit(Refusal.objects.get(), by=None) == []
    assert "was not confirmed" in caplog.text, "it was tried; this address does not lie with Amazon"
    row.refresh_from_db()
    assert row.connected_at
    assert nothing_stored()


@pytest.mark.parametrize(
    "address",
    [
        "http://sns.eu-central-1.amazonaws.com/SimpleNotificationService-1.pem",
        "https://sns.eu-central-1.amazonaws.com.evil.example/a.pem",
        "https://sns.eu-central-1.amazonaws.com@evil.example/a.pem",
        "https://evil.example/sns.eu-central-1.amazonaws.com/a.pem",
        "https://sns.eu-central-1.amazonaws.com:8443/a.pem",
        "https://sns.eu-central-1.amazonaws.com/a.pem?x=.pem",
        "https://sns.eu-central-1.amazonaws.com\\@evil.example/a.pem",
        "https://s3.amazonaws.com/bucket/a.pem",
        "https://sns.s3-us-west-2.amazonaws.com/a.pem",
    ],
)
def test_a_certificate_is_fetched_from_amazon_sns_only(address: str) -> None:
    source("aws_sns", signers.TOPIC)
    request = signers.sns(signers.TOPIC, time.time())
    body = json.loads(request.body) | {"SigningCertURL": address}
    assert ask(Request(request.headers, json.dumps(body).encode())).status == 401
    assert "does not lie with Amazon SNS" in Refusal.objects.get().detail


@pytest.mark.parametrize(
    ("scheme", "body", "at_hand"),
    [
        ({}, {"SigningCertURL": signers.CERTIFICATE_AT}, True),
        ({}, {"SigningCertURL": "https://sns.us-east-1.amazonaws.com/new.pem"}, False),
        ({"certificate": "pinned"}, {"SigningCertURL": "https://sns.us-east-1.amazonaws.com/new.pem"}, True),
        ({}, {"SigningCertURL": "https://evil.example/new.pem"}, True),
        ({}, {"SigningCertURL": 7}, True),
        ({}, [], True),
        ({}, None, True),
    ],
)
def test_only_a_delivery_whose_certificate_must_be_fetched_waits_apart(scheme: Any, body: Any, at_hand: bool) -> None:
    certificates.keep(signers.CERTIFICATE_AT, signers.rsa_pair()[1])
    assert sns.is_at_hand(scheme, b"{" if body is None else json.dumps(body).encode()) is at_hand


def test_wecom_hears_what_it_had_encrypted() -> None:
    """A GET: the bare text, without quotes or a newline."""
    source("wecom", PAIR, receiver=RECEIVER)
    sealed, when = signers.wechat_sealed(b"1616140317555161061", AES), str(int(time.time()))
    query = {"msg_signature": signers.wechat_mark("QDG6eK", when, "n", sealed), "timestamp": when, "nonce": "n"}
    answer = ask(Request({}, b"", query | {"echostr": sealed}), method="GET")
    assert (answer.status, answer.body) == (200, b"1616140317555161061")
    assert answer.headers["content-type"] == "text/plain"
    assert ask(Request({}, b"", query | {"echostr": sealed, "nonce": "m"}), method="GET").status == 401
    assert ask(Request({}, b"{}", query | {"echostr": sealed})).status == 401, "a greeting carries no body"
    assert nothing_stored()


def test_a_message_of_wecom_is_not_deciphered_for_who_saw_it_pass() -> None:
    """Both are signed alike: what came as a body, asked for as a greeting."""
    source("wecom", PAIR, receiver=RECEIVER)
    message = signers.wecom(PAIR, time.time())
    [sealed] = re.findall(rb"<Encrypt><!\[CDATA\[(.*?)\]\]>", message.body)
    answer = ask(Request({}, b"", message.query | {"echostr": sealed.decode()}), method="GET")
    assert (answer.status, b"hello" in answer.body) == (401, False)


def opened(sealed: str) -> bytes:
    """What WeCom and DingTalk read of an encrypted answer."""
    key = base64.b64decode(AES + "=")
    opening = Cipher(algorithms.AES(key), modes.CBC(key[:16])).decryptor()
    plain = opening.update(base64.b64decode(sealed)) + opening.finalize()
    length = int.from_bytes(plain[16:20], "big")
    assert plain[20 + length : -plain[-1]].decode() == RECEIVER
    return plain[20 : 20 + length]


def test_dingtalk_hears_success_encrypted_for_its_greeting_and_for_every_event() -> None:
    source("dingtalk", PAIR, receiver=RECEIVER)
    for inner, stored in (({"EventType": "check_url"}, 0), ({"EventType": "user_add_org", "UserId": ["u1"]}, 1)):
        answer = ask(signers.dingtalk(PAIR, time.time(), inner))
        told = answer.json
        mark = signers.wechat_mark("QDG6eK", told["timeStamp"], told["nonce"], told["encrypt"])
        assert (answer.status, told["msg_signature"], opened(told["encrypt"])) == (200, mark, b"success")
        assert Event.objects.count() == stored


def test_wecom_shows_our_own_words_to_whoever_wrote() -> None:
    """`reply`: encrypted, signed, and safe whatever it says; nothing where no person wrote."""
    source("wecom", PAIR, receiver=RECEIVER, reply="We <look> & answer.")
    answer = ask(signers.wecom(PAIR, time.time()))
    found = dict(re.findall(r"<(\w+)>(?:<!\[CDATA\[)?([^<\]]+)", answer.body.decode()))
    assert found["MsgSignature"] == signers.wechat_mark("QDG6eK", found["TimeStamp"], found["Nonce"], found["Encrypt"])
    assert b"<ToUserName>mona</ToUserName>" in opened(found["Encrypt"])
    assert b"We &lt;look&gt; &amp; answer." in opened(found["Encrypt"])
    event = "<FromUserName>mona</FromUserName><CreateTime>2</CreateTime><MsgType>event</MsgType><Event>enter</Event>"
    assert ask(signers.wecom(PAIR, time.time(), f"<xml>{event}</xml>")).body == b""
    assert [row.type for row in Event.objects.order_by("pk")] == ["wecom.text", "wecom.event.enter"]
