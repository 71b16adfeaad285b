"""The values by which a trigger counts apart: its CEL keys over one event. Asked before a transaction. Pure."""

import hashlib

import orjson

from project.lib.text import made_storable
from triggers.matching import CEL_ERRORS, Rule, program
from triggers.viewing import View

LONGEST = 200  # characters of one value; longer ones are known by their hash


def keys_of(rule: Rule, view: View) -> dict[str, str]:
    """The value of every key of `rule`; what cannot be evaluated counts with what has no key."""
    return {name: value_of(text, view) for name, text in rule.keys.items()}


def value_of(expression: str, view: View) -> str:
    try:
        value = program(expression).execute(view.context)
    except CEL_ERRORS:
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode() if value is not None else ""
    return made_storable(text) if len(text) <= LONGEST else hashlib.sha256(text.encode(errors="replace")).hexdigest()
