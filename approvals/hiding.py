"""Credentials inside arguments: people see that something is hidden, only the delivery knows what.

The frozen text holds `hidden:` and a keyed hash in place of a value, so equal wishes stay equal and the digest still
binds it; the values are kept encrypted beside it, by their place. What is revealed is put back at that very place
only, so nobody can have a secret sent elsewhere by writing its mark into a text.
"""

import hashlib
import hmac
import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.conf import settings

from approvals.errors import Refused

Place = list[str | int]
NAMES = re.compile(
    r"authorization|cookie|token|secret|passw|passphrase|api[-_]?key|access[-_]?key|private[-_]?key|signature"
    r"|credential|session|^x-auth|^(?:key|auth|sig|pin)$",
    re.IGNORECASE,
)
MARK = "hidden:"


def mark(value: str) -> str:
    """What stands in place of a secret: the same for the same secret, and it tells nothing of it."""
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
        if cover(next(part for part in reversed(place) if isinstance(part, str)), value) != inner[last]:
            raise Refused("a hidden value is not the one that was approved")
        inner[last] = value
    return arguments
