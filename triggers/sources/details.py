"""What a source says beyond its secret: our address as the sender knows it, for whom messages are encrypted, and so on.

Which of these a provider reads stands in the catalogue (`says`); they are saved as the source's `config`."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from django.conf import settings

from project.lib.crypto import Unreadable
from project.lib.language import phrase
from triggers.errors import NotValid
from triggers.matching import compile_filter
from triggers.models import Source
from triggers.sources import asymmetric, certificates
from triggers.sources.custom import custom_scheme
from triggers.sources.forged import Forged
from triggers.sources.scheme import Scheme
from triggers.sources.signed_text import ADDRESS, key_bytes
from triggers.sources.verify import catalogue

AES_KEY = re.compile(r"[A-Za-z0-9+/]{43}")
TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d+:[A-Za-z0-9_.-]+")
LONGEST = {"url": 2000, "receiver": 200, "reply": 600, "certificate": 20_000}  # characters


def scheme_of(source: Source) -> Scheme:
    """What the catalogue says of this source's provider, with what the source says itself. Raises Unreadable for a
    provider it does not know, or a scheme of one's own that makes no sense: such a row is of another version."""
    provider = source.provider or source.kind
    if provider == "custom":
        try:
            return custom_scheme(source.config)
        except NotValid as refused:
            raise Unreadable(phrase("What is saved of it makes no sense: {detail}", detail=refused.detail)) from refused
    scheme = catalogue().get(provider)
    if scheme is None:
        raise Unreadable(phrase("Nightdesk knows no provider `{name}`.", name=provider))
    if "says" not in scheme:
        return scheme
    return completed(provider, f"{settings.BASE_URL}/hooks/{source.slug}", tuple(sorted(source.config.items())))


@lru_cache(maxsize=1000)
def completed(provider: str, address: str, config: tuple[tuple[str, Any], ...]) -> Scheme:
    """Worked out once, since the door asks for each delivery."""
    scheme = catalogue()[provider]
    said = {name: value for name, value in config if name in scheme["says"]}
    return Scheme(scheme | ({"url": address} if "url" in scheme["says"] else {}) | said)


def checked_details(provider: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a source of a provider of the catalogue. Raises NotValid, naming the member."""
    known = catalogue()[provider].get("says", [])
    kept: dict[str, Any] = {}
    for name, value in config.items():
        if name not in known:
            told = f"there are: {', '.join(known)}" if known else "it has none"
            raise NotValid(f"{name}: no detail of a source of `{provider}`; {told}.", field=name)
        if not isinstance(value, str) or len(value) > LONGEST[name]:
            raise NotValid(f"{name}: a text of at most {LONGEST[name]} characters.", field=name)
        if value.strip():
            if name in CHECKS:
                CHECKS[name](value.strip())
            kept[name] = value.strip()
    return kept


def is_address(text: str) -> None:
    found = ADDRESS.fullmatch(text)
    if not found or any(sign in text for sign in "?# "):
        raise NotValid("url: the address as the sender has it, without `?`: https://…", field="url")


def is_certificate(text: str) -> None:
    try:
        certificates.key_of(text)
    except Forged:
        words = "certificate: a certificate of an RSA key in PEM, -----BEGIN CERTIFICATE-----…"
        raise NotValid(words, field="certificate") from None


CHECKS: dict[str, Callable[[str], None]] = {"url": is_address, "certificate": is_certificate}


def check_secret(provider: str, secret: str, *, field: str) -> None:
    """Whether the secret has the form this provider's secrets have. Raises NotValid, with what to paste."""
    scheme = catalogue().get(provider, Scheme())
    fits = SECRETS.get(scheme.get("scheme", ""))
    if fits is not None and not fits(scheme, secret):
        raise NotValid(f"This is not what {scheme['name'].partition(':')[0]} shows: {scheme['secret']}.", field=field)


def warning_of(source: Source) -> str:
    """What its proof does not prove, in a standing sentence; empty where who sends and what is sent both are."""
    if source.kind not in Source.DOORS:
        return ""
    scheme = way_of(source)
    if scheme["scheme"] == "none":
        return "Nobody signs: whoever knows the address can ring, with any content."
    if scheme["scheme"] == "token":
        return "The secret itself travels with each delivery: it proves who sends, not what is sent."
    if scheme["scheme"] == "feishu" and has_bare_token(source):
        return "Without an Encrypt Key only the token inside proves an event: who sends, not what is sent."
    if not scheme.covers_body:
        return "The signature covers a time and a word, not the body: it proves who sends, not what is sent."
    if not all(way.covers_body for way in scheme.ways):
        return "What its robots send is signed by the time alone: it proves who sends, not what is sent."
    if trusts_headers(source, scheme):
        return "Its own key reads a header that nobody signs: who saw a delivery can ring again with another one there."
    return ""


def trusts_headers(source: Source, scheme: Scheme) -> bool:
    """Whether what makes its deliveries the same rests on a header that is not in what is signed."""
    return bool(source.idempotency_key) and reads_unsigned(source.idempotency_key, scheme.get("signed", "").lower())


@lru_cache(maxsize=1000)
def reads_unsigned(expression: str, signed: str) -> bool:
    read = [path[1:] for path in compile_filter(expression)["paths"] if path[0] == "headers"]
    return any(not name or f"{{h:{name[0]}}}" not in signed for name in read)


def way_of(source: Source) -> Scheme:
    """The first way in which one of its secrets can prove a delivery; its provider's first one while it has none."""
    ways = scheme_of(source).ways
    with suppress(Unreadable):
        values = [secret["value"] for secret in source.secrets]
        return next((way for way in ways if any(map(way.takes, values))), ways[0])
    return ways[0]


def has_bare_token(source: Source) -> bool:
    """Whether one of its secrets is a Verification Token without an Encrypt Key: then nothing need be signed."""
    with suppress(Unreadable):
        return any(secret["value"].endswith(":") for secret in source.secrets)
    return False


def refuse_short_memory(provider: str, seconds: int) -> None:
    """A repeat must be known for as long as this provider sends again. Raises NotValid."""
    least = catalogue().get(provider, Scheme()).get("retries_for", 0)
    if seconds < least:
        name = catalogue()[provider]["name"].partition(":")[0]
        raise NotValid(
            f"{name} sends again for {least} seconds; a repeat is known at least that long.", field="dedupe_window"
        )


def says_who(kind: str, provider: str, config: Mapping[str, Any]) -> bool:
    """Whether deliveries say who did it; a scheme that makes no sense says nothing."""
    scheme = catalogue().get(provider, Scheme())
    if provider == "custom":
        with suppress(NotValid):
            scheme = custom_scheme(config)
    return kind == "email" or "actor" in scheme


def refuse_unnamed(kind: str, provider: str, config: Mapping[str, Any]) -> None:
    """The desk is told by its name only where deliveries say who did it. Raises NotValid."""
    if says_who(kind, provider, config):
        return
    if provider == "custom":
        raise NotValid("actor: say where a delivery tells who did it, as {json:user.login}.", field="actor")
    raise NotValid("actor: what comes from there does not say who did it.", field="actor")


def is_ed25519(scheme: Mapping[str, Any], secret: str) -> bool:
    raw = key_bytes(scheme["key"], secret.encode())
    return raw is not None and asymmetric.ed25519_key(raw) is not None


def is_p256(scheme: Mapping[str, Any], secret: str) -> bool:
    return asymmetric.p256_key(secret.encode()) is not None


def is_topic(scheme: Mapping[str, Any], secret: str) -> bool:
    return bool(TOPIC.fullmatch(secret.strip()))


def is_pair(scheme: Mapping[str, Any], secret: str) -> bool:
    """`token:key` of the WeChat family; a provider that also signs in another way has secrets of another form too."""
    token, colon, key = secret.partition(":")
    return bool(token and AES_KEY.fullmatch(key)) or (not colon and "also" in scheme)


SECRETS: dict[str, Callable[[Mapping[str, Any], str], bool]] = {
    "ed25519": is_ed25519,
    "ecdsa": is_p256,
    "sns": is_topic,
    "wechat": is_pair,
    "feishu": lambda scheme, secret: ":" in secret and not secret.startswith(":"),
}
