"""What a provider wants to hear: the answer to its greeting, which is never an event, and to what was accepted.

The catalogue says it as data (`handshakes`, `replies`); the door writes what it is handed and knows no provider."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import orjson

from triggers.sources.places import Headers, asked, at, is_met
from triggers.sources.sealed import dingtalk_reply, wecom_reply

PART = re.compile(r"\{(plain|json:[^}]+|hmac:[^}]+)\}")
LONGEST = 4096  # characters of a member that is echoed


@dataclass(frozen=True, slots=True)
class Reply:
    """Status, body and media type; `visit` is an address to be called afterwards: that confirms the greeting."""

    status: int
    body: bytes
    kind: str = "application/json"
    visit: str = ""


class Heard(NamedTuple):
    """A delivery that proved itself: what an answer to it is made of."""

    headers: Headers
    data: Any
    plain: bytes
    secret: str


class Handshake(Exception):
    """The delivery is a greeting: it is answered, and stored nowhere."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        super().__init__("a handshake")


GREETED = Reply(200, b'{"status":"handshake"}')


def handshake(scheme: Mapping[str, Any], heard: Heard, now: float) -> Reply | None:
    """The answer to a greeting; None for what is none."""
    for rule in scheme.get("handshakes", ()):
        if is_met(rule["when"], heard.headers, heard.data):
            return reply_of(rule, scheme, heard, now) if len(rule) > 1 else GREETED
    return None


def acknowledgement(scheme: Mapping[str, Any], heard: Heard, now: float) -> Reply | None:
    """What this provider wants to hear of an accepted delivery; None where the desk's own words do, also where its
    own cannot be made, as under a robot's secret, which has no key: an answer keeps no event out."""
    with suppress(ValueError):
        return own_words(scheme, heard, now)
    return None


def own_words(scheme: Mapping[str, Any], heard: Heard, now: float) -> Reply | None:
    if wish := scheme.get("reply"):
        return shown_reply(wish, scheme, heard, now)
    for rule in scheme.get("replies", ()):
        if "when" not in rule or is_met(rule["when"], heard.headers, heard.data):
            return reply_of(rule, scheme, heard, now)
    return None


def reply_of(rule: Mapping[str, Any], scheme: Mapping[str, Any], heard: Heard, now: float) -> Reply:
    status = rule.get("status", 200)
    if "json" in rule:
        return Reply(status, orjson.dumps(filled(rule["json"], heard)))
    if "sealed" in rule:
        told = dingtalk_reply(rule["sealed"], heard.secret, scheme.get("receiver", ""), now)
        return Reply(status, orjson.dumps(told))
    if "visit" in rule:
        return Reply(status, GREETED.body, visit=str(at(heard.data, rule["visit"]) or ""))
    return Reply(status, filled(rule["text"], heard).encode(), rule.get("type", "text/plain"))


def filled(value: Any, heard: Heard) -> Any:
    """The template with what came in the places of its parts."""
    if isinstance(value, dict):
        return {name: filled(item, heard) for name, item in value.items()}
    return PART.sub(lambda part: part_of(part[1], heard), value) if isinstance(value, str) else value


def part_of(name: str, heard: Heard) -> str:
    if name == "plain":
        return heard.plain.decode("utf-8", "replace")
    kind, _, path = name.partition(":")
    text = str(at(heard.data, path) or "")[:LONGEST]
    return text if kind == "json" else hmac.new(heard.secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def shown_reply(words: str, scheme: Mapping[str, Any], heard: Heard, now: float) -> Reply | None:
    """The source's own words to whoever wrote to its WeCom app; None for what is no message of a person."""
    sender, ours = at(heard.data, "FromUserName"), at(heard.data, "ToUserName")
    if not sender or at(heard.data, "MsgType") == "event" or asked(heard.headers, "echostr"):
        return Reply(200, b"", "text/plain")
    xml = (
        f"<xml><ToUserName>{escape(str(sender))}</ToUserName><FromUserName>{escape(str(ours))}</FromUserName>"
        f"<CreateTime>{int(now)}</CreateTime><MsgType>text</MsgType><Content>{escape(words)}</Content></xml>"
    )
    return Reply(200, wecom_reply(xml, heard.secret, scheme.get("receiver", ""), now).encode(), "text/xml")
