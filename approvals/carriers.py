"""How a message reaches one person: mail, Slack, Feishu, WeCom, DingTalk, Telegram, and whatever Apprise knows.

A carrier sends a `Letter` to an address and says how the far side calls the message, so that it can be brought up to
date later where the far side lets us. It raises NotSent, Refused or OutcomeUnknown. No text is markup to any of them,
so a headline can neither call people by name nor hide an address behind another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from approvals.connectors import chat, mail, notify
from approvals.connectors.answers import object_of
from approvals.errors import NotValid
from approvals.kinds import Far

Ref = dict[str, Any]  # how the far side calls a message; empty: it does not say

TELEGRAM_API = "https://api.telegram.org"
SLACK_MEMBER = re.compile(r"[UW][A-Z0-9]{1,30}")
TELEGRAM_CHAT = re.compile(r"-?\d{1,20}")
SHORT = 150  # characters of a Slack header, a Telegram line


@dataclass(frozen=True, slots=True)
class Letter:
    """What a person reads: one line, a few more, and the page that opens. `follows` is the message it belongs to."""

    title: str
    lines: tuple[str, ...] = ()
    link: str = ""
    button: tuple[str, str] | None = None  # name and value of what a click says; only where the far side signs it
    follows: Ref | None = None
    key: str = ""  # the same for every try at the same message

    @property
    def text(self) -> str:
        return "\n".join([self.title, *self.lines, *([self.link] if self.link else [])])


@dataclass(frozen=True, slots=True)
class Carrier:
    """`asks` is what a person is asked for; empty where the connection leads to one group, whose members read along."""

    system: str
    words: str
    asks: str
    check: Callable[[str], str]  # the address as it is kept; raises NotValid
    send: Callable[[Far, str, Letter], Ref]
    replace: Callable[[Far, Ref, Letter], None] | None = None
    identify: Callable[[Far, str], str] | None = None  # how it calls the person in what it signs
    needs: str = ""  # the secret without which it cannot write to single people

    @property
    def signs_clicks(self) -> bool:
        return self.identify is not None


def refused(words: str) -> NotValid:
    return NotValid(words, field="address")


# Mail


def mail_address(text: str) -> str:
    try:
        return mail.bare(text)
    except ValueError as error:
        raise refused(f"The address {error}.") from None


def send_mail(far: Far, address: str, letter: Letter) -> Ref:
    wanted = mail.Mail(to=[address], subject=letter.title[:500], body="\n".join([*letter.lines, "", letter.link]))
    first = (letter.follows or {}).get("message_id")
    message, _ = mail.send(far, wanted, letter.key, follows=str(first or ""))
    return {"message_id": message["Message-ID"]}


# Slack


def slack_member(text: str) -> str:
    if not SLACK_MEMBER.fullmatch(text):
        raise refused("Your member id in Slack looks like U0123456789: Profile, ⋮, Copy member ID.")
    return text


def slack_call(far: Far, method: str, body: dict[str, Any]) -> dict[str, Any]:
    """One method of Slack's API by the bot's token; its answer, when it says ok."""
    api = str(far.config.get("api_url") or chat.SLACK_API).rstrip("/")
    headers = {"authorization": f"Bearer {far.secrets.get('token', '')}"}
    answer = chat.post(far, f"{api}/{method}", body, headers)
    told = object_of(answer)
    if told.get("ok") is not True:
        error = str(told.get("error", "no error named"))
        chat.refuse(answer, error, busy=error in chat.SLACK_BUSY, in_doubt=error in chat.SLACK_IN_DOUBT)
    return told


def slack_body(letter: Letter) -> dict[str, Any]:
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
    plain = letter.title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": plain, "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def send_slack(far: Far, address: str, letter: Letter) -> Ref:
    told = slack_call(far, "chat.postMessage", {**slack_body(letter), "channel": address, "link_names": False})
    return {"channel": str(told.get("channel", "")), "ts": str(told.get("ts", ""))}


def replace_slack(far: Far, ref: Ref, letter: Letter) -> None:
    slack_call(far, "chat.update", {**slack_body(letter), "channel": ref["channel"], "ts": ref["ts"]})


def slack_identity(far: Far, address: str) -> str:
    """`T111/U222`: ids of people are their workspace's own."""
    return f"{slack_call(far, 'auth.test', {}).get('team_id', '')}/{address}"


# Bots of a group: whoever has the webhook reaches the group, and nobody else


def no_address(text: str) -> str:
    if text:
        raise refused("This connection leads to one group; leave the address empty.")
    return ""


def send_feishu(far: Far, address: str, letter: Letter) -> Ref:
    chat.feishu(far, chat.FeishuPost(text=harmless(letter.text)), letter.key)
    return {}


def send_wecom(far: Far, address: str, letter: Letter) -> Ref:
    chat.wecom(far, chat.WecomPost(text=cut(letter, chat.BYTES["wecom"])), letter.key)
    return {}


def send_dingtalk(far: Far, address: str, letter: Letter) -> Ref:
    chat.dingtalk(far, letter.text)
    return {}


def harmless(text: str) -> str:
    """Feishu calls people by `<at …>` even in plain text."""
    return re.sub(r"<(?=\s*at\b)", "‹", text, flags=re.IGNORECASE)


def cut(letter: Letter, most: int) -> str:
    """The text within so many bytes; the address of the page is never what goes."""
    room = most - len(letter.link.encode()) - 1
    head = "\n".join([letter.title, *letter.lines]).encode()[:room].decode("utf-8", "ignore")
    return f"{head}\n{letter.link}" if letter.link else head


# Telegram: it sends a secret along with a click, but signs nothing, so a message there has no button that decides


def telegram_chat(text: str) -> str:
    if not TELEGRAM_CHAT.fullmatch(text):
        raise refused("A chat's id in Telegram is a number; send /start to the bot first.")
    return text


def telegram_call(far: Far, method: str, body: dict[str, Any]) -> dict[str, Any]:
    api = str(far.config.get("api_url") or TELEGRAM_API).rstrip("/")
    answer = chat.post(far, f"{api}/bot{far.secrets.get('token', '')}/{method}", body)
    told = object_of(answer)
    if told.get("ok") is not True:
        chat.refuse(answer, str(told.get("description", "no reason named")), busy=False, in_doubt=False)
    result = told.get("result")
    return result if isinstance(result, dict) else {}


def send_telegram(far: Far, address: str, letter: Letter) -> Ref:
    body = {"chat_id": address, "text": letter.text[:4000], "link_preview_options": {"is_disabled": True}}
    return {"chat": address, "message": telegram_call(far, "sendMessage", body).get("message_id")}


def replace_telegram(far: Far, ref: Ref, letter: Letter) -> None:
    body = {"chat_id": ref["chat"], "message_id": ref["message"], "text": letter.text[:4000]}
    telegram_call(far, "editMessageText", {**body, "link_preview_options": {"is_disabled": True}})


# Apprise: the addresses are the connection's, and an admin's to write; a person picks one of its named channels


def channel_name(text: str) -> str:
    if not re.fullmatch(r"[^:/]{0,64}", text):
        raise refused("Write the name of one of the connection's channels, or nothing for all its addresses.")
    return text


def send_apprise(far: Far, address: str, letter: Letter) -> Ref:
    body = "\n".join([*letter.lines, letter.link]).strip() or letter.title
    notify.deliver(far, notify.Message(title=letter.title[:200], text=body, channel=address), letter.key)
    return {}


CARRIERS = {
    carrier.system: carrier
    for carrier in (
        Carrier("smtp", "Mail", "Your mail address", mail_address, send_mail),
        Carrier(
            "slack",
            "Slack",
            "Your member id (U…)",
            slack_member,
            send_slack,
            replace_slack,
            slack_identity,
            needs="token",
        ),
        Carrier("feishu", "Feishu", "", no_address, send_feishu),
        Carrier("wecom", "WeCom", "", no_address, send_wecom),
        Carrier("dingtalk", "DingTalk", "", no_address, send_dingtalk),
        Carrier("telegram", "Telegram", "Your chat's id", telegram_chat, send_telegram, replace_telegram),
        Carrier("notify", "Notifications", "One of its channels", channel_name, send_apprise),
    )
}
