"""What a handler found for and against what it wants, as people read it. Pure."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Evidence:
    """One check of the handler: `tone` is ok (speaks for it), fail (against) or retry (unknown)."""

    text: str
    tone: str
    url: str


def in_order(items: Iterable[Any]) -> list[Evidence]:
    """All of it, what speaks against it first."""
    return sorted(map(read, items), key=lambda item: ("fail", "retry", "ok").index(item.tone))


def read(item: Any) -> Evidence:
    """One entry as handlers give it: `{text, for: true|false|null, url?}`; anything else is shown as it is."""
    if not isinstance(item, dict):
        return Evidence(str(item), "retry", "")
    given = item.get("for")
    tone = "ok" if given is True else "fail" if given is False else "retry"
    url = str(item.get("url") or "")
    text = str(item.get("text") or json.dumps(item, ensure_ascii=False))
    return Evidence(text, tone, url if url.startswith(("https://", "http://")) else "")
