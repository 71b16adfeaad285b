"""`mcp.call`: one call of a tool of an MCP server, whose connection says for each tool how risky it is.

A server promises nothing of repeats, so an unclear outcome is left to a person; the key is told beside the call."""

import json
import shlex
from collections.abc import Mapping
from typing import Any, Literal

from django.conf import settings
from django.utils.module_loading import import_string
from pydantic import Field, JsonValue

from approvals.errors import NotSent, NotValid, OutcomeUnknown, Refused
from approvals.kinds import Arguments, Far, Kind, Result, facts, register
from approvals.tiers import Tier, stricter
from project.lib.language import spoken

NAME = r"^[A-Za-z0-9_.-]{1,128}$"  # of a tool
CLIENT = "project.lib.mcp_client"  # needs the extra `mcp`, which not every desk has


class McpCall(Arguments):
    """One call of a tool of an MCP server; `tier` is what its connection says of the tool, or more."""

    tool: str = Field(pattern=NAME)
    arguments: dict[str, JsonValue] = {}
    tier: Literal["low", "medium", "high"] = "high"


def tiers_of(config: Mapping[str, Any]) -> dict[str, Tier]:
    """By tool, from lines as `search: read`. Raises NotValid."""
    found: dict[str, Tier] = {}
    for line in config.get("tools") or []:
        tool, colon, tier = (part.strip() for part in str(line).partition(":"))
        if not colon or not tool or tier not in Tier.values:
            raise NotValid(f"Each of `tools` is written tool: tier, with a tier of {', '.join(Tier)}.", field="tools")
        found[tool] = Tier(tier)
    return found


def tier_of(config: Mapping[str, Any], tool: str) -> Tier:
    """What nobody judged is high."""
    return tiers_of(config).get(tool, Tier.HIGH)


def fits(config: dict[str, Any], has_secrets: bool, call: McpCall) -> None:
    least = tier_of(config, call.tool)
    if Tier(call.tier).rank < least.rank:
        raise NotValid(f"{call.tool} is {least} on this connection, not {call.tier}", field="tier")


def server(far: Far) -> Any:
    """Where the connection leads. Raises Refused for what this desk cannot or may not start."""
    name = str(far.config.get("command") or "")
    command = settings.MCP_COMMANDS.get(name, "")
    if name and not command:
        raise Refused(f"mcp {far.slug}: the operator lists no command {name!r} in MCP_COMMANDS")
    made = client("Server")
    return made(
        url=str(far.config.get("url") or ""),
        command=tuple(shlex.split(command)),
        headers=dict(far.secrets),
        budget=far.timeout,
    )


def client(name: str) -> Any:
    try:
        return import_string(f"{CLIENT}.{name}")
    except ModuleNotFoundError:
        raise Refused('MCP servers need the extra `mcp`: pip install "mcp"') from None


def deliver(far: Far, call: McpCall, key: str) -> Result:
    return ask(far, call, key)


def ask(far: Far, call: McpCall, key: str = "") -> Result:
    """Call it, and return `{text, data}`. Raises NotSent, Refused, OutcomeUnknown."""
    place = server(far)
    unreached, declined, unheard = map(client, ("NotReached", "Declined", "NoAnswer"))
    try:
        done: Result = client("call")(place, call.tool, call.arguments, key)
    except unreached as error:
        raise NotSent(f"mcp {far.slug}: {error}") from None
    except declined as error:
        raise Refused(f"mcp {far.slug}: {call.tool}: {error}") from None
    except unheard as error:
        raise OutcomeUnknown(f"mcp {far.slug}: {call.tool}: {error}") from None
    return done


def offered(far: Far) -> list[dict[str, Any]]:
    """`[{name, doc, schema}]`: what the server offers now. Raises NotSent, Refused."""
    place = server(far)
    unreached = client("NotReached")
    try:
        found: list[dict[str, Any]] = client("tools")(place)
    except unreached as error:
        raise NotSent(f"mcp {far.slug}: {error}") from None
    return found


def preview(call: McpCall) -> list[dict[str, str]]:
    text = json.dumps(call.arguments, indent=2, ensure_ascii=False)
    return [*facts([(spoken("Tool"), call.tool)]), {"label": spoken("Arguments"), "text": text, "form": "json"}]


def graded(arguments: Mapping[str, Any], config: Mapping[str, Any] | None) -> Tier:
    """The tier that stands in the arguments, and never less than the connection says by now."""
    told = arguments.get("tier", Tier.HIGH)
    own = Tier(told) if told in Tier.values else Tier.HIGH
    return own if config is None else stricter(own, tier_of(config, str(arguments.get("tool"))))


register(
    Kind(
        name="mcp.call",
        system="mcp",
        tier=Tier.HIGH,
        graded=graded,
        safety="unsafe",
        arguments=McpCall,
        deliver=deliver,
        fits=fits,
        title=lambda call: f"Call {call.tool}",
        preview=preview,
        pretend=lambda call, number: {"text": f"practice call {number}", "data": None},
        hides=True,
        manner=("tier",),
        reversible="Only the server knows.",
        blast_radius="whatever the server can reach",
    )
)
