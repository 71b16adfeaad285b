"""Feishu, and Lark: cards to one person by an app's bot, brought up to date in place, with buttons that are signed."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from approvals.carrying import Clicks, Letter, Ref, harmless, refused
from approvals.connectors import chat
from approvals.connectors.answers import attempt, judge, object_of
from approvals.errors import OutcomeUnknown, Refused
from approvals.kinds import Far
from approvals.pressing import NAMES, Call, Heard, Pressed
from project.lib import clock
from project.lib.egress import Session
from triggers.sources.encrypted import open_feishu
from triggers.sources.forged import Forged
from triggers.sources.verify import verify

API = "https://open.feishu.cn"
OPEN_ID = re.compile(r"ou_[A-Za-z0-9]{1,100}")
MAIL = re.compile(r"[^@\s]{1,64}@[^@\s]{1,180}")
BUSY = (9499, 99991400, 230020)  # too many calls, of the app or to one person
SIGNED = {  # "Receive and handle callbacks", in the words of triggers/sources/verify.py
    "scheme": "hash",
    "digest": "sha256",
    "signed": "{h:X-Lark-Request-Timestamp}{h:X-Lark-Request-Nonce}{secret}{body}",
    "signature": {"header": "X-Lark-Signature", "encoding": "hex"},
    "timestamp": {"header": "X-Lark-Request-Timestamp", "unit": "s", "tolerance": 300},
}


def person(text: str) -> str:
    if not (OPEN_ID.fullmatch(text) or MAIL.fullmatch(text)):
        raise refused("Write the mail address you have in Feishu, or your open id (ou_…); nothing for the group.")
    return text


def call(far: Far, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """One call of the app's; its answer, when its code says yes."""
    return asked(far, method, path, body, {"authorization": f"Bearer {tenant_token(far)}"})


def asked(far: Far, method: str, path: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    api = str(far.config.get("api_url") or API).rstrip("/")
    with Session(far.timeout) as http:
        answer = judge(attempt(lambda: http.call(method, f"{api}/open-apis/{path}", json=body, headers=headers)))
    told = object_of(answer)
    code = told.get("code")
    if type(code) is not int:
        raise OutcomeUnknown(f"{answer.method} {answer.host}: status {answer.status}, but no `code`")
    if code != 0:
        chat.refuse(answer, f"code {code} {told.get('msg', '')}", busy=code in BUSY, in_doubt=False)
    return told


def tenant_token(far: Far) -> str:
    """What the app's calls carry; Feishu gives the same one as long as it is good."""
    given = {"app_id": far.config.get("app_id", ""), "app_secret": far.secrets.get("app_secret", "")}
    token = asked(far, "POST", "auth/v3/tenant_access_token/internal", given, {}).get("tenant_access_token")
    if not token:
        raise Refused("Feishu gave no token for the app")
    return str(token)


def card_of(letter: Letter) -> str:
    def said(text: str) -> dict[str, Any]:
        return {"tag": "plain_text", "content": harmless(text)}

    buttons: list[dict[str, Any]] = []
    if letter.button:
        name, value = letter.button
        pressed = {"tag": "button", "type": "primary", "value": {"name": name, "value": value}}
        buttons.append({**pressed, "text": said(name.capitalize())})
    if letter.link:
        buttons.append({"tag": "button", "url": letter.link, "text": said("Open")})
    elements = [
        {"tag": "div", "text": said(letter.title)},  # a header would cut it
        *({"tag": "div", "text": said(line)} for line in letter.lines),
        *([{"tag": "action", "actions": buttons}] if buttons else []),
    ]
    return json.dumps({"config": {"update_multi": True}, "elements": elements}, ensure_ascii=False)


def send(far: Far, address: str, letter: Letter) -> Ref:
    kind = {"receive_id_type": "open_id" if OPEN_ID.fullmatch(address) else "email"}
    body = {"receive_id": address, "msg_type": "interactive", "content": card_of(letter), "uuid": letter.key[:50]}
    told = call(far, "POST", f"im/v1/messages?{urlencode(kind)}", body)
    message = (told.get("data") or {}).get("message_id")
    return {"message": str(message)} if message else {}


def replace(far: Far, ref: Ref, letter: Letter) -> None:
    call(far, "PATCH", f"im/v1/messages/{ref['message']}", {"content": card_of(letter)})


def identify(far: Far, address: str) -> str:
    """The person's open id, which is the app's own name of them."""
    if OPEN_ID.fullmatch(address):
        return address
    told = call(far, "POST", "contact/v3/users/batch_get_id?user_id_type=open_id", {"emails": [address]})
    found = [each.get("user_id") for each in (told.get("data") or {}).get("user_list") or []]
    if len(found) != 1 or not OPEN_ID.fullmatch(str(found[0])):
        raise Refused(f"Feishu knows nobody by {address}, or the app may not look people up; write the open id")
    return str(found[0])


def hear(config: Mapping[str, Any], secrets: Mapping[str, Any], came: Call) -> Heard:
    """A trial is not signed, but only who has the key can have encrypted it; everything else is signed."""
    key = str(secrets.get("encrypt_key") or "")
    if not key:
        raise Forged("no_secret", "the connection has no encrypt key to check with")
    told = plain_of(came.body, key)
    if told.get("type") == "url_verification":
        return Heard(answer={"challenge": str(told.get("challenge", ""))})
    verify(SIGNED, came.body, came.headers, [key.encode()], now=clock.now().timestamp())
    return Heard(read(told, str(config.get("app_id") or "")))


def plain_of(body: bytes, key: str) -> dict[str, Any]:
    """What the body says once it is opened. With a key Feishu encrypts everything it sends."""
    try:
        told = json.loads(open_feishu(json.loads(body)["encrypt"], key))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise Forged("bad_signature", "the body is not encrypted with this key") from None
    if not isinstance(told, dict):
        raise Forged("bad_signature", "what was encrypted is no object")
    return told


def read(told: dict[str, Any], app: str) -> tuple[Pressed, ...]:
    """The button of ours that was pressed; none in whatever else Feishu tells us, or tells another app."""
    try:
        header, event = told["header"], told["event"]
        value = event["action"]["value"]
        if header["event_type"] != "card.action.trigger" or header["app_id"] != app or value["name"] not in NAMES:
            return ()
        who, where = str(event["operator"]["open_id"]), {"message": str(event["context"]["open_message_id"])}
        return (Pressed(str(header["event_id"]), who, value["name"], str(value["value"]), where),)
    except (LookupError, TypeError):
        return ()


def toast(words: str) -> dict[str, Any]:
    return {"toast": {"type": "info", "content": words}}


CLICKS = Clicks(identify, hear, toast=toast)
