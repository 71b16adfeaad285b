"""One verifier for every scheme the catalogue can say; it sees the exact bytes and parses nothing of them.

`providers.json` states where a signature stands, over what, with which digest and encoding (docs/sources.md)."""

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

Headers = Mapping[str, str]  # names in lower case; values as latin-1 text, as they came
PART = re.compile(r"\{(body|h:[^}]+|sig\.[a-z0-9]+|secret)\}")
FUTURE = 60  # seconds a sender's clock may be ahead
LONGEST_TIME = 18  # digits of a timestamp


class Forged(Exception):
    """The delivery does not prove who sent it. `reason` is for the desk's own pages, never for the sender."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        super().__init__(detail)


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Every provider the desk knows, by name."""
    providers: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "providers.json").read_text())
    return providers


@dataclass(frozen=True, slots=True)
class Proof:
    """Which secret fitted: its place in the source's list."""

    secret: int


def verify(scheme: Mapping[str, Any], body: bytes, headers: Headers, secrets: Sequence[bytes], *, now: float) -> Proof:
    """Check `body` against every secret, newest first; `now` is Unix time in seconds.

    Raises Forged with reason no_secret, no_signature, bad_signature or stale."""
    if not secrets:
        raise Forged("no_secret", "the source has no secret to check with")
    given, extra = signatures(scheme, headers)
    check_time(scheme, headers, extra, now)
    for place, secret in enumerate(secrets):
        if any(fits(scheme, body, headers, extra, secret, candidate) for candidate in given):
            return Proof(place)
    raise Forged("bad_signature", "the signature does not fit the body and the secret")


def signatures(scheme: Mapping[str, Any], headers: Headers) -> tuple[list[bytes], dict[str, str]]:
    """The signatures the sender gave, decoded, and the other parts of that header (`t=` of Stripe)."""
    where = scheme["signature"]
    text = headers.get(where["header"].lower())
    if text is None:
        raise Forged("no_signature", f"the header {where['header']} is missing")
    if scheme["scheme"] == "token":
        return [token_in(text, where)], {}
    if "pair" in where:
        pairs = [item.strip().partition("=") for item in text.split(",")]
        extra = {name: value for name, _, value in pairs if name != where["pair"]}
        items = [value for name, _, value in pairs if name == where["pair"]]
    else:
        extra, items = {}, text.split(where["split"]) if "split" in where else [text]
    prefix = where.get("prefix", "")
    named = [item.strip()[len(prefix) :] for item in items if item.strip().startswith(prefix)]
    found = [value for item in named if (value := decoded(item, where.get("encoding", "hex"))) is not None]
    if not found:
        raise Forged("bad_signature", f"the header {where['header']} holds no signature of the form expected")
    return found, extra


def token_in(text: str, where: Mapping[str, Any]) -> bytes:
    """The secret as it was given; with `basic`, `user:password` of HTTP's Basic scheme counts too."""
    if where.get("basic") and text[:6].lower() == "basic ":
        return decoded(text[6:].strip(), "base64") or b""
    return text.removeprefix(where.get("prefix", "")).encode("latin-1")


def decoded(text: str, encoding: str) -> bytes | None:
    try:
        if encoding == "hex":
            return binascii.unhexlify(text.encode("ascii"))
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, UnicodeEncodeError):
        return None


def check_time(scheme: Mapping[str, Any], headers: Headers, extra: Mapping[str, str], now: float) -> None:
    """Raises Forged when the signed time, if the scheme has one, is too old, ahead of us, or no number."""
    rule = scheme.get("timestamp")
    if not rule:
        return
    text = extra.get(rule["pair"], "") if "pair" in rule else headers.get(rule["header"].lower(), "")
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_TIME):
        raise Forged("stale", "the timestamp is missing or no whole number")
    moment = int(text) / (1000 if rule.get("unit") == "ms" else 1)
    if moment > 1e11:
        raise Forged("stale", "the timestamp looks like milliseconds; this scheme sends seconds")
    if now - moment > rule["tolerance"]:
        raise Forged("stale", f"the delivery is {now - moment:.0f} s old; at most {rule['tolerance']} s are taken")
    if moment - now > FUTURE:
        raise Forged("stale", f"the sender's clock is {moment - now:.0f} s ahead of ours")


def fits(
    scheme: Mapping[str, Any], body: bytes, headers: Headers, extra: Mapping[str, str], secret: bytes, given: bytes
) -> bool:
    """Compare in constant time, bytes with bytes."""
    if scheme["scheme"] == "token":
        return hmac.compare_digest(given, secret)
    key = key_bytes(scheme.get("key", {}), secret)
    if key is None:
        return False
    text = signed_bytes(scheme.get("signed", "{body}"), body, headers, extra, key)
    if scheme["scheme"] == "hash":
        return hmac.compare_digest(given, hashlib.new(scheme["digest"], text).digest())
    return hmac.compare_digest(given, hmac.digest(key, text, scheme["digest"]))


def key_bytes(rule: Mapping[str, Any], secret: bytes) -> bytes | None:
    """The bytes of the key: some schemes cut a prefix and decode base64, others take the text as it is."""
    secret = secret.removeprefix(rule.get("prefix", "").encode())
    if rule.get("encoding") != "base64":
        return secret
    try:
        return base64.b64decode(secret + b"=" * (-len(secret) % 4), validate=True)
    except ValueError:
        return None


def signed_bytes(template: str, body: bytes, headers: Headers, extra: Mapping[str, str], secret: bytes) -> bytes:
    """What was signed: the template with its parts filled in from the bytes that came."""
    if template == "{body}":
        return body
    out = []
    for index, part in enumerate(PART.split(template)):
        if index % 2 == 0:
            out.append(part.encode())
        elif part == "body":
            out.append(body)
        elif part == "secret":
            out.append(secret)
        elif part.startswith("h:"):
            out.append(headers.get(part[2:].strip().lower(), "").encode("latin-1"))
        else:
            out.append(extra.get(part[4:], "").encode("latin-1"))
    return b"".join(out)
