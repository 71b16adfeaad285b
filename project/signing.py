"""Signs a sample as its provider would, by what the catalogue says, with the source's own secret.

Where the desk holds only a provider's public key, nobody but the provider can sign: `ring --make` makes a source that
trusts a key of this machine's instead, kept in DATA_DIR."""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from secrets import token_hex, token_urlsafe
from typing import Any
from urllib.parse import urlencode

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from triggers.models import Source
from triggers.sources.details import scheme_of
from triggers.sources.scheme import Scheme
from triggers.sources.sealed import seal_feishu, seal_wechat, signature_wechat
from triggers.sources.signed_text import key_bytes, signed_bytes
from triggers.sources.sns import canonical
from triggers.sources.verify import catalogue

TOPIC = "arn:aws:sns:eu-central-1:000000000000:rung-here"
RECEIVER = "ww42"
HEADERS = re.compile(r"\{h:([^{}]+)\}")
OWN_SCHEME = {"header": "X-Signature", "delivery_id": "{json:event_id}", "event_type": "{json:event_type}"}


class CannotSign(Exception):
    """Only the provider itself can sign for this source."""


@dataclass(frozen=True, slots=True)
class Signed:
    """What goes over the wire."""

    headers: dict[str, str]
    body: bytes
    query: str = ""


def made_secret(provider: str, folder: Path) -> tuple[str, dict[str, str]]:
    """A secret for a new source that this machine can sign for (empty where nobody signs), and what its config must
    say."""
    if provider == "custom":
        return token_urlsafe(32), dict(OWN_SCHEME)
    kind = catalogue()[provider]["scheme"]
    if shown := shown_key(kind, folder):
        return shown, {}
    if kind == "sns":
        return TOPIC, {"certificate": certificate_of(rsa(folder)).decode()}
    if kind == "wechat":
        key = base64.b64encode(hashlib.sha256(token_hex().encode()).digest()).decode().rstrip("=")
        return f"{token_hex(8)}:{key}", {"receiver": RECEIVER}
    if kind == "feishu":
        return f"{token_hex(8)}:{token_hex(16)}", {}
    if kind == "none":
        return "", {}
    if catalogue()[provider].get("key", {}).get("prefix") == "whsec_":
        return "whsec_" + base64.b64encode(token_hex(16).encode()).decode(), {}
    return token_urlsafe(32), {}


def signed(
    source: Source, headers: Mapping[str, str], body: bytes, folder: Path, now: float, *, base: str = ""
) -> Signed:
    """The delivery with what proves it; `base` is what the address of the desk begins with, where that is signed and
    the source does not say it. Raises CannotSign."""
    plain, scheme = Signed(dict(headers), body), scheme_of(source)
    if base and "url" in scheme and "url" not in source.config:
        scheme = Scheme(scheme | {"url": f"{base}/hooks/{source.slug}"})
    if scheme["scheme"] == "none":
        return plain
    secret = secret_of(source, scheme, folder)
    scheme = next((way for way in scheme.ways if way.takes(secret)), scheme)
    if scheme["scheme"] == "feishu":
        return signed_feishu(plain, secret, now)
    if scheme["scheme"] == "wechat" and ":" in secret:
        return signed_wechat(plain, scheme, secret, now)
    if scheme["scheme"] == "sns":
        return signed_sns(plain, scheme, secret, folder)
    if scheme["scheme"] == "wechat":
        return signed_in_place(plain, scheme | scheme["also"][0], secret, folder, now)  # that of its robots
    return signed_in_place(plain, scheme, secret, folder, now)


def secret_of(source: Source, scheme: Mapping[str, Any], folder: Path) -> str:
    """Where it trusts several public keys, that of this machine if it is among them. Raises CannotSign without any."""
    values = [str(secret["value"]) for secret in source.secrets]
    if not values:
        raise CannotSign("it has no secret yet; give it one first")
    ours = shown_key(scheme["scheme"], folder)
    return ours if ours in values else values[0]


def shown_key(kind: str, folder: Path) -> str:
    """This machine's public key as such a provider shows its own; empty where nobody shows one."""
    if kind == "ed25519":
        return ed25519(folder).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    if kind == "ecdsa":
        shown = p256(folder).public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(shown).decode()
    return ""


def signed_in_place(plain: Signed, scheme: Mapping[str, Any], secret: str, folder: Path, now: float) -> Signed:
    """A signature in one header, parameter or member."""
    where = scheme["signature"]
    if scheme["scheme"] == "token":
        if "query" in where:
            return replace(plain, query=urlencode({where["query"]: secret}))
        return replace(plain, headers=plain.headers | {where["header"]: where.get("prefix", "") + secret})
    rule = scheme.get("timestamp", {})
    moment = in_unit(rule, now)
    headers = {
        **needed(scheme, plain.headers),
        **plain.headers,
        **({rule["header"]: moment} if "header" in rule else {}),
    }
    extra = {rule["pair"]: moment} if "pair" in rule else {}
    key = key_bytes(scheme.get("key", {}), secret.encode()) or b""
    named = {name.lower(): value for name, value in headers.items()}
    text = signed_bytes(scheme["signed"], plain.body, named, extra, key, scheme.get("url", "")) or b""
    mark = marked(scheme, key, secret, text, folder)
    written = base64.b64encode(mark).decode() if where.get("encoding") == "base64" else mark.hex()
    if "json" in where:
        told = json.loads(plain.body)
        outer, _, name = where["json"].rpartition(".")
        told[outer][name] = written
        return replace(plain, headers=headers, body=json.dumps(told).encode())
    before = f"{where['pair']}=" if "pair" in where else where.get("prefix", "")
    before = f"{rule['pair']}={moment},{before}" if "pair" in rule else before
    return replace(plain, headers=headers | {where["header"]: before + written})


def needed(scheme: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """A word of its own in each header that a described scheme reads and the sample does not know of."""
    rules = [scheme[name] for name in ("delivery_id", "event_type") if isinstance(scheme.get(name), dict)]
    named = [*HEADERS.findall(scheme.get("signed", "")), *(rule["header"] for rule in rules if "header" in rule)]
    there = {name.lower() for name in given}
    return {name: token_hex(8) for name in named if name.lower() not in there}


def in_unit(rule: Mapping[str, Any], now: float) -> str:
    return str(int(now * 1000 if rule.get("unit") == "ms" else now))


def marked(scheme: Mapping[str, Any], key: bytes, secret: str, text: bytes, folder: Path) -> bytes:
    if scheme["scheme"] == "ed25519":
        refuse_other(secret, shown_key("ed25519", folder))
        return ed25519(folder).sign(text)
    if scheme["scheme"] == "ecdsa":
        refuse_other(secret, shown_key("ecdsa", folder))
        return p256(folder).sign(text, ECDSA(SHA256()))
    if scheme["scheme"] == "hash":
        return hashlib.new(scheme["digest"], text).digest()
    return hmac.digest(key, text, scheme["digest"])


def refuse_other(trusted: str, ours: str) -> None:
    if trusted != ours:
        raise CannotSign("it trusts the provider's own key; to try it here, add this one as a second secret: " + ours)


def signed_feishu(plain: Signed, secret: str, now: float) -> Signed:
    token, _, key = secret.partition(":")
    told = json.loads(plain.body)
    told["header"]["token"] = token
    if not key:
        return replace(plain, body=json.dumps(told).encode())  # the token inside is all that proves it
    raw = json.dumps({"encrypt": seal_feishu(json.dumps(told).encode(), key)}).encode()
    moment, nonce = str(int(now)), token_hex(8)
    mark = hashlib.sha256(f"{moment}{nonce}{key}".encode() + raw).hexdigest()
    names = {"X-Lark-Request-Timestamp": moment, "X-Lark-Request-Nonce": nonce, "X-Lark-Signature": mark}
    return Signed(plain.headers | names, raw)


def signed_wechat(plain: Signed, scheme: Mapping[str, Any], secret: str, now: float) -> Signed:
    token, _, key = secret.partition(":")
    sealed, nonce = seal_wechat(plain.body, key, scheme.get("receiver", "")), token_hex(8)
    moment = in_unit(scheme["timestamp"], now)
    told = {"signature": signature_wechat(token, moment, nonce, sealed), "timestamp": moment, "nonce": nonce}
    query = urlencode({scheme["query"][part].partition("|")[0]: value for part, value in told.items()})
    xml = f"<xml><Encrypt><![CDATA[{sealed}]]></Encrypt></xml>"
    raw = xml if scheme.get("reads") == "xml" else json.dumps({"encrypt": sealed})
    return Signed(plain.headers, raw.encode(), query)


def signed_sns(plain: Signed, scheme: Mapping[str, Any], topic: str, folder: Path) -> Signed:
    key = rsa(folder)
    if certificate_key(scheme) != key.public_key().public_numbers():
        raise CannotSign("only Amazon signs for it; ring --make makes one that trusts a key of this machine")
    told = json.loads(plain.body) | {"TopicArn": topic, "SignatureVersion": "2"}
    told["Signature"] = base64.b64encode(key.sign(canonical(told), PKCS1v15(), SHA256())).decode()
    return replace(plain, body=json.dumps(told).encode())


def certificate_key(scheme: Mapping[str, Any]) -> Any:
    pinned = scheme.get("certificate")
    if not pinned:
        return None
    return x509.load_pem_x509_certificate(pinned.encode()).public_key().public_numbers()  # type: ignore[union-attr]


def seed(folder: Path) -> bytes:
    """32 bytes of this machine's own, made once."""
    place = folder / "seed"
    if not place.exists():
        place.touch(mode=0o600)
        place.write_bytes(token_hex(16).encode())
    return place.read_bytes()


def ed25519(folder: Path) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"ed25519" + seed(folder)).digest())


def p256(folder: Path) -> EllipticCurvePrivateKey:
    number = int.from_bytes(hashlib.sha256(b"p256" + seed(folder)).digest(), "big")
    return derive_private_key(number >> 1, SECP256R1())


def rsa(folder: Path) -> RSAPrivateKey:
    place = folder / "sns.pem"
    if not place.exists():
        place.touch(mode=0o600)
        made = generate_private_key(65537, 2048)
        place.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return rsa_in(place.read_bytes())


@lru_cache(maxsize=4)
def rsa_in(pem: bytes) -> RSAPrivateKey:
    """Kept read: the library checks a key each time for longer than a signature takes."""
    key = load_pem_private_key(pem, None)
    assert isinstance(key, RSAPrivateKey)
    return key


def certificate_of(key: RSAPrivateKey) -> bytes:
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rung here")]), datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now).not_valid_after(now + timedelta(3650))
    return made.sign(key, SHA256()).public_bytes(Encoding.PEM)
