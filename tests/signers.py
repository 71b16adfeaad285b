"""How each provider of the catalogue signs, written from its documentation and not from our own code.

Each one makes a delivery of now that says hello, and says what the desk should read of it."""

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import urlencode

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

SECRET, OTHER = "a secret that everybody knows", "a secret that nobody knows"
AES, AES_OTHER = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C", "kWxPEV2UEDyxWpmPdKC3F4dgPDmOvfKX1HGnEUDS1aR"
RECEIVER = "wx5823bf96d3bd56c7"
ADDRESS = "https://desk.example.org/hooks/it"
CERTIFICATE_AT = "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0a1b.pem"
TOPIC, TOPIC_OTHER = "arn:aws:sns:eu-central-1:123456789012:orders", "arn:aws:sns:eu-central-1:999999999999:orders"


@dataclass(frozen=True)
class Request:
    """What goes over the wire; `mark` is the name of what holds the signature."""

    headers: dict[str, str]
    body: bytes
    query: dict[str, str] = field(default_factory=dict)
    mark: str = ""

    def with_header(self, name: str, value: str | None) -> "Request":
        kept = {key: text for key, text in self.headers.items() if key != name}
        return replace(self, headers=kept if value is None else kept | {name: value})


@dataclass(frozen=True)
class Signer:
    """`sign(secret, moment)`; `type` and `id` are what the event should have, `status` the answer to it.

    `within`: how old it may be, None without a signed time. `covers`: the body is in what is signed."""

    sign: Callable[[str, float], Request]
    type: str
    id: str
    secret: str = SECRET
    other: str = OTHER
    within: int | None = None
    covers: bool = True
    status: int = 202
    config: dict[str, str] = field(default_factory=dict)


def b64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def mac(secret: str | bytes, text: bytes, digest: str = "sha256") -> bytes:
    return hmac.new(secret if isinstance(secret, bytes) else secret.encode(), text, digest).digest()


def plain(mark: str, body: dict[str, Any], wrap: Callable[[bytes], str], **headers: str) -> Callable[..., Request]:
    """HMAC-SHA256 over the body in one header."""
    raw = json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()} | {"Content-Type": "application/json"}
    return lambda secret, moment: Request(named | {mark: wrap(mac(secret, raw))}, raw, mark=mark)


def token(mark: str, body: dict[str, Any], before: str = "", **headers: str) -> Callable[..., Request]:
    raw = json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()} | {"Content-Type": "application/json"}
    return lambda secret, moment: Request(named | {mark: before + secret}, raw, mark=mark)


def hexed(before: str = "") -> Callable[[bytes], str]:
    return lambda digest: before + digest.hex()


HELLO: dict[str, Any] = {"text": "hello"}
JSON = {"Content-Type": "application/json"}


def stripe(secret: str, moment: float) -> Request:
    raw = json.dumps({"id": "evt_1", "type": "charge.refunded", **HELLO}).encode()
    when = str(int(moment))
    text = f"t={when},v1={mac(secret, f'{when}.'.encode() + raw).hex()}"
    return Request(JSON | {"Stripe-Signature": text}, raw, mark="Stripe-Signature")


def slack(secret: str, moment: float) -> Request:
    inner = {"type": "app_mention", "channel": "C1", "ts": "1.2", "text": "hello", "user": "U1"}
    raw = json.dumps({"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": inner}).encode()
    when = str(int(moment))
    text = "v0=" + mac(secret, f"v0:{when}:".encode() + raw).hex()
    return Request(JSON | {"X-Slack-Request-Timestamp": when, "X-Slack-Signature": text}, raw, mark="X-Slack-Signature")


def standard(before: str) -> Callable[[str, float], Request]:
    """Standard Webhooks and Svix, who differ in the names of the headers."""

    def sign(secret: str, moment: float) -> Request:
        raw, when = json.dumps({"type": "contact.created", **HELLO}).encode(), str(int(moment))
        key = base64.b64decode(secret.removeprefix("whsec_") + "==")
        text = "v1," + b64(mac(key, f"msg_1.{when}.".encode() + raw))
        names = {f"{before}-id": "msg_1", f"{before}-timestamp": when, f"{before}-signature": text}
        return Request(JSON | names, raw, mark=f"{before}-signature")

    return sign


def gitlab_signed(secret: str, moment: float) -> Request:
    """With a signing token, as its merge requests 230944 and 231325 say: `webhook-id` is the Idempotency-Key."""
    raw, when = json.dumps({"object_kind": "push", **HELLO}).encode(), str(int(moment))
    text = "v1," + b64(mac(base64.b64decode(secret.removeprefix("whsec_")), f"d-1.{when}.".encode() + raw))
    names = {"webhook-id": "d-1", "webhook-timestamp": when, "webhook-signature": text}
    names |= {"X-Gitlab-Event": "Push Hook", "Idempotency-Key": "d-1"}
    return Request(JSON | names, raw, mark="webhook-signature")


def linear(secret: str, moment: float) -> Request:
    raw = json.dumps({"action": "create", "webhookTimestamp": int(moment * 1000), **HELLO}).encode()
    names = {"Linear-Delivery": "d-1", "Linear-Event": "Issue", "Linear-Signature": mac(secret, raw).hex()}
    return Request(JSON | names, raw, mark="Linear-Signature")


def twilio(secret: str, moment: float) -> Request:
    form = {"MessageSid": "SM1", "SmsStatus": "received", "From": "+14158675309", "Body": "hello"}
    text = ADDRESS + "".join(name + form[name] for name in sorted(form))
    names = {"Content-Type": "application/x-www-form-urlencoded"}
    mark = b64(mac(secret, text.encode(), "sha1"))
    return Request(names | {"X-Twilio-Signature": mark}, urlencode(form).encode(), mark="X-Twilio-Signature")


def p256(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(hashlib.sha256(name.encode()).digest(), "big") >> 1, ec.SECP256R1())


def p256_shown(name: str) -> str:
    return b64(p256(name).public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def sendgrid(shown: str, moment: float) -> Request:
    key = p256(SECRET if shown == p256_shown(SECRET) else OTHER)
    raw = json.dumps([{"email": "a@example.org", "event": "dropped", "sg_event_id": "e-1", **HELLO}]).encode() + b"\r\n"
    when = str(int(moment))
    text = b64(key.sign(when.encode() + raw, ec.ECDSA(SHA256())))
    before = "X-Twilio-Email-Event-Webhook"
    return Request(JSON | {f"{before}-Timestamp": when, f"{before}-Signature": text}, raw, mark=f"{before}-Signature")


def mailgun(secret: str, moment: float) -> Request:
    when, once = str(int(moment)), f"token-of-{int(moment)}"
    marks = {"timestamp": when, "token": once, "signature": mac(secret, (when + once).encode()).hex()}
    raw = json.dumps({"signature": marks, "event-data": {"event": "delivered", "id": "m-1", **HELLO}}).encode()
    return Request(dict(JSON), raw, mark="json:signature")


def square(secret: str, moment: float) -> Request:
    raw = json.dumps({"event_id": "sq-1", "type": "payment.updated", "merchant_id": "M1", **HELLO}).encode()
    name = "x-square-hmacsha256-signature"
    return Request(JSON | {name: b64(mac(secret, ADDRESS.encode() + raw))}, raw, mark=name)


def zoom(secret: str, moment: float) -> Request:
    inner = {"object": {"uuid": "u-1", "topic": "hello"}}
    raw, when = json.dumps({"event": "meeting.started", "event_ts": 1, "payload": inner}).encode(), str(int(moment))
    text = "v0=" + mac(secret, f"v0:{when}:".encode() + raw).hex()
    return Request(JSON | {"x-zm-request-timestamp": when, "x-zm-signature": text}, raw, mark="x-zm-signature")


def ed_key(name: str) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def ed_raw(name: str) -> bytes:
    return ed_key(name).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def discord(shown: str, moment: float) -> Request:
    key = ed_key(SECRET if shown == ed_raw(SECRET).hex() else OTHER)
    raw, when = json.dumps({"type": 2, "id": "i-1", "data": HELLO}).encode(), str(int(moment))
    text = key.sign(when.encode() + raw).hex()
    names = {"X-Signature-Timestamp": when, "X-Signature-Ed25519": text}
    return Request(JSON | names, raw, mark="X-Signature-Ed25519")


@cache
def rsa_pair() -> tuple[rsa.RSAPrivateKey, bytes]:
    """A key and the PEM of its certificate."""
    key = rsa.generate_private_key(65537, 2048)
    return key, certificate_of(key)


def certificate_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    """In PEM, signed by itself."""
    now = datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.test.invalid")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(now - timedelta(days=365)).not_valid_after(now + timedelta(days=365))
    return made.sign(key, SHA256()).public_bytes(Encoding.PEM)


def sns(topic: str, moment: float, **more: str) -> Request:
    """`topic` is the ARN it is of; `more` are members of a confirmation."""
    told = {
        "Message": "hello",
        "MessageId": "m-1",
        "Timestamp": datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "TopicArn": topic,
        "Type": "Notification",
        **more,
    }
    text = "".join(f"{name}\n{told[name]}\n" for name in sorted(told)).encode()
    mark = b64(rsa_pair()[0].sign(text, padding.PKCS1v15(), SHA256()))
    told |= {"SignatureVersion": "2", "Signature": mark, "SigningCertURL": CERTIFICATE_AT}
    names = {"Content-Type": "text/plain; charset=UTF-8", "x-amz-sns-message-type": told["Type"]}
    return Request(names, json.dumps(told).encode(), mark="json:Signature")


def azure(secret: str, moment: float) -> Request:
    item = {"id": "e-1", "eventType": "Microsoft.Storage.BlobCreated", "subject": "/x", "data": HELLO}
    return Request(dict(JSON), json.dumps([item]).encode(), {"code": secret}, mark="?code")


def aes(text: bytes, key: bytes, vector: bytes, block: int) -> bytes:
    more = block - len(text) % block
    sealing = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    return sealing.update(text + bytes([more]) * more) + sealing.finalize()


def feishu_sealed(inner: Any, key: str) -> bytes:
    vector = os.urandom(16)
    sealed = aes(json.dumps(inner).encode(), hashlib.sha256(key.encode()).digest(), vector, 16)
    return json.dumps({"encrypt": b64(vector + sealed)}).encode()


def feishu_signed(raw: bytes, key: str, moment: float) -> Request:
    when, nonce = str(int(moment)), "n-1"
    text = hashlib.sha256((when + nonce + key).encode() + raw).hexdigest()
    names = {"X-Lark-Request-Timestamp": when, "X-Lark-Request-Nonce": nonce, "X-Lark-Signature": text}
    return Request(JSON | names, raw, mark="X-Lark-Signature")


def feishu_message(id: str = "ev-1", message: str = "om_1", text: str = "@_user_1 hello") -> dict[str, Any]:
    header = {"event_id": id, "event_type": "im.message.receive_v1", "token": "right", "app_id": "cli_1"}
    inner = {"message_id": message, "chat_id": "oc_1", "message_type": "text", "content": json.dumps({"text": text})}
    mentions = [{"key": "@_user_1", "id": {"open_id": "ou_bot"}, "name": "Desk"}]
    sender = {"sender_id": {"open_id": "ou_1"}, "sender_type": "user"}
    return {"schema": "2.0", "header": header, "event": {"sender": sender, "message": inner | {"mentions": mentions}}}


def feishu(secret: str, moment: float) -> Request:
    key = secret.partition(":")[2]
    return feishu_signed(feishu_sealed(feishu_message(), key), key, moment)


def wechat_sealed(text: bytes, key: str, receiver: str = RECEIVER) -> str:
    whole = os.urandom(16) + len(text).to_bytes(4, "big") + text + receiver.encode()
    secret = base64.b64decode(key + "=")
    return b64(aes(whole, secret, secret[:16], 32))


def wechat_mark(token: str, *texts: str) -> str:
    return hashlib.sha1("".join(sorted((token, *texts))).encode()).hexdigest()


def wecom(secret: str, moment: float, text: str = "", id: str = "4561255354251345929") -> Request:
    inner = text or (
        f"<xml><ToUserName><![CDATA[{RECEIVER}]]></ToUserName><FromUserName><![CDATA[mona]]></FromUserName>"
        f"<CreateTime>1</CreateTime><MsgType><![CDATA[text]]></MsgType><Content><![CDATA[hello]]></Content>"
        f"<MsgId>{id}</MsgId><AgentID>1</AgentID></xml>"
    )
    name, _, key = secret.partition(":")
    sealed, when, nonce = wechat_sealed(inner.encode(), key), str(int(moment)), "n-1"
    query = {"msg_signature": wechat_mark(name, when, nonce, sealed), "timestamp": when, "nonce": nonce}
    raw = f"<xml><ToUserName>{RECEIVER}</ToUserName><Encrypt><![CDATA[{sealed}]]></Encrypt></xml>".encode()
    return Request({"Content-Type": "text/xml"}, raw, query, mark="?msg_signature")


def dingtalk(secret: str, moment: float, inner: dict[str, Any] | None = None) -> Request:
    told = json.dumps(inner or {"EventType": "user_add_org", "CorpId": "c1", **HELLO}).encode()
    name, _, key = secret.partition(":")
    sealed, when, nonce = wechat_sealed(told, key), str(int(moment * 1000)), "n-1"
    query = {"signature": wechat_mark(name, when, nonce, sealed), "timestamp": when, "nonce": nonce}
    return Request(dict(JSON), json.dumps({"encrypt": sealed}).encode(), query, mark="?signature")


def dingtalk_robot(secret: str, moment: float) -> Request:
    """What a robot in a group sends when it was mentioned."""
    when = str(int(moment * 1000))
    raw = json.dumps({"msgId": "msg-1", "msgtype": "text", "text": {"content": " hello"}, "isInAtList": True}).encode()
    mark = b64(mac(secret, f"{when}\n{secret}".encode()))
    return Request(JSON | {"timestamp": when, "sign": mark}, raw, mark="sign")


ALERTS = {"groupKey": "g", "status": "firing", "alerts": [{"fingerprint": "f", "startsAt": "s"}], **HELLO}
WHSEC, WHSEC_OTHER = "whsec_" + b64(SECRET.encode()), "whsec_" + b64(OTHER.encode())
PAIR, PAIR_OTHER = f"QDG6eK:{AES}", f"QDG6eK:{AES_OTHER}"
GITHUB = plain("X-Hub-Signature-256", HELLO, hexed("sha256="), X_GitHub_Event="push", X_GitHub_Delivery="d-1")
GITLAB = token("X-Gitlab-Token", {"object_kind": "push", **HELLO}, X_Gitlab_Event="Push Hook", Idempotency_Key="d-1")
HUB = plain("X-Hub-Signature", HELLO, hexed("sha256="), X_Request_UUID="d-1", X_Event_Key="repo:push")
JIRA_BODY = {"webhookEvent": "jira:issue_updated", **HELLO}
JIRA = plain("X-Hub-Signature", JIRA_BODY, hexed("sha256="), X_Atlassian_Webhook_Identifier="d-1")
SHOPIFY = plain("X-Shopify-Hmac-Sha256", HELLO, b64, X_Shopify_Topic="orders/create", X_Shopify_Event_Id="d-1")
PAGERDUTY_BODY = {"event": {"id": "p-1", "event_type": "incident.triggered", **HELLO}}
PAGERDUTY = plain("X-PagerDuty-Signature", PAGERDUTY_BODY, hexed("v1="), X_Webhook_Id="d-1")
SENTRY = plain(
    "Sentry-Hook-Signature", {"action": "created", **HELLO}, hexed(), Sentry_Hook_Resource="issue", Request_ID="d-1"
)
GENERIC = plain("X-Signature", {"event_type": "order.created", "event_id": "d-1", **HELLO}, hexed())
GRAFANA = plain("X-Grafana-Alerting-Signature", ALERTS, hexed())
TELEGRAM = token("X-Telegram-Bot-Api-Secret-Token", {"update_id": 10000, "message": HELLO})
ALERTMANAGER = token("Authorization", ALERTS, before="Bearer ")

SIGNERS: dict[str, Signer] = {
    "github": Signer(GITHUB, "github.push", "d-1"),
    "generic": Signer(GENERIC, "order.created", "d-1"),
    "gitlab": Signer(GITLAB, "gitlab.Push_Hook.push", "d-1", covers=False),
    "bitbucket": Signer(HUB, "bitbucket.repo:push", "d-1"),
    "stripe": Signer(stripe, "stripe.charge.refunded", "evt_1", within=300),
    "slack": Signer(slack, "slack.app_mention", "Ev1", within=300, status=200),
    "shopify": Signer(SHOPIFY, "shopify.orders/create", "d-1"),
    "standard_webhooks": Signer(
        standard("webhook"), "standard_webhooks.contact.created", "msg_1", WHSEC, WHSEC_OTHER, within=300
    ),
    "svix": Signer(standard("svix"), "svix.contact.created", "msg_1", WHSEC, WHSEC_OTHER, within=300),
    "linear": Signer(linear, "linear.Issue.create", "d-1", within=60, status=200),
    "pagerduty": Signer(PAGERDUTY, "pagerduty.incident.triggered", "d-1"),
    "sentry": Signer(SENTRY, "sentry.issue.created", "d-1"),
    "twilio": Signer(twilio, "twilio.received", "SM1", status=200, config={"url": ADDRESS}),
    "sendgrid": Signer(sendgrid, "sendgrid.dropped", "e-1", p256_shown(SECRET), p256_shown(OTHER), within=90000),
    "mailgun": Signer(mailgun, "mailgun.delivered", "m-1", within=43200, covers=False, status=200),
    "square": Signer(square, "square.payment.updated", "sq-1", config={"url": ADDRESS}),
    "zoom": Signer(zoom, "zoom.meeting.started", "", within=300, status=200),
    "discord": Signer(discord, "discord.2", "i-1", ed_raw(SECRET).hex(), ed_raw(OTHER).hex(), within=900, status=200),
    "telegram": Signer(TELEGRAM, "telegram.message", "10000", covers=False, status=200),
    "jira": Signer(JIRA, "jira.jira:issue_updated", "d-1"),
    "grafana": Signer(GRAFANA, "grafana.firing", ""),
    "alertmanager": Signer(ALERTMANAGER, "alertmanager.firing", "", covers=False),
    "aws_sns": Signer(sns, "aws_sns.Notification", "m-1", TOPIC, TOPIC_OTHER, within=7200),
    "azure_eventgrid": Signer(azure, "azure_eventgrid.Microsoft.Storage.BlobCreated", "e-1", covers=False),
    "feishu": Signer(
        feishu, "feishu.im.message.receive_v1", "ev-1", "right:the key", "right:no key", within=3600, status=200
    ),
    "dingtalk": Signer(
        dingtalk, "dingtalk.user_add_org", "", PAIR, PAIR_OTHER, 86400, status=200, config={"receiver": RECEIVER}
    ),
    "wecom": Signer(
        wecom, "wecom.text", "4561255354251345929", PAIR, PAIR_OTHER, 3600, status=200, config={"receiver": RECEIVER}
    ),
}
