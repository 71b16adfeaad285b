"""A JSON text as a tree of <details>, drawn on the server: exact numbers, odd characters shown, bounded size."""

import json
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from project.lib.visible import visible

MOST_NODES = 2000  # drawn; the raw text stays one click away
MOST_TEXT = 20_000  # characters of one string
DEPTH = 64  # deeper values are shown as one line of text
OPEN_BELOW = 2  # levels that start open
NOTHING = mark_safe("")


class Exact(str):
    """A number as it was written, so 9007199254740993 and 1.10 arrive unchanged."""

    __slots__ = ()


@dataclass
class Budget:
    left: int = MOST_NODES

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


def parsed(text: str) -> Any:
    """The value of a JSON text with numbers kept as written. Raises ValueError when it is none."""
    return json.loads(text, parse_int=Exact, parse_float=Exact, parse_constant=Exact)


def tree(value: Any) -> SafeString:
    """The tree of a JSON text, or of a Python value; a text that is not JSON is shown as it is."""
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, default=str)
    try:
        root = parsed(value)
    except (ValueError, RecursionError):
        return format_html('<span class="s">{}</span>', visible(value[:MOST_TEXT]))
    budget = Budget()
    drawn = format_html("<ul>{}</ul>", branch("", root, 0, budget)) if compound(root) else leaf(root)
    if budget.left >= 0:
        return drawn
    return format_html(
        '{}<p class="c">Only the first {} values are drawn. The raw text has all.</p>', drawn, MOST_NODES
    )


def compound(value: Any) -> bool:
    return isinstance(value, (dict, list)) and bool(value)


def branch(name: str, value: Any, depth: int, budget: Budget) -> SafeString:
    """One member: a line for a leaf, a <details> for an object or a list."""
    if not budget.take():
        return NOTHING
    if not compound(value):
        return format_html('<li class="leaf" data-name="{}">{}{}</li>', name, label(name), leaf(value))
    if depth >= DEPTH:
        text = json.dumps(value, ensure_ascii=False, default=str)[:MOST_TEXT]
        return format_html(
            '<li class="leaf" data-name="{}">{}<span class="c">{}</span></li>', name, label(name), visible(text)
        )
    members = value.items() if isinstance(value, dict) else ((str(at), each) for at, each in enumerate(value))
    inner = format_html_join(
        "", "{}", ((branch(key, each, depth + 1, budget),) for key, each in within(members, budget))
    )
    return format_html(
        '<li data-name="{}"><details{}><summary>{}<span class="c">{}</span></summary><ul>{}</ul></details></li>',
        name,
        mark_safe(" open") if depth < OPEN_BELOW else NOTHING,
        label(name),
        size(value),
        inner,
    )


def within(members: Any, budget: Budget) -> Any:
    """The members while there is budget, so that a list of a million is not walked for nothing."""
    for member in members:
        if budget.left < 0:
            return
        yield member


def label(name: str) -> SafeString:
    return format_html('<span class="k">{}</span>: ', visible(name)) if name else NOTHING


def size(value: Any) -> str:
    count, word = len(value), "key" if isinstance(value, dict) else "item"
    text = f"{count:,} {word}{'' if count == 1 else 's'}"
    return f"{{{text}}}" if isinstance(value, dict) else f"[{text}]"


def leaf(value: Any) -> SafeString:
    if isinstance(value, Exact):
        return format_html('<span class="n">{}</span>', value)
    if isinstance(value, str):
        more = f"… {len(value) - MOST_TEXT:,} more characters" if len(value) > MOST_TEXT else ""
        return format_html('<span class="s">"{}"</span><span class="c">{}</span>', visible(value[:MOST_TEXT]), more)
    if value is None or isinstance(value, bool):
        return format_html('<span class="l">{}</span>', json.dumps(value))
    return format_html('<span class="c">{}</span>', "{}" if isinstance(value, dict) else "[]")
