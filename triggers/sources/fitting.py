"""Which scheme fits one real request and its secret: every provider of the catalogue, then the usual ways to sign.

For somebody who has a delivery and a secret, and no page that says how it is signed. Its age does not matter. Pure."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from triggers.errors import NotValid
from triggers.sources.custom import parse_custom
from triggers.sources.forged import Forged
from triggers.sources.places import Headers
from triggers.sources.verify import catalogue, verify

MARK = re.compile(r"(?P<prefix>[A-Za-z0-9-]{1,20}[=,:] ?)?[A-Za-z0-9+/=_-]{20,200}")
PAIRS = re.compile(r"t=\d{9,11},(?P<pair>[a-z0-9]{1,8})=[A-Za-z0-9+/=]{20,200}")
TIME = re.compile(r"\d{9,14}")
ALGORITHMS = ("hmac-sha256", "hmac-sha1", "hmac-sha512")
TIMED = ("{%s}.{body}", "{%s}{body}", "{%s}:{body}", "v0:{%s}:{body}")
MOST = 60  # headers that are looked at
MOST_TIMES = 4  # of them that may be the time: each is tried with every other


def fitting(headers: Headers, body: bytes, secret: str, url: str = "") -> list[dict[str, Any]]:
    """`[{provider, config}]` of what fits, the catalogue's first; a description only where nothing of it does."""
    known = [{"provider": name, "config": {}} for name in catalogue() if is_signed_by(name, headers, body, secret, url)]
    if known:
        return known
    tried = (config for config in descriptions(headers) if fits(config, headers, body, secret))
    return [{"provider": "custom", "config": config} for config in islice(tried, 5)]


def is_signed_by(name: str, headers: Headers, body: bytes, secret: str, url: str) -> bool:
    scheme = catalogue()[name]
    if scheme["scheme"] in ("none", "sns"):
        return False
    without_age = {key: value for key, value in scheme.items() if key != "timestamp"} | ({"url": url} if url else {})
    if "also" in without_age:
        also = [{key: value for key, value in other.items() if key != "timestamp"} for other in without_age["also"]]
        without_age |= {"also": also}
    return is_proved(without_age, headers, body, secret)


def is_proved(scheme: Mapping[str, Any], headers: Headers, body: bytes, secret: str) -> bool:
    try:
        return not verify(scheme, body, headers, [secret.encode()], now=0).greets
    except Forged:
        return False


def fits(config: Mapping[str, Any], headers: Headers, body: bytes, secret: str) -> bool:
    try:
        scheme = parse_custom(config).as_scheme()
    except NotValid:
        return False
    return is_proved({key: value for key, value in scheme.items() if key != "timestamp"}, headers, body, secret)


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
