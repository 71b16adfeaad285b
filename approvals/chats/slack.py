"""Slack: messages to one member by a bot's token, brought up to date in place, with buttons that Slack signs."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from approvals.carrying import Clicks, Letter, Ref, refused
from approvals.connectors import chat
from approvals.connectors.answers import object_of
from approvals.kinds import Far
from approvals.pressing import NAMES, Call, Heard, Pressed
from project.lib import clock
from project.lib.mrkdwn import escaped
from triggers.sources.verify import verify

MEMBER = re.compile(r"[UW][A-Z0-9]{1,30}")
SIGNED = {  # "Verifying requests from Slack", in the words of triggers/sources/verify.py
    "scheme": "hmac",
    "digest": "sha256",
    "signed": "v0:{h:X-Slack-Request-Timestamp}:{body}",
    "signature": {"header": "X-Slack-Signature", "prefix": "v0=", "encoding": "hex"},
    "timestamp": {"header": "X-Slack-Request-Timestamp", "unit": "s", "tolerance": 300},
}


def member(text: str) -> str:
    if not MEMBER.fullmatch(text):
        raise refused("Your member id in Slack looks like U0123456789: Profile, ⋮, Copy member ID.")
    return text


def call(far: Far, method: str, body: dict[str, Any]) -> dict[str, Any]:
    """One method of Slack's API by the bot's token; its answer, when it says ok."""
    api = str(far.config.get("api_url") or chat.SLACK_API).rstrip("/")
    headers = {"authorization": f"Bearer {far.secrets.get('token', '')}"}
    answer = chat.post(far, f"{api}/{method}", body, headers)
    told = object_of(answer)
    if told.get("ok") is not True:
        error = str(told.get("error", "no error named"))
        chat.refuse(answer, error, busy=error in chat.SLACK_BUSY, in_doubt=error in chat.SLACK_IN_DOUBT)
    return told


def body_of(letter: Letter) -> dict[str, Any]:
    def said(text: str) -> dict[str, Any]:
        return {"type": "plain_text", "text": text[:3000], "emoji": False}

    buttons: list[dict[str, Any]] = []
    if letter.button:
        name, value = letter.button
        pressed = {"type": "button", "action_id": name, "value": value, "style": "primary"}
        buttons.append({**pressed, "text": said(name.capitalize())})
    if letter.link:
        buttons.append({"type": "button", "action_id": "open", "url": letter.link, "text": said("Open")})
    blocks = [
        {"type": "section", "text": said(letter.title)},
        *([{"type": "section", "text": said("\n".join(letter.lines))}] if letter.lines else []),
        *([{"type": "actions", "block_id": "nightdesk", "elements": buttons}] if buttons else []),
    ]
    return {"text": escaped(letter.title), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def send(far: Far, address: str, letter: Letter) -> Ref:
    told = call(far, "chat.postMessage", {**body_of(letter), "channel": address, "link_names": False})
    return {"channel": str(told.get("channel", "")), "ts": str(told.get("ts", ""))}


def replace(far: Far, ref: Ref, letter: Letter) -> None:
    call(far, "chat.update", {**body_of(letter), "channel": ref["channel"], "ts": ref["ts"]})


def identify(far: Far, address: str) -> str:
    """`T111/U222`: ids of people are their workspace's own."""
    return f"{call(far, 'auth.test', {}).get('team_id', '')}/{address}"


def author_in(told: Any) -> str:
    """Whom an event, a command or a click is from, as `identify` calls people; empty where it names nobody."""
    if not isinstance(told, dict):
        return ""
    inner = told["event"] if isinstance(told.get("event"), dict) else told
    named = (told.get("team_id") or told.get("team"), inner.get("user") or told.get("user_id"))
    team, user = (one.get("id") if isinstance(one, dict) else one for one in named)
    return f"{team}/{user}" if all(isinstance(one, str) and one for one in (team, user)) else ""


def hear(config: Mapping[str, Any], secrets: Mapping[str, Any], came: Call) -> Heard:
    secret = str(secrets.get("signing_secret") or "").encode()
    verify(SIGNED, came.body, came.headers, [secret] if secret else [], now=clock.now().timestamp())
    return Heard(read(came.body))


def read(body: bytes) -> tuple[Pressed, ...]:
    """The buttons of ours in one call-back; none in whatever else Slack tells us."""
    try:
        told = json.loads(parse_qs(body.decode())["payload"][0])
        if told["type"] != "block_actions":
            return ()
        user, message = told["user"], told["container"]
        ours = [each for each in told["actions"] if each.get("action_id") in NAMES]
        where = {"channel": str(message["channel_id"]), "ts": str(message["message_ts"]), "user": str(user["id"])}
        team = str((told.get("team") or {}).get("id") or user["team_id"])
        identity, trigger = f"{team}/{user['id']}", str(told["trigger_id"])
        return tuple(
            Pressed(f"{trigger}/{each['action_id']}", identity, each["action_id"], each["value"], where)
            for each in ours
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return ()


def whisper(far: Far, pressed: Pressed, words: str) -> None:
    where = {"channel": pressed.message["channel"], "user": pressed.message["user"]}
    call(far, "chat.postEphemeral", {**where, "text": words})


CLICKS = Clicks(identify, hear, whisper=whisper)
