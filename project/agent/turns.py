"""The conversation of a run: turns, each an answer of the model with what came of its calls. Pure.

A turn is `{response, results, say}`: `response` as the model's library writes it, `results` one `{id, tool, text}` for
each call in it, in order; `say` is what the model is told besides. Turns are kept and left out whole, so that no call
ever stands without its result."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from project.lib.redaction import without_secrets
from triggers.errors import Permanent

Turn = dict[str, Any]
LETTERS = 4  # of one token, about
LEFT_OUT = "(Earlier turns were left out here, calls and results alike.)"
QUOTED = 500  # characters of a call that was wrong


class Unpaired(Permanent):
    """A call without exactly one result would be sent: a fault of the desk, not of the model."""


class InvalidCalls(Permanent):
    """The model asked for something that is no call again and again; none of it was run."""


@dataclass(frozen=True)
class Call:
    """One call as the model wrote it: `arguments` is a text, an object, or nothing at all."""

    id: str
    tool: str
    arguments: Any

    @property
    def raw(self) -> str:
        """For people: cut, and without what looks like a secret."""
        text = self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments, ensure_ascii=False)
        return without_secrets(f"{self.tool}({text})")[:QUOTED]


def calls_in(response: dict[str, Any]) -> list[Call]:
    parts = [part for part in response["parts"] if part["part_kind"] == "tool-call"]
    return [Call(part["tool_call_id"], part["tool_name"], part["args"]) for part in parts]


def text_in(response: dict[str, Any]) -> str:
    return "".join(part["content"] for part in response["parts"] if part["part_kind"] == "text").strip()


def name_calls(response: dict[str, Any]) -> None:
    """Give calls that share an id, or have none, ids of their own: a result must be bound to one of them."""
    seen: set[str] = set()
    parts = (part for part in response["parts"] if part["part_kind"] == "tool-call")
    for number, part in enumerate(parts, 1):
        part["tool_call_id"] = next(name for name in names_for(part["tool_call_id"], number) if name not in seen)
        seen.add(part["tool_call_id"])


def names_for(given: str, number: int) -> Iterator[str]:
    """What the call of this number in its turn may be named, the best first, without end."""
    if given:
        yield given
    for count in itertools.count(number):
        yield f"{given or 'call'}-{count}"


def check_pairs(turns: list[Turn]) -> None:
    """Raises Unpaired unless every call has its one result, in order, in its own turn."""
    for turn in turns:
        calls = [call.id for call in calls_in(turn["response"])]
        if calls != [result["id"] for result in turn["results"]] or len(set(calls)) != len(calls):
            raise Unpaired(f"calls {calls} have the results {[result['id'] for result in turn['results']]}")
        if not calls and not turn["say"]:
            raise Unpaired("an answer without calls is followed by nothing")


def size(said: dict[str, Any]) -> int:
    """About how many tokens it is: a turn, or whatever else goes to a model or comes from it."""
    return len(json.dumps(said, ensure_ascii=False)) // LETTERS


def newest(turns: list[Turn], tokens: int) -> list[Turn]:
    """The turns that fit, the oldest left out; the last one always stays."""
    kept: list[Turn] = []
    for turn in reversed(turns):
        tokens -= size(turn)
        if kept and tokens < 0:
            break
        kept.append(turn)
    return kept[::-1]


class Faults:
    """Calls that could not be read: the model may mend them twice, and not by saying the same again."""

    MOST = 2

    def __init__(self) -> None:
        self.turns = 0
        self.last: list[tuple[str, Any]] = []

    def add(self, wrong: list[Call]) -> None:
        """What was wrong in one turn. Raises InvalidCalls at the third in a row, or at the same one twice in a row."""
        said = [(call.tool, call.arguments) for call in wrong]
        again = bool(said) and said == self.last
        self.turns = self.turns + 1 if said else 0
        self.last = said
        if again or self.turns > self.MOST:
            raise InvalidCalls(f"invalid tool call: {wrong[0].raw}")
