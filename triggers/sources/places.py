"""Where something stands in a delivery: in a header, in the query, in the body. Pure.

What stands in the query travels with the headers under a name that no header can have, so that whatever keeps the
headers of a delivery for a second look keeps it too."""

import hashlib
import json
from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

import orjson

from triggers.sources.forged import Forged

Headers = Mapping[str, str]  # names in lower case; values as latin-1 text, as they came
QUERY = ":query"  # as it stood in the address
FIELDS = 1000  # of a query or a form


def headers_in(pairs: Iterable[tuple[bytes, bytes]], query: bytes = b"") -> dict[str, str]:
    """By lower-case name; what was sent under one name twice is joined by a comma, so that no half of it is believed
    alone."""
    headers: dict[str, str] = {}
    doubled: dict[str, list[str]] = {}  # joined once: thousands of one name are no thousand copies
    for name, value in pairs:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        if key in headers:
            doubled.setdefault(key, [headers[key]]).append(text)
        else:
            headers[key] = text
    for key, texts in doubled.items():
        headers[key] = ",".join(texts)
    if query:
        headers[QUERY] = query.decode("latin-1")
    return headers


@lru_cache(maxsize=200)
def read_query(text: str) -> dict[str, str]:
    """The parameters by name; of one that stands twice the first. Empty when it cannot be read."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError:
        return {}
    return dict(reversed(pairs))


def asked(headers: Headers, names: str) -> str:
    """The parameter of the query by the first of `names`, written `a|b`, that is there; else empty."""
    text = headers.get(QUERY)
    found = read_query(text) if text else {}
    return next((found[name] for name in names.split("|") if name in found), "")


def json_of(body: bytes) -> Any:
    """A body in which the proof itself stands, before it is believed. Raises Forged."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Forged("no_signature", "the body should hold the signature, and it is no JSON") from None


def at(value: Any, path: str) -> Any:
    """`at(data, "event.type")`; None where the path ends early. A number is a place in a list."""
    for name in path.split("."):
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdigit():
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return None
    return value


def every(data: Any, path: str) -> list[str]:
    """All that stands at `path`, also in the items of lists on the way; sorted, since senders do not keep their order.

    `every(data, "alerts.startsAt")`."""
    values = [data]
    for name in path.split("."):
        inside = [item for value in values for item in (value if isinstance(value, list) else [value])]
        values = [item[name] for item in inside if isinstance(item, dict) and name in item]
    return sorted(str(value) for value in values)


Rule = Mapping[str, Any] | list[Mapping[str, Any]]
Place = Callable[[Headers, Any], str]  # of the headers and the data


def place_of(rule: Rule | None) -> Place:
    """How to read what the rule's place holds; of several rules, what the first one finds; else empty.

    The places: `header`; `json`, a path; `hash`, one text for what stands at all its paths; `join`, what stands at all
    of them, none empty, each a path or a place of its own; `whole`, one text for the body; `first_key_except`, the name
    of the body's first member; `mentions`, whoever of those at this path the text `in` speaks to, of bodies as `when`
    says. Then `suffix`, a path, and `prefix`, a text, are added, and `named` stands for whatever
    was found."""
    if not rule:
        return lambda headers, data: ""
    if isinstance(rule, list):
        places = [place_of(one) for one in rule]
        return lambda headers, data: next((found for place in places if (found := place(headers, data))), "")
    text, suffix, prefix, named = text_in(rule), rule.get("suffix"), rule.get("prefix", ""), rule.get("named")
    if not suffix and not prefix and named is None:
        return text

    def told(headers: Headers, data: Any) -> str:
        found = text(headers, data)
        if not found:
            return ""
        if suffix and isinstance(more := at(data, suffix), str) and more:
            found = f"{found}.{more}"
        return prefix + found if named is None else str(named)

    return told


def text_in(rule: Mapping[str, Any]) -> Place:
    if "header" in rule:
        header = rule["header"].lower()
        return lambda headers, data: headers.get(header, "")
    if "json" in rule:
        path, takes_any = rule["json"], "named" in rule
        return lambda headers, data: "{}" if takes_any and isinstance(at(data, path), dict) else scalar_at(data, path)
    if "join" in rule:
        parts = [text_in({"json": part} if isinstance(part, str) else part) for part in rule["join"]]
        return lambda headers, data: joined([part(headers, data) for part in parts])
    if "mentions" in rule:
        return lambda headers, data: spoken_to(data, rule) if is_met(rule["when"], headers, data) else ""
    if "first_key_except" in rule:
        return lambda headers, data: first_key(data, rule["first_key_except"])
    if "whole" in rule:
        return lambda headers, data: digest_of(data)
    return lambda headers, data: digest_of(found) if any(found := [every(data, path) for path in rule["hash"]]) else ""


def joined(parts: list[str]) -> str:
    return " ".join(parts) if all(parts) else ""


def spoken_to(data: Any, rule: Mapping[str, Any]) -> str:
    """The first whom the text mentions, as Slack writes it: `<@U1>`, `<@U1|name>`."""
    text = scalar_at(data, rule["in"])
    return next((one for one in every(data, rule["mentions"]) if f"<@{one}>" in text or f"<@{one}|" in text), "")


def first_key(data: Any, but: Container[str]) -> str:
    return next((name for name in data if name not in but), "") if isinstance(data, dict) else ""


def digest_of(value: Any) -> str:
    """The same for equal values, in whatever order their members stand."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def first_of(paths: str | list[str], data: Any) -> str:
    """The first text or number that stands at one of the paths."""
    if isinstance(paths, str):
        return scalar_at(data, paths)
    return next((text for path in paths if (text := scalar_at(data, path))), "")


def scalar_at(data: Any, path: str) -> str:
    """The text or number that stands at `path`; empty for anything else."""
    value = at(data, path)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def is_met(rule: Mapping[str, Any], headers: Headers, data: Any) -> bool:
    """Whether a place (`header`, `json`, `query`) holds what `equals` says, or without it anything; and nothing
    stands at the path `unless`."""
    if "unless" in rule and at(data, rule["unless"]) is not None:
        return False
    if "header" in rule:
        value: Any = headers.get(rule["header"].lower())
    else:
        value = asked(headers, rule["query"]) if "query" in rule else at(data, rule["json"])
    return bool(value == rule["equals"] if "equals" in rule else value not in (None, ""))
