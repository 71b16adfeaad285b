"""One verifier for every scheme the catalogue can say; it sees the exact bytes and parses nothing it need not.

`providers.json` states where a signature stands, over what, with which digest and encoding (docs/sources.md)."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from triggers.sources.asymmetric import fits_ed25519, fits_p256
from triggers.sources.callbacks import check_feishu, check_wechat_family
from triggers.sources.forged import Forged
from triggers.sources.places import Headers, asked, at, json_of
from triggers.sources.scheme import Scheme, signs_body, takes
from triggers.sources.signed_text import addresses, digest_of, key_bytes, signed_bytes
from triggers.sources.sns import check_sns

__all__ = ["Forged", "Headers", "Proof", "catalogue", "verify"]

TELLING = ("no_secret", "no_signature", "bad_signature", "stale")  # of several refusals the last says most
FUTURE = 60  # seconds a sender's clock may be ahead
LAST_SECOND = 1e11  # as seconds the year 5138, as milliseconds 1973: beyond it a number of today is no seconds
LONGEST_TIME = 18  # digits of a timestamp
MOST_GIVEN = 16  # signatures of one delivery that are looked at: each costs a stranger six bytes, and us a digest


@cache
def catalogue() -> dict[str, Scheme]:
    """Every provider the desk knows, by name."""
    providers: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "providers.json").read_text())
    return {name: Scheme(said) for name, said in providers.items()}


class Proof(NamedTuple):
    """Which secret fitted, by its place in the source's list, and the body as it was meant, without any encryption.

    What `greets` proves no more than a greeting: it may be answered and is never an event. `signed` is the digest of
    exactly what the signature is over; empty where that says nothing of the body."""

    secret: int
    body: bytes
    greets: bool = False
    signed: str = ""


def verify(scheme: Mapping[str, Any], body: bytes, headers: Headers, secrets: Sequence[bytes], *, now: float) -> Proof:
    """Check `body` against every secret, newest first; `now` is Unix time in seconds.

    Raises Forged with reason no_secret, no_signature, bad_signature or stale; QueueFull when what it must be checked
    with has to be fetched and cannot be right now."""
    if not secrets:
        raise Forged("no_secret", "the source has no secret to check with")
    if "also" not in scheme:
        return proof_of(scheme, body, headers, secrets, now)
    refused = []
    for one in (scheme, *(scheme | other for other in scheme["also"])):
        try:
            return proof_of(one, body, headers, secrets, now)
        except Forged as forged:
            refused.append(forged)
    raise max(refused, key=lambda forged: TELLING.index(forged.reason))


def proof_of(scheme: Mapping[str, Any], body: bytes, headers: Headers, secrets: Sequence[bytes], now: float) -> Proof:
    """By one scheme; of another kind than a signature in one place, by its own module."""
    kind = scheme["scheme"]
    if kind == "sns":
        (place, text), plain, greets = check_sns(scheme, body, headers, secrets, now), body, False
    elif kind == "feishu":
        place, (plain, greets, text) = check_feishu(body, headers, secrets)
    elif kind == "wechat":
        place, (plain, greets, text) = check_wechat_family(scheme, body, headers, secrets)
    else:
        return signed(scheme, body, headers, secrets, now)
    check_time(scheme, plain, headers, {}, now)
    return Proof(place, plain, greets, digest_of(text) if text else "")


def signed(scheme: Mapping[str, Any], body: bytes, headers: Headers, secrets: Sequence[bytes], now: float) -> Proof:
    given, extra = signatures(scheme, body, headers)
    refuse_dots(scheme, headers)
    timed = scheme.get("timestamp") or ()
    if timed and "json" not in timed:
        check_time(scheme, body, headers, extra, now)
    for (place, secret), candidate in product(enumerate(secrets), given):
        if not takes(scheme, secret.decode("latin-1")):
            continue
        text = fitting_text(scheme, body, headers, extra, secret, candidate)
        if text is not None:
            if "json" in timed:
                check_time(scheme, body, headers, extra, now)
            return Proof(place, body, signed=digest_of(text) if signs_body(scheme) else "")
    raise Forged("bad_signature", "the signature does not fit the body and the secret")


def refuse_dots(scheme: Mapping[str, Any], headers: Headers) -> None:
    """Raises Forged for a full stop in a header behind which one divides what is signed: it could be cut elsewhere, and
    say something else under the same signature (Standard Webhooks, "Signature scheme")."""
    for header in scheme.get("undotted", ()):
        if "." in headers.get(header.lower(), ""):
            raise Forged("bad_signature", f"{header} holds a full stop, which divides what is signed")


def signatures(scheme: Mapping[str, Any], body: bytes, headers: Headers) -> tuple[list[bytes], dict[str, str]]:
    """The signatures the sender gave, decoded, and the other parts of that header (`t=` of Stripe)."""
    where = scheme["signature"]
    text = text_at(where, body, headers)
    if scheme["scheme"] == "token":
        return [token_in(text, where)], {}
    if "pair" in where:
        pairs = [item.strip().partition("=") for item in text.split(",")]
        extra = {name: value for name, _, value in pairs if name != where["pair"]}
        items = [value for name, _, value in pairs if name == where["pair"]]
    else:
        extra, items = {}, text.split(where["split"]) if "split" in where else [text]
    prefix, encoding = where.get("prefix", ""), where.get("encoding", "hex")
    named = [item[len(prefix) :] for item in map(str.strip, items) if item.startswith(prefix)][:MOST_GIVEN]
    found = [value for item in named if (value := decoded(item, encoding)) is not None]
    if not found:
        raise Forged("bad_signature", f"{place_in_words(where)} holds no signature of the form expected")
    return found, extra


def text_at(where: Mapping[str, Any], body: bytes, headers: Headers) -> str:
    """The text of the place where the signature stands. Raises Forged when there is none."""
    if "header" in where:
        text = headers.get(where["header"].lower())
        if text is None and "else" in where:
            text = headers.get(where["else"].lower())
    elif "query" in where:
        text = asked(headers, where["query"]) or None
    else:
        found = at(json_of(body), where["json"])
        text = found if isinstance(found, str) else None
    if text is None:
        raise Forged("no_signature", f"{place_in_words(where)} is missing")
    return text


def place_in_words(where: Mapping[str, Any]) -> str:
    kind = next(name for name in ("header", "query", "json") if name in where)
    return {"header": "the header", "query": "the parameter", "json": "the member"}[kind] + f" {where[kind]}"


def token_in(text: str, where: Mapping[str, Any]) -> bytes:
    """The secret as it was given; with `basic`, `user:password` of HTTP's Basic scheme counts too."""
    if where.get("basic") and text[:6].lower() == "basic ":
        return decoded(text[6:].strip(), "base64") or b""
    return text.removeprefix(where.get("prefix", "")).encode("latin-1", "replace")


def decoded(text: str, encoding: str) -> bytes | None:
    try:
        if encoding == "hex":
            return binascii.unhexlify(text)
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, UnicodeEncodeError):
        return None


def check_time(scheme: Mapping[str, Any], body: bytes, headers: Headers, extra: Mapping[str, str], now: float) -> None:
    """Raises Forged when the signed time, if the scheme has one, is too old, ahead of us, or no number.

    With `any_future` the provider's own library takes a time ahead of ours, so it is no reason to refuse."""
    rule = scheme.get("timestamp")
    if not rule:
        return
    if rule.get("optional") and rule["header"].lower() not in headers:
        return
    moment = moment_of(rule, body, headers, extra)
    if now - moment > rule["tolerance"]:
        raise Forged("stale", f"the delivery is {now - moment:.0f} s old; at most {rule['tolerance']} s are taken")
    if moment - now > FUTURE and not rule.get("any_future"):
        raise Forged("stale", f"the sender's clock is {moment - now:.0f} s ahead of ours")


def moment_of(rule: Mapping[str, Any], body: bytes, headers: Headers, extra: Mapping[str, str]) -> float:
    """Unix time in seconds. Raises Forged."""
    if "pair" in rule:
        text = extra.get(rule["pair"], "")
    elif "header" in rule:
        text = headers.get(rule["header"].lower(), "")
    elif "query" in rule:
        text = asked(headers, rule["query"])
    else:
        found = at(json_of(body), rule["json"])
        text = str(found) if isinstance(found, int | str) else ""
    if rule.get("unit") == "rfc3339":
        return instant(text)
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_TIME):
        raise Forged("stale", "the timestamp is missing or no whole number")
    moment = int(text) / (1000 if rule.get("unit") == "ms" else 1)
    if rule.get("unit") == "any" and moment > LAST_SECOND:
        moment /= 1000
    if moment > LAST_SECOND:
        raise Forged("stale", "the timestamp looks like milliseconds; this scheme sends seconds")
    return moment


def instant(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Forged("stale", "the timestamp is missing or no time") from None
    if moment.tzinfo is None:
        raise Forged("stale", "the timestamp names no zone")
    return moment.timestamp()


def fitting_text(
    scheme: Mapping[str, Any], body: bytes, headers: Headers, extra: Mapping[str, str], secret: bytes, given: bytes
) -> bytes | None:
    """What the signature is over, empty for a token; None when it does not fit. Compares in constant time, bytes with
    bytes."""
    kind = scheme["scheme"]
    if kind == "token":
        return b"" if hmac.compare_digest(given, secret) else None
    key = key_bytes(scheme["key"], secret) if "key" in scheme else secret
    if key is None:
        return None
    for address in addresses(scheme, headers):
        text = signed_bytes(scheme.get("signed", "{body}"), body, headers, extra, key, address)
        if text is None:
            continue
        if kind == "ed25519":
            fitting = fits_ed25519(key, given, text)
        elif kind == "ecdsa":
            fitting = fits_p256(key, given, text)
        elif kind == "hash":
            fitting = hmac.compare_digest(given, hashlib.new(scheme["digest"], text).digest())
        else:
            fitting = hmac.compare_digest(given, hmac.digest(key, text, scheme["digest"]))
        if fitting:
            return text
    return None
