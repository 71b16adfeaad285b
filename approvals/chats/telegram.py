"""Telegram: it sends a secret along with a click, but signs nothing, so a message there has no button that decides."""

import re
from typing import Any

from approvals.carrying import Letter, Ref, refused
from approvals.connectors import chat
from approvals.connectors.answers import object_of
from approvals.kinds import Far

API = "https://api.telegram.org"
CHAT = re.compile(r"-?\d{1,20}")


def chat_id(text: str) -> str:
    if not CHAT.fullmatch(text):
        raise refused("A chat's id in Telegram is a number; send /start to the bot first.")
    return text


def call(far: Far, method: str, body: dict[str, Any]) -> dict[str, Any]:
    api = str(far.config.get("api_url") or API).rstrip("/")
    answer = chat.post(far, f"{api}/bot{far.secrets.get('token', '')}/{method}", body)
    told = object_of(answer)
    if told.get("ok") is not True:
        chat.refuse(answer, str(told.get("description", "no reason named")), busy=False, in_doubt=False)
    result = told.get("result")
    return result if isinstance(result, dict) else {}


def send(far: Far, address: str, letter: Letter) -> Ref:
    body = {"chat_id": address, "text": letter.text[:4000], "link_preview_options": {"is_disabled": True}}
    return {"chat": address, "message": call(far, "sendMessage", body).get("message_id")}


def replace(far: Far, ref: Ref, letter: Letter) -> None:
    body = {"chat_id": ref["chat"], "message_id": ref["message"], "text": letter.text[:4000]}
    call(far, "editMessageText", {**body, "link_preview_options": {"is_disabled": True}})
