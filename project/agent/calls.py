"""The calls of one turn: read strictly, run side by side, each answered exactly once."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from approvals.errors import NotValid
from approvals.naming import known_by_content
from project.agent import tools
from project.agent.plan import ANSWER
from project.agent.prompt import as_json
from project.agent.turns import Call
from project.lib import json_schema, strict_json
from project.lib.redaction import without_secrets
from triggers.durable import Durable

LONGEST = 60_000  # characters of one result


class Wrong(Exception):
    """This is no call of a tool that there is; its text is for the model."""


def perform(
    run: Durable, plan: dict[str, Any], turn: int, calls: list[Call]
) -> tuple[list[dict[str, str]], list[Call]]:
    """One result `{id, tool, text}` a call, in order, and those that could not be read."""
    wrong: list[Call] = []
    branches: dict[str, Callable[[], tools.Said]] = {}
    for number, call in enumerate(calls, 1):
        name = f"turn {turn} call {number}"
        try:
            branches[name] = partial(by_content, branch(run, plan, call))
        except Wrong as fault:
            wrong.append(call)
            branches[name] = partial(refused, str(fault))
    said = run.parallel(branches)
    texts = [as_json(said[name], LONGEST) for name in branches]
    return [{"id": call.id, "tool": call.tool, "text": text} for call, text in zip(calls, texts, strict=True)], wrong


def by_content(function: Callable[[], tools.Said]) -> tools.Said:
    """A model that is run again may come to the same effect by another way: that is one effect all the same."""
    with known_by_content():
        return function()


def branch(run: Durable, plan: dict[str, Any], call: Call) -> Callable[[], tools.Said]:
    """What to do for this call. Raises Wrong."""
    offered = offered_as(plan, call.tool)
    arguments = arguments_of(call, offered["schema"])
    if offered["name"] == ANSWER:
        return partial(refused, "give the answer alone, when the results of the other calls are there")
    try:
        tool = tools.named(offered["name"], offered["tier"])
    except LookupError:
        return partial(refused, "this tool was taken away")
    try:
        tool.read(arguments)
    except NotValid as error:
        raise Wrong(error.detail) from None
    return partial(tool.call, run, arguments, plan["origin"])


def answer_in(plan: dict[str, Any], calls: list[Call]) -> dict[str, Any] | None:
    """The final answer, if it is the only call and fits its schema. Raises Wrong when it does not fit."""
    if len(calls) != 1 or not plan["answers_by_tool"] or calls[0].tool != ANSWER:
        return None
    return arguments_of(calls[0], offered_as(plan, ANSWER)["schema"])


def offered_as(plan: dict[str, Any], wire: str) -> dict[str, Any]:
    for offered in plan["tools"]:
        if offered["wire"] == wire:
            found: dict[str, Any] = offered
            return found
    raise Wrong("there is no tool of this name; use those that you were given")


def arguments_of(call: Call, schema: dict[str, Any]) -> dict[str, Any]:
    """The object that the model wrote, never guessed: JSON whose names stand there once, and which fits the schema."""
    try:
        value = read(call.arguments) if isinstance(call.arguments, str) else call.arguments
    except (strict_json.NotParsable, ValueError) as error:
        raise Wrong(f"the arguments are not JSON: {error}") from None
    if value is None and not schema.get("properties"):
        value = {}
    if not isinstance(value, dict):
        raise Wrong("the arguments must be one JSON object")
    checker = json_schema.compiled(orjson.dumps(schema).decode())
    if fault := next(checker.iter_errors(value), None):
        raise Wrong(f"{json_schema.place_of(fault) or 'arguments'}: {without_secrets(fault.message)[:300]}")
    return value


def read(text: str) -> Any:
    strict_json.loads(text.encode("utf-8", "replace"))
    return json.loads(text, object_pairs_hook=once)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name stands there twice")
    return dict(pairs)


def refused(why: str) -> tools.Said:
    return {"done": False, "why": why}
