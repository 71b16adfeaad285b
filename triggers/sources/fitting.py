"""Which scheme fits one real request and its secret: every provider of the catalogue, then the usual ways to sign.

For somebody who has a delivery and a secret, and no page that says how it is signed. Its age does not matter. Pure."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from triggers.errors import NotValid
from triggers.sources.callbacks import sealed_in
from triggers.sources.custom import parse_custom
from triggers.sources.encrypted import opened_wechat
from triggers.sources.forged import Forged
from triggers.sources.places import Headers, asked, json_of
from triggers.sources.verify import catalogue, moment_of, signatures, verify

MARK = re.compile(r"(?P<prefix>[A-Za-z0-9-]{1,20}[=,:] ?)?[A-Za-z0-9+/=_-]{20,200}")
PAIRS = re.compile(r"t=(?:\d{9,10}|\d{13}),(?P<pair>[a-z0-9]{1,8})=[A-Za-z0-9+/=]{20,200}")
TIME = re.compile(r"\d{9,10}|\d{13}")  # seconds or milliseconds: another unit would be refused at the first delivery
ALGORITHMS = ("hmac-sha256", "hmac-sha1", "hmac-sha512")
TIMED = ("{%s}.{body}", "{%s}{body}", "{%s}:{body}", "v0:{%s}:{body}")
MOST = 60  # headers that are looked at
MOST_TIMES = 4  # of them that may be the time: each is tried with every other


def fitting(headers: Headers, body: bytes, secret: str, url: str = "") -> list[dict[str, Any]]:
    """`[{provider, config}]` of what fits, the catalogue's first, and of these who finds a type where it puts one; a
    description only where nothing of it does."""
    told = {name: said_in(name, headers, body, secret) for name in catalogue()}
    known = [name for name in catalogue() if is_signed_by(name, headers, body, secret, url, told[name])]
    if known:
        known.sort(key=lambda name: not says_its_type(name, headers, body))
        return [{"provider": name, "config": told[name]} for name in known]
    tried = (config for config in descriptions(headers) if fits(config, headers, body, secret))
    return [{"provider": "custom", "config": config} for config in islice(tried, 5)]


def says_its_type(name: str, headers: Headers, body: bytes) -> bool:
    """Or, where that is encrypted, whether it comes as this provider sends it."""
    if catalogue()[name].get("reads") == "xml":
        return body.lstrip().startswith(b"<")
    try:
        data = json_of(body)
    except Forged:
        data = None
    return bool(catalogue()[name].kind_of_event(headers, data))


def said_in(name: str, headers: Headers, body: bytes, secret: str) -> dict[str, Any]:
    """What a source of this provider must say beside its secret, as far as the request tells: for whom it is."""
    if catalogue()[name]["scheme"] != "wechat":
        return {}
    try:
        receiver = opened_wechat(asked(headers, "echostr") or sealed_in(body), secret.partition(":")[2])[1]
    except Forged:
        return {}
    return {"receiver": receiver.decode("utf-8", "replace")}


def is_signed_by(name: str, headers: Headers, body: bytes, secret: str, url: str, said: Mapping[str, Any]) -> bool:
    scheme = {**catalogue()[name], **said}
    if scheme["scheme"] in ("none", "sns"):
        return False
    without_age = {key: value for key, value in scheme.items() if key != "timestamp"} | ({"url": url} if url else {})
    if "also" in without_age:
        also = [{key: value for key, value in other.items() if key != "timestamp"} for other in without_age["also"]]
        without_age |= {"also": also}
    return is_proved(without_age, headers, body, secret)


def is_proved(scheme: Mapping[str, Any], headers: Headers, body: bytes, secret: str, *, now: float = 0) -> bool:
    try:
        return not verify(scheme, body, headers, [secret.encode()], now=now).greets
    except Forged:
        return False


def fits(config: Mapping[str, Any], headers: Headers, body: bytes, secret: str) -> bool:
    try:
        scheme = parse_custom(config).as_scheme()
        return is_proved(scheme, headers, body, secret, now=own_time(scheme, headers))
    except (NotValid, Forged):
        return False


def own_time(scheme: Mapping[str, Any], headers: Headers) -> float:
    """Unix time of the request by its own word: its age does not matter, that it can be read does."""
    if "timestamp" not in scheme:
        return 0
    _, extra = signatures(scheme, b"", headers)
    return moment_of(scheme["timestamp"], b"", headers, extra)


def descriptions(headers: Headers) -> Iterator[dict[str, Any]]:
    """Every way to read a header as the signature, under every digest, over the body alone or with a time."""
    names = [name for name in headers if not name.startswith(":")][:MOST]
    times = [name for name in names if TIME.fullmatch(headers[name].strip())][:MOST_TIMES]
    for name in names:
        text = headers[name].strip()
        if text.removeprefix("Bearer ") and len(text) >= 8:
            yield {"header": name, "algorithm": "token", "prefix": "Bearer " if text.startswith("Bearer ") else ""}
        for way in ways(text, times):
            for algorithm in ALGORITHMS:
                for encoding in ("hex", "base64"):
                    yield {"header": name, "algorithm": algorithm, "encoding": encoding, **way}


def ways(text: str, times: list[str]) -> Iterator[dict[str, Any]]:
    if paired := PAIRS.fullmatch(text):
        for template in TIMED:
            timed = {"timestamp": "{sig.t}", "tolerance": 300}
            yield {"prefix": f"{paired['pair']}=", "template": template % "sig.t", **timed}
    elif found := MARK.fullmatch(text):
        yield {"prefix": found["prefix"] or ""}
        for time in times:
            for template in TIMED:
                timed = {"timestamp": f"{{h:{time}}}", "tolerance": 300}
                yield {"prefix": found["prefix"] or "", "template": template % f"h:{time}", **timed}
