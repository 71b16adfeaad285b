"""JSON as people edit it: laid out in lines without touching a number, compared line by line. Pure."""

import difflib
import json
import re

from project.lib.text import is_storable

# A string that never ends is read to the end, once: whoever types has not written its last quote yet.
TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
OPENING, CLOSING = "[{", "]}"
MOST_LINES = 20_000  # of two texts that are compared
TONES = {"+": "add", "-": "del"}


def pretty(text: str) -> str:
    """The same JSON with two spaces of indent, numbers as they were written; a text that is no JSON as it is."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    parts: list[str] = []
    tokens, depth = tokens_of(text), 0
    for at, token in enumerate(tokens):
        if token in CLOSING:
            depth -= 1
            parts.append(token if tokens[at - 1] in OPENING else f"\n{'  ' * depth}{token}")
        elif token in OPENING:
            depth += 1
            parts.append(token if tokens[at + 1] in CLOSING else f"{token}\n{'  ' * depth}")
        elif token == ",":
            parts.append(f",\n{'  ' * depth}")
        else:
            parts.append(": " if token == ":" else token)
    return "".join(parts)


def tokens_of(text: str) -> list[str]:
    return [readable(token) if token[0] == '"' else token for token in TOKEN.findall(text)]


def readable(token: str) -> str:
    """A string with its letters instead of their escapes; one that no page can say is all escapes."""
    try:
        value = json.loads(token, strict=False)
    except ValueError:
        return token  # no string of JSON
    return json.dumps(value, ensure_ascii=not is_storable(value))


def is_same(before: str, after: str) -> bool:
    """Whether two texts differ in white space at most."""
    return tokens_of(pretty(before)) == tokens_of(pretty(after))


def difference(before: str, after: str) -> list[tuple[str, str]]:
    """How the lines of two JSON texts differ; none when they say the same."""
    return line_difference(pretty(before).splitlines(), pretty(after).splitlines(), around=3)


def line_difference(old: list[str], new: list[str], *, around: int) -> list[tuple[str, str]]:
    """Lines of a unified diff as (add | del | same, text), with `around` unchanged ones beside each that differs."""
    if len(old) + len(new) > MOST_LINES:
        return [] if old == new else [("same", " The two are too long to be compared here.")]
    told = list(difflib.unified_diff(old, new, lineterm="", n=around))[3:]  # without both names and the first place
    return [("same", " …") if line.startswith("@@") else (TONES.get(line[:1], "same"), line) for line in told]
