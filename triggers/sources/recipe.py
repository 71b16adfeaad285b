"""The first call of a source, as lines for a shell: signed by `openssl`, sent by `curl`. Pure.

What the catalogue or the source itself says of its sender is all that is known here, so what a shell cannot do (keys of
the provider's, envelopes) has no lines."""

import json
import re
from collections.abc import Mapping
from typing import Any

from triggers.sources.scheme import Scheme
from triggers.sources.signed_text import PART

NOW = "@now@"  # in a body: Unix seconds, which are an id too
MILLISECONDS = "@ms@"
DATE = "@date@"
TYPED = {NOW: "'$NOW'", MILLISECONDS: "'$NOW'000", DATE: "'$(date -u +%FT%TZ)'"}  # between single quotes
WORD = "hello"
SHELL = ("none", "token", "hmac", "hash")  # schemes a shell can do
EVENT = f'{{"specversion":"1.0","id":"{NOW}","source":"/try","type":"{WORD}","data":{{"{WORD}":"world"}}}}'
APOSTROPHE = "'\\''"  # between single quotes
SPECIAL = re.compile(r'(["\\$`])')


def recipe_of(scheme: Scheme, address: str, provider: str) -> str:
    """Lines to type; empty where a shell cannot sign."""
    if not is_typed(scheme):
        return ""
    body = EVENT if provider == "cloudevents" else json.dumps(body_of(scheme, provider), separators=(",", ":"))
    body = body.replace("'", APOSTROPHE)
    for mark, shell in TYPED.items():
        body = body.replace(mark, shell)
    lines = ["NOW=$(date +%s)", f"BODY='{body}'"]
    if scheme["scheme"] != "none":
        lines.insert(0, "SECRET='paste the secret here'")
    if scheme["scheme"] in ("hmac", "hash"):
        lines.append(f"SIGNATURE=$({signing(scheme, address)})")
    query = scheme.get("signature", {}).get("query")
    where = f'"{typed(address)}?{query}=$SECRET"' if query else f'"{typed(address)}"'
    told = " \\\n".join(f'  -H "{typed(name)}: {value}"' for name, value in headers_of(scheme, provider).items())
    return "\n".join([*lines, f"curl -X POST {where} \\", f"{told} \\", '  -d "$BODY"'])


def is_typed(scheme: Scheme) -> bool:
    signed = scheme.get("signed", "")
    inside = "json" in scheme.get("signature", {}) or "{json:" in signed or "{form}" in signed
    return scheme["scheme"] in SHELL and not inside


def first(rule: Any) -> Mapping[str, Any]:
    """Of several places the first."""
    found: Mapping[str, Any] = rule[0] if isinstance(rule, list) else rule or {}
    return found


def body_of(scheme: Scheme, provider: str) -> Any:
    """The least that has a type and an id where this sender puts them."""
    if provider == "generic":
        return {"event_type": WORD, "event_id": NOW, "timestamp": DATE, "data": {WORD: "world"}}
    body: dict[str, Any] = {}
    kind, number, time = first(scheme.get("event_type")), first(scheme.get("delivery_id")), scheme.get("timestamp", {})
    places = {kind.get("json"): WORD, kind.get("suffix"): "opened", number.get("json"): NOW, scheme.get("time"): DATE}
    parts = [part for part in [*number.get("hash", []), *number.get("join", [])] if isinstance(part, str)]
    places |= {part: NOW for part in parts[:2] if part not in places}
    places[time.get("json")] = MILLISECONDS if time.get("unit") == "ms" else NOW
    for path, value in places.items():
        if path:
            put(body, path, value)
    for name, value in ((WORD, "world"), ("tried", NOW)):  # where no id counts, the same body would be a repeat
        body.setdefault(name, value)
    return [body] if "batch" in scheme else body


def put(body: Any, path: str, value: str) -> None:
    """Where another place lies on the way or inside, that one keeps its value: no body has both."""
    *outer, name = path.split(".")
    for part in outer:
        body = body.setdefault(part, {})
        if not isinstance(body, dict):
            return
    body.setdefault(name, value)


def headers_of(scheme: Scheme, provider: str) -> dict[str, str]:
    """Each header as it stands between double quotes."""
    where, time = scheme.get("signature", {}), scheme.get("timestamp", {})
    named = [part[2:].strip() for part in PART.findall(scheme.get("signed", "")) if part.startswith("h:")]
    kind, number = first(scheme.get("event_type")), first(scheme.get("delivery_id"))
    headers = {"Content-Type": f"application/{'cloudevents+' if provider == 'cloudevents' else ''}json"}
    headers |= {name: value_in(name, scheme) for name in [*named, kind.get("header"), number.get("header")] if name}
    if "header" in time:
        headers[time["header"]] = value_in(time["header"], scheme)
    if "header" in where:
        proof = "$SECRET" if scheme["scheme"] == "token" else "$SIGNATURE"
        before = typed(where.get("prefix", ""))
        if "pair" in where:
            parts = [part[4:] for part in PART.findall(scheme["signed"]) if part.startswith("sig.")]
            before = "".join(f"{part}=$NOW," for part in parts) + f"{where['pair']}="
        headers[where["header"]] = before + proof
    return headers


def value_in(header: str, scheme: Scheme) -> str:
    """What stands in a header that is not the signature: the time, an id, or a word."""
    time, name = scheme.get("timestamp", {}), header.lower()
    if time.get("header", "").lower() == name:
        return "${NOW}000" if time.get("unit") == "ms" else "$NOW"
    number = first(scheme.get("delivery_id")).get("header", "").lower()
    return "$NOW" if name == number else WORD


def signing(scheme: Scheme, address: str) -> str:
    """The commands that print the signature."""
    digest = f"openssl dgst -{scheme['digest']}"
    if scheme["scheme"] == "hmac":
        digest += f" {key_of(scheme.get('key', {}))}"
    written = (
        " -binary | openssl base64 -A" if scheme["signature"].get("encoding") == "base64" else " -r | cut -d' ' -f1"
    )
    return f'printf %s "{text_of(scheme, address)}" | {digest}{written}'


def key_of(rule: Mapping[str, Any]) -> str:
    if rule.get("encoding") != "base64":
        return '-hmac "$SECRET"'
    bare = f"${{SECRET#{rule.get('prefix', '')}}}"
    return f'-mac HMAC -macopt hexkey:$(printf %s "{bare}" | openssl base64 -d -A | od -An -v -tx1 | tr -d " \\n")'


def text_of(scheme: Scheme, address: str) -> str:
    """What is signed, between double quotes."""
    filled = {"body": "${BODY}", "secret": "${SECRET}", "url": typed(str(scheme.get("url") or address))}
    out = []
    for index, part in enumerate(PART.split(scheme["signed"])):
        if index % 2 == 0:
            out.append(typed(part))
        elif part.startswith("h:"):
            out.append(value_in(part[2:].strip(), scheme).replace("$NOW", "${NOW}"))
        else:
            out.append(filled.get(part, "${NOW}"))
    return "".join(out)


def typed(text: str) -> str:
    """As it stands between double quotes; a `!` there would be of the shell's history."""
    return SPECIAL.sub(r"\\\1", text).replace("!", "\"'!'\"")
