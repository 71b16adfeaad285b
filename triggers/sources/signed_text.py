"""What was signed, and under which key: the parts of a scheme's template filled in from the bytes that came. Pure."""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from triggers.sources.places import FIELDS, QUERY, Headers, asked, at, json_of

PART = re.compile(r"\{(body|url|form|h:[^}]+|json:[^}]+|sig\.[a-z0-9]+|secret)\}")
FORM = "application/x-www-form-urlencoded"
ADDRESS = re.compile(r"(?P<scheme>https?)://(?P<host>[^/:?#]+|\[[^\]]+\])(?P<port>:\d+)?(?P<rest>.*)", re.DOTALL)
USUAL = {"https": ":443", "http": ":80"}


def digest_of(text: bytes) -> str:
    """What a signature is over, told by its digest: the same wherever its parts are cut."""
    return hashlib.sha256(text).hexdigest()


def addresses(scheme: Mapping[str, Any], headers: Headers) -> Sequence[str]:
    """The ways in which the sender may have written our address; one empty text where it is not signed."""
    address = scheme.get("url", "")
    if not address:
        return ("",)
    query = headers.get(QUERY, "")
    found = ADDRESS.fullmatch(f"{address}?{query}" if query else address)
    if found is None:
        return (address,)
    bare = f"{found['scheme']}://{found['host']}"
    ports = dict.fromkeys((found["port"] or "", "", USUAL[found["scheme"]]))
    return [f"{bare}{port}{found['rest']}" for port in ports]


def key_bytes(rule: Mapping[str, Any], secret: bytes) -> bytes | None:
    """The bytes of the key: some schemes cut a prefix and decode base64, others take the text as it is.

    With `only` the prefix tells what kind of key it is; a secret without it is none of these: a public key must never
    be taken for the key of an HMAC, since everybody knows it."""
    prefix = rule.get("prefix", "").encode()
    if rule.get("only") and not secret.startswith(prefix):
        return None
    secret = secret.removeprefix(prefix)
    try:
        if rule.get("encoding") == "base64":
            return base64.b64decode(secret + b"=" * (-len(secret) % 4), validate=True)
        return binascii.unhexlify(secret.strip()) if rule.get("encoding") == "hex" else secret
    except ValueError:
        return None


def signed_bytes(
    template: str, body: bytes, headers: Headers, extra: Mapping[str, str], secret: bytes, url: str = ""
) -> bytes | None:
    """What was signed: the template with its parts filled in from the bytes that came; None when one cannot be."""
    if template == "{body}":
        return body
    out: list[bytes | None] = []
    for index, part in enumerate(PART.split(template)):
        if index % 2 == 0:
            out.append(part.encode())
        elif part in ("body", "secret", "url"):
            out.append({"body": body, "secret": secret, "url": url.encode()}[part])
        elif part == "form":
            out.append(form_text(body, headers))
        elif part.startswith("h:"):
            out.append(headers.get(part[2:].strip().lower(), "").encode("latin-1", "replace"))
        elif part.startswith("json:"):
            out.append(str(at(json_of(body), part[5:]) or "").encode("utf-8", "replace"))
        else:
            out.append(extra.get(part[4:], "").encode("latin-1", "replace"))
    return None if None in out else b"".join(filter(None, out))


def form_text(body: bytes, headers: Headers) -> bytes | None:
    """Twilio's text of a form: its names and values, each once, sorted. A body that is no form is signed by its digest
    in the query; where that is missing, nothing covers the body and None says so."""
    if digest := asked(headers, "bodySHA256"):
        return b"" if hmac.compare_digest(digest.lower().encode(), hashlib.sha256(body).hexdigest().encode()) else None
    if not body:
        return b""
    if not headers.get("content-type", "").lower().startswith(FORM):
        return None
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError:
        return None
    return "".join(name + value for name, value in sorted(set(pairs))).encode()
