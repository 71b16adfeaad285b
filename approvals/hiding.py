"""Credentials inside arguments: people see that something is hidden, only the delivery knows what.

The frozen text holds `hidden:` and a keyed hash in place of a value, so equal wishes stay equal and the digest still
binds it; the values are kept encrypted beside it, by their place. What is revealed is put back at that very place
only, so nobody can have a secret sent elsewhere by writing its mark into a text.
"""

import copy
import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.conf import settings

from approvals.errors import NotValid, Refused

Place = list[str | int]
NAMES = re.compile(
    r"authorization|authentication|cookie|token|secret|passw|passphrase|passcode|pwd|jwt|bearer|csrf|xsrf|api[-_]?key"
    r"|access[-_]?key|private[-_]?key|connection[-_]?string|signature"
    r"|credential|session|^x-auth|^(?:key|auth|sig|pin|pass|otp|creds?|dsn)$",
    re.IGNORECASE,
)
MARK = "hidden:"
MARKED = re.compile(rf"{MARK}[0-9a-f]{{16}}")


def mark(value: str) -> str:
    """What stands in place of a secret: the same for the same secret, and it tells nothing of it. A mark stays itself,
    so that arguments as they are stored read like those that were given."""
    if MARKED.fullmatch(value):
        return value
    key = hashlib.sha256(b"hidden:" + settings.SECRET_KEY.encode()).digest()
    return MARK + hmac.new(key, value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:16]


def hide(arguments: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[Place, str]]]:
    """The arguments as they are shown, and `[(place, value)]` of what was taken out."""
    kept: list[tuple[Place, str]] = []
    return {name: covered(name, value, [name], kept) for name, value in arguments.items()}, kept


def covered(name: str, value: Any, place: Place, kept: list[tuple[Place, str]]) -> Any:
    if isinstance(value, dict):
        return {inner: covered(inner, part, [*place, inner], kept) for inner, part in value.items()}
    if isinstance(value, list):
        return [covered(name, part, [*place, index], kept) for index, part in enumerate(value)]
    shown = cover(name, value) if isinstance(value, str) and value else value
    if shown != value:
        kept.append((place, value))
    return shown


def cover(name: str, value: str) -> str:
    if name == "url":
        return cover_query(value)
    return mark(value) if NAMES.search(name) else value


def cover_query(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url  # a member that is only called so
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    if not any(NAMES.search(name) and value for name, value in pairs):
        return url
    shown = [(name, mark(value) if NAMES.search(name) and value else value) for name, value in pairs]
    return urlunsplit(parts._replace(query=urlencode(shown, safe=":")))


def reveal(arguments: dict[str, Any], kept: list[tuple[Place, str]]) -> dict[str, Any]:
    """The arguments as they are sent. Raises Refused when what is kept is not what the shown mark stands for."""
    for place, value in kept:
        *way, last = place
        inner: Any = arguments
        for part in way:
            inner = inner[part]
        if cover(name_at(place), value) != inner[last]:
            raise Refused("a hidden value is not the one that was approved")
        inner[last] = value
    return arguments


# What a reviewer edited


def restore(edited: dict[str, Any], shown: dict[str, Any], kept: list[tuple[Place, str]]) -> dict[str, Any]:
    """The edited arguments with what is still marked in them put back, each value at its own place only.

    Raises NotValid when a mark was moved, or when what is hidden would go to another address than it was given for."""
    arguments = copy.deepcopy(edited)
    marks = set(MARKED.findall(json.dumps(shown)))
    survived = [put_back(arguments, place, value) for place, value in kept]
    for place, text in texts(arguments, []):
        if any(each in text for each in marks):
            raise NotValid("A hidden value stays where it is or is written anew; it cannot be moved.", field=place)
    if any(survived) and origin(arguments.get("url")) != origin(shown.get("url")):
        raise NotValid("Hidden values cannot go to another address; write them anew as well.", field="url")
    return arguments


def put_back(arguments: dict[str, Any], place: Place, value: str) -> bool:
    """Whether the value still stood at its place, and is there again."""
    *way, last = place
    inner: Any = arguments
    with suppress(LookupError, TypeError):
        for part in way:
            inner = inner[part]
        now = inner[last]
        whole = value if now == cover(name_at(place), value) else uncover_query(now, value) if last == "url" else now
        inner[last] = whole
        return bool(whole != now)
    return False


def name_at(place: Place) -> str:
    return next(part for part in reversed(place) if isinstance(part, str))


def uncover_query(edited: Any, url: str) -> Any:
    """An address that was edited around the hidden parameters of `url`, which come back on the same host."""
    if not isinstance(edited, str) or origin(edited) != origin(url):
        return edited
    parts = urlsplit(edited)
    values = {(name, mark(value)): value for name, value in parse_qsl(urlsplit(url).query) if NAMES.search(name)}
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    if not any(pair in values for pair in pairs):
        return edited
    query = urlencode([(name, values.get((name, value), value)) for name, value in pairs])
    return urlunsplit(parts._replace(query=query))


def origin(url: Any) -> tuple[str, str]:
    """Scheme and host with its port: where a call goes."""
    with suppress(ValueError):
        parts = urlsplit(url if isinstance(url, str) else "")
        return parts.scheme, parts.netloc.lower()
    return "", ""


def texts(value: Any, place: Place) -> Iterator[tuple[str, str]]:
    """Every text in `value`, the names of members too, with the place it stands at."""
    if isinstance(value, str):
        yield ".".join(str(part) for part in place), value
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in members:
        yield from texts(name, place) if isinstance(name, str) else ()
        yield from texts(part, [*place, name])
