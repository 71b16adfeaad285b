"""Call-backs of chats that come encrypted: checked, opened, and told apart from the greetings that carry no signature.

Their secret has two parts, `token:key`, as the platform's page shows them beside each other."""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any

from triggers.sources.encrypted import check_wechat, open_feishu, open_wechat
from triggers.sources.forged import Forged
from triggers.sources.places import Headers, asked, at, json_of

SEALED_IN_XML = re.compile(rb"<Encrypt>(?:<!\[CDATA\[)?\s*([A-Za-z0-9+/=]+)\s*(?:\]\]>)?</Encrypt>")
Opened = tuple[bytes, bool, bytes]  # the body as meant; whether it is at most a greeting; what was signed, if anything


def check_feishu(body: bytes, headers: Headers, secrets: Sequence[bytes]) -> tuple[int, Opened]:
    """Which secret fits, and the body without its envelope. Raises Forged.

    Events are signed by SHA-256 under the encrypt key, presses of a card by SHA-1 under the verification token; a
    greeting, and every event of an app without an encrypt key, is proved by the token inside alone."""
    outer = json_of(body)
    refused = None
    for place, secret in enumerate(secrets):
        token, _, key = secret.decode().partition(":")
        try:
            return place, opened_feishu(outer, body, headers, token, key)
        except Forged as forged:
            refused = refused or forged
    assert refused is not None
    raise refused


def opened_feishu(outer: Any, body: bytes, headers: Headers, token: str, key: str) -> Opened:
    sealed = outer.get("encrypt") if isinstance(outer, dict) else None
    plain = open_feishu(str(sealed), key) if sealed is not None else body
    given = headers.get("x-lark-signature")
    if given is not None:
        if not headers.get(
            "x-lark-request-timestamp"
        ):  # moved into the nonce it would be signed still, and have no age
            raise Forged("stale", "the header X-Lark-Request-Timestamp is missing")
        before = f"{headers.get('x-lark-request-timestamp', '')}{headers.get('x-lark-request-nonce', '')}"
        if not fits_feishu(given, before, token, key, body, is_press=presses(json_of(plain))):
            raise Forged("bad_signature", "X-Lark-Signature fits neither the encrypt key nor, of a press, the token")
        return plain, False, before.encode("latin-1", "replace") + body
    inner = json_of(plain)
    greets = at(inner, "type") == "url_verification"
    if key and not greets:
        raise Forged("no_signature", "the header X-Lark-Signature is missing")
    if presses(inner):  # always signed; what stands at `token` is its own, and is not hidden
        raise Forged("no_signature", "the header X-Lark-Signature is missing: no press comes without one")
    shown = str(at(inner, "header.token") or at(inner, "token") or "")
    if not token or not hmac.compare_digest(shown.encode("utf-8", "replace"), token.encode()):
        raise Forged("bad_signature", "the verification token inside is not this source's")
    return plain, greets, b""


def presses(inner: Any) -> bool:
    """Is it the press of a card's button, in its first form? Those of the second one are events."""
    return isinstance(inner, dict) and {"action", "open_message_id"} <= inner.keys() and "header" not in inner


def fits_feishu(given: str, before: str, token: str, key: str, body: bytes, *, is_press: bool) -> bool:
    """The token is known to whoever reads one event, so it proves presses, for which there is nothing else, and no
    event."""
    text = given.encode("latin-1", "replace")
    event = hashlib.sha256((before + key).encode("latin-1", "replace") + body).hexdigest().encode()
    press = hashlib.sha1((before + token).encode("latin-1", "replace") + body).hexdigest().encode()
    by_token = is_press and bool(token)
    return (bool(key) and hmac.compare_digest(text, event)) or (by_token and hmac.compare_digest(text, press))


def check_wechat_family(
    scheme: Mapping[str, Any], body: bytes, headers: Headers, secrets: Sequence[bytes]
) -> tuple[int, Opened]:
    """WeCom and DingTalk: signed in the query, over what is encrypted. Raises Forged."""
    echo = asked(headers, "echostr")
    if echo and body:
        raise Forged("bad_signature", "a greeting carries no body")
    sealed = echo or sealed_in(body)
    names = scheme["query"]
    given, moment, nonce = (asked(headers, names[part]) for part in ("signature", "timestamp", "nonce"))
    if not given:
        raise Forged("no_signature", f"the query holds no {names['signature'].replace('|', ' or ')}")
    refused = None
    for place, secret in enumerate(secrets):
        token, _, key = secret.decode().partition(":")
        try:
            text = check_wechat(given, token, moment, nonce, sealed)
            plain = open_wechat(sealed, key, scheme.get("receiver", ""))
            if echo and plain.lstrip().startswith((b"<", b"{")):  # else whoever saw one could have it deciphered
                raise Forged("bad_signature", "a message is no greeting")
            return place, (plain, bool(echo), text)
        except Forged as forged:
            refused = refused or forged
    assert refused is not None
    raise refused


def sealed_in(body: bytes) -> str:
    """What is encrypted, of a body in XML or JSON. Raises Forged."""
    if found := SEALED_IN_XML.search(body):
        return found[1].decode()
    sealed = at(json_of(body), "encrypt")
    if not isinstance(sealed, str):
        raise Forged("no_signature", "the body holds nothing encrypted")
    return sealed
