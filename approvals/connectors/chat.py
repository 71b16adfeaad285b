"""Messages into a chat: `slack.post`, `feishu.post`, `wecom.post`. The channel is the connection's, never an argument.

The text is sent as plain text, so it can call nobody by name and hide no address behind another one. None of these
calls knows a key, and what was posted cannot be looked up with the rights a bot needs for posting: an unclear outcome
is left to a person. All three answer 200 also when they refuse; what counts is inside.
"""

import base64
import hashlib
import hmac
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from pydantic import Field, field_validator

from approvals.connectors.answers import attempt, judge, object_of
from approvals.errors import NotSent, OutcomeUnknown, Refused
from approvals.kinds import Arguments, Far, Kind, Result, register
from approvals.tiers import Tier
from project.lib.egress import Answer, Session
from project.lib.language import spoken
from project.lib.mrkdwn import escaped

SLACK_API = "https://slack.com/api"
SLACK_IN_DOUBT = ("internal_error", "fatal_error", "request_timeout", "service_unavailable")
SLACK_BUSY = ("ratelimited", "rate_limited")
FEISHU_BUSY = (9499, 11232)  # too many requests (Feishu, "Custom bot usage guide")
WECOM_BUSY = (45009, 45033)  # over the frequency, or too many calls at once (WeCom, "Global error codes")
WECOM_IN_DOUBT = (-1,)  # "the system is busy"
DINGTALK_BUSY = (130101,)  # over twenty messages a minute (DingTalk, "Custom robot access")
DINGTALK_IN_DOUBT = (-1,)
PAUSE = timedelta(seconds=60)  # their limits count by the minute
BYTES = {"feishu": 18_000, "wecom": 2048}


class SlackPost(Arguments):
    text: str = Field(min_length=1, max_length=40_000)


class FeishuPost(Arguments):
    text: str = Field(min_length=1, max_length=BYTES["feishu"])

    @field_validator("text")
    @classmethod
    def calls_nobody(cls, text: str) -> str:
        if re.search(r"<\s*at\b", text, re.IGNORECASE):
            raise ValueError("`<at …>` would call people by name")
        return fitting(text, "feishu")


class WecomPost(Arguments):
    text: str = Field(min_length=1, max_length=BYTES["wecom"])

    @field_validator("text")
    @classmethod
    def fits(cls, text: str) -> str:
        return fitting(text, "wecom")


def fitting(text: str, system: str) -> str:
    if len(text.encode("utf-8", "replace")) > BYTES[system]:
        raise ValueError(f"at most {BYTES[system]} bytes of UTF-8")
    return text


def post(far: Far, url: str, json: Any, headers: dict[str, str] | None = None) -> Answer:
    """One call whose status was good; raises NotSent, Refused or OutcomeUnknown."""
    with Session(far.timeout) as http:
        return judge(attempt(lambda: http.call("POST", url, json=json, headers=headers)))


def webhook_of(far: Far) -> str:
    url = far.secrets.get("webhook_url")
    if not url:
        raise Refused(f"the connection {far.slug} holds no webhook address")
    return str(url)


def refuse(answer: Answer, told: str, *, busy: bool, in_doubt: bool) -> None:
    """Raise what an error inside a good status means."""
    words = f"{answer.method} {answer.host}: {told}"[:300]
    if busy:
        raise NotSent(words, retry_after=answer.retry_after or PAUSE)
    raise (OutcomeUnknown if in_doubt else Refused)(words)


def slack(far: Far, wish: SlackPost, key: str) -> Result:
    """By a bot's token into `config.channel`, or by an incoming webhook, whose address names the channel."""
    body = {"text": escaped(wish.text), "unfurl_links": False, "unfurl_media": False}
    if not far.secrets.get("token"):
        answer = post(far, webhook_of(far), body)
        if answer.body.strip() != b"ok":
            refuse(answer, answer.body[:100].decode("utf-8", "replace"), busy=False, in_doubt=False)
        return {}
    channel = far.config.get("channel")
    if not channel:
        raise Refused(f"the connection {far.slug} names no channel")
    api = str(far.config.get("api_url") or SLACK_API).rstrip("/")
    headers = {"authorization": f"Bearer {far.secrets['token']}"}
    answer = post(far, f"{api}/chat.postMessage", {**body, "channel": channel, "link_names": False}, headers)
    told = object_of(answer)
    if told.get("ok") is not True:
        error = str(told.get("error", "no error named"))
        refuse(answer, error, busy=error in SLACK_BUSY, in_doubt=error in SLACK_IN_DOUBT)
    return {"channel": told.get("channel", ""), "ts": told.get("ts", "")}


def feishu(far: Far, wish: FeishuPost, key: str) -> Result:
    """By the webhook of a custom bot, signed when the connection holds its secret."""
    body: dict[str, Any] = {"msg_type": "text", "content": {"text": wish.text}}
    if secret := far.secrets.get("secret"):
        moment = str(int(time.time()))
        mark = hmac.new(f"{moment}\n{secret}".encode(), b"", hashlib.sha256).digest()
        body |= {"timestamp": moment, "sign": base64.b64encode(mark).decode()}
    return numbered(post(far, webhook_of(far), body), "code", "msg", FEISHU_BUSY, ())


def wecom(far: Far, wish: WecomPost, key: str) -> Result:
    """By the webhook of a group bot."""
    body = {"msgtype": "text", "text": {"content": wish.text}}
    return numbered(post(far, webhook_of(far), body), "errcode", "errmsg", WECOM_BUSY, WECOM_IN_DOUBT)


def dingtalk(far: Far, text: str) -> Result:
    """By the webhook of a group's robot, signed in the address when the connection holds its secret."""
    url = webhook_of(far)
    if secret := far.secrets.get("secret"):
        moment = str(int(time.time() * 1000))
        mark = hmac.new(str(secret).encode(), f"{moment}\n{secret}".encode(), hashlib.sha256).digest()
        url = f"{url}&{urlencode({'timestamp': moment, 'sign': base64.b64encode(mark).decode()})}"
    body = {"msgtype": "text", "text": {"content": text}}
    return numbered(post(far, url, body), "errcode", "errmsg", DINGTALK_BUSY, DINGTALK_IN_DOUBT)


def numbered(answer: Answer, code: str, words: str, busy: tuple[int, ...], in_doubt: tuple[int, ...]) -> Result:
    """An answer in which 0 is yes and any other number a no."""
    told = object_of(answer)
    number = told.get(code)
    if not isinstance(number, int) or isinstance(number, bool):
        raise OutcomeUnknown(f"{answer.method} {answer.host}: status {answer.status}, but no `{code}`")
    if number != 0:
        refuse(answer, f"{code} {number} {told.get(words, '')}", busy=number in busy, in_doubt=number in in_doubt)
    return {code: 0}


def posting(system: str, words: str, arguments: type[Arguments], deliver: Callable[[Far, Any, str], Result]) -> Kind:
    return register(
        Kind(
            name=f"{system}.post",
            system=system,
            tier=Tier.LOW,
            safety="unsafe",
            arguments=arguments,
            deliver=deliver,
            title=lambda wish: f"Post to {words}: {wish.text}",
            preview=lambda wish: [{"label": spoken("Message"), "text": wish.text, "form": "code"}],
            pretend=lambda wish, number: {"message": number},
            reversible="The message can be deleted; who has read it has read it.",
            blast_radius="everybody in the connection's channel",
        )
    )


SLACK_POST = posting("slack", "Slack", SlackPost, slack)
FEISHU_POST = posting("feishu", "Feishu", FeishuPost, feishu)
WECOM_POST = posting("wecom", "WeCom", WecomPost, wecom)
