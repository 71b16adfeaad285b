"""What a model may ask for: every kind of action, a few things to look at, and functions of your own."""

import hashlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError, create_model

from approvals import kinds
from approvals.act import Cancelled, Expired, Rejected, Undeliverable, having_looked, settled, told
from approvals.errors import NoConnection, NotValid
from approvals.models import Action
from approvals.tiers import Tier
from approvals.wish import Wish
from project.agent import reads, servers
from project.lib.faults import first_fault
from triggers import calls
from triggers.durable import Durable
from triggers.errors import Permanent

Said = dict[str, Any]  # what the model is told of one call
Function = Callable[..., Any]
NOT_A_NAME = re.compile(r"[^A-Za-z0-9_-]")  # no provider takes a dot in the name of a tool
LONGEST_WIRE = 64  # characters of it
READ_TIMEOUT = 60.0  # seconds a tool that looks may take
ENDS: dict[type[Exception], str] = {
    Rejected: "rejected",
    Expired: "expired",
    Cancelled: "cancelled",
    Undeliverable: "failed",
}
OWN: dict[str, "Tool"] = {}


class ToolFailed(Exception):
    """Raised by a tool to tell the model that it cannot be done, and why. Any other error is one of the run."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """`read(arguments)` raises NotValid; `call(run, arguments, why)` answers with what the model is told."""

    name: str
    tier: Tier
    doc: str
    schema: dict[str, Any]
    read: Callable[[dict[str, Any]], Any]
    call: Callable[[Durable, dict[str, Any], str], Said]

    @property
    def wire(self) -> str:
        """Its name as the model writes it."""
        return wire_of(self.name)


def wire_of(name: str) -> str:
    """Names of providers are short: of a longer one its beginning, and a mark that tells it from others."""
    plain = NOT_A_NAME.sub("_", name)
    return plain if len(plain) <= LONGEST_WIRE else with_mark(plain, name)


def with_mark(plain: str, name: str) -> str:
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain[: LONGEST_WIRE - 9]}_{mark}"


def tool(name: str = "") -> Callable[[Function], Function]:
    """Let agents call the function below; its annotations say what it takes, its docstring what it is for.

    It looks and changes nothing: what it does to the world it does by `act()`, on a first argument named `run`."""

    def register(function: Function) -> Function:
        made = of_function(name or function.__name__, function)
        OWN[made.name] = made
        return function

    return register


def named(name: str, agreed: str = Tier.HIGH) -> Tool:
    """The tool of this name; `kind@connection` and `http.get@host` are bound to one far side. Raises LookupError.

    `agreed` is the tier that the run was told, for one of an MCP server."""
    if name in OWN:
        return OWN[name]
    if at := servers.place_of(name):
        return of_server(name, *at, agreed)
    plain, _, place = name.partition("@")
    if plain in reads.READS:
        return of_read(name, plain, place)
    if (kind := kinds.KINDS.get(plain)) is not None:
        return of_kind(name, kind, place)
    raise LookupError(f"there is no tool {name!r}")


def chosen(names: Iterable[str]) -> list[Tool]:
    """These tools, each once. Raises ValueError."""
    try:
        found = [named(name) for name in dict.fromkeys(names)]
    except LookupError as error:
        raise ValueError(str(error)) from None
    refuse_twice([one.wire for one in found])
    return found


def offered(names: Iterable[str]) -> list[dict[str, Any]]:
    """What a model is given: `[{name, wire, tier, doc, schema}]`; MCP servers are asked what they have now.

    Raises ValueError for a name of none, and what a server that is away raises."""
    found: list[dict[str, Any]] = []
    for one in chosen(names):
        place = servers.place_of(one.name)
        own = {"name": one.name, "tier": str(one.tier), "doc": one.doc, "schema": one.schema}
        found += servers.offered(*place) if place else [own]
    by_name = {one["name"]: {**one, "tier": str(one["tier"]), "wire": wire_of(one["name"])} for one in found}
    counted = Counter(one["wire"] for one in by_name.values())  # a server may have `a.b` and `a_b`
    twice = {name: with_mark(one["wire"], name) for name, one in by_name.items() if counted[one["wire"]] > 1}
    return [{**one, "wire": twice.get(name, one["wire"])} for name, one in by_name.items()]


def refuse_twice(wires: list[str]) -> None:
    if twice := next((wire for wire in wires if wires.count(wire) > 1), ""):
        raise ValueError(f"two of these tools would both be called {twice!r}")


# Kinds of actions


def of_kind(name: str, kind: kinds.Kind, connection: str) -> Tool:
    asks = "People are asked first." if kind.tier.waits else "It happens at once and people are told."
    return Tool(
        name=name,
        tier=kind.tier,
        doc=f"{(kind.arguments.__doc__ or kind.name).strip()} Risk: {kind.tier}. {asks}",
        schema=kind.arguments.model_json_schema(by_alias=True),
        read=kind.read,
        call=partial(propose, kind.name, connection or None),
    )


def propose(kind: str, connection: str | None, run: Durable, arguments: dict[str, Any], why: str) -> Said:
    """Ask for the effect, wait for whoever must nod, and tell the model what became of it."""

    looked: list[Wish] = []  # by this worker, a moment ago: the target is not asked twice

    def wish(like: Action | None = None) -> Wish:
        return looked[0] if looked else Wish.of(kind, connection, None, why, (), None, arguments, like)

    def look() -> str:
        """Why nobody can be asked for this; empty when it can be done."""
        try:
            looked.append(having_looked(run, kind, wish()))
        except Rejected:
            return ""  # asking will say so
        except Permanent as error:
            what = "there is no connection for it: " if isinstance(error, NoConnection) else ""
            return f"not possible: {what}{error}"
        return ""

    if fault := run.step("look it over", look):
        return {"done": False, "why": fault}
    try:
        result, number = told(settled(run, kind, wish))
    except tuple(ENDS) as error:
        return not_done(error)
    action = Action.objects.get(pk=number)
    said: Said = {"done": True, "action": f"A-{number}", "result": result}
    return said | ({"a_person_changed_it_to": action.arguments} if action.revision > 1 else {})


# Tools of MCP servers


def of_server(name: str, tool: str, slug: str, agreed: str) -> Tool:
    def call(run: Durable, arguments: dict[str, Any], why: str) -> Said:
        said = run.step("how risky it is", servers.tier_of, tool, slug, agreed)
        if "why" in said:
            return {"done": False, "why": said["why"]}
        if said["tier"] == Tier.READ:
            found: Said = run.step("look", partial(answered, partial(servers.look, tool, slug, arguments)))
            return found
        asked = {"tool": tool, "arguments": arguments, "tier": said["tier"]}
        return propose("mcp.call", slug, run, asked, why)

    def read(arguments: dict[str, Any]) -> servers.Call:
        return servers.Call(tool=tool, arguments=arguments)

    return Tool(name=name, tier=Tier(agreed), doc="", schema={}, read=read, call=call)


# What only looks


def of_read(name: str, plain: str, place: str) -> Tool:
    function = reads.READS[plain]
    return of_function(name, partial(function, place) if place or plain == "http.get" else function, doc=function)


def of_function(name: str, function: Function, doc: Function | None = None) -> Tool:
    takes = {
        one.name: (one.annotation, ... if one.default is one.empty else one.default)
        for one in inspect.signature(function, eval_str=not isinstance(function, partial)).parameters.values()
    }
    acts = next(iter(takes), "") == "run"
    takes.pop("run", None)
    model = create_model(name.replace(".", "_"), __config__={"extra": "forbid"}, **takes)  # type: ignore[call-overload]

    def read(arguments: dict[str, Any]) -> Any:
        try:
            return model.model_validate(arguments)
        except ValidationError as error:
            place, said = first_fault(error)
            raise NotValid(f"{place or 'arguments'}: {said}") from None

    def call(run: Durable, arguments: dict[str, Any], why: str) -> Said:
        typed = {member: getattr(read(arguments), member) for member in takes}
        if acts:
            return answered(partial(function, run, **typed))
        said: Said = run.step("look", partial(answered, partial(in_time, name, partial(function, **typed))))
        return said

    text = inspect.getdoc(doc or function) or name
    return Tool(name=name, tier=Tier.READ, doc=text, schema=model.model_json_schema(), read=read, call=call)


def in_time(name: str, look: Callable[[], Any]) -> Any:
    """What it finds. One that hangs is told to the model and remembered so, and the run goes on without it."""
    try:
        return calls.call(name, look, (), {}, READ_TIMEOUT, what="tool")
    except TimeoutError as error:
        raise ToolFailed(str(error)) from None


def answered(call: Callable[[], Any]) -> Said:
    try:
        return {"done": True, "result": TypeAdapter(Any).dump_python(call(), mode="json")}
    except tuple(ENDS) as error:
        return not_done(error)
    except (ToolFailed, reads.CannotRead) as error:
        return {"done": False, "why": f"failed: {error}"}


def not_done(error: Exception) -> Said:
    """What the model is told of an action that came to no effect: which end it was, and why."""
    return {"done": False, "why": f"{ENDS[type(error)]}: {error}"}
