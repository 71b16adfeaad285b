"""Tools of MCP servers: `mcp@team` stands for all that the server behind this connection offers, `mcp.search@team` for
one. What looks is a step, what changes something is an action that waits for its nod with these very arguments."""

from typing import Any

from pydantic import BaseModel, JsonValue

from approvals import reads
from approvals.connectors import mcp
from approvals.errors import NoConnection, NotSent, OutcomeUnknown, Refused
from approvals.models import Connection
from approvals.tiers import stricter
from project.agent.reads import CannotRead
from project.lib import json_schema

PREFIX = "mcp"
LONGEST_DOC = 2000  # characters of what a server says of a tool


class Call(BaseModel):
    """Which tool, with what."""

    tool: str
    arguments: dict[str, JsonValue]


def place_of(name: str) -> tuple[str, str] | None:
    """`(tool, connection)` of `mcp.tool@connection`, the tool empty for all of them; None for every other name."""
    plain, at, slug = name.rpartition("@")
    family, dot, tool = plain.partition(".")
    return (tool, slug) if at and family == PREFIX and bool(dot) == bool(tool) else None


def offered(tool: str, slug: str) -> list[dict[str, Any]]:
    """`[{name, tier, doc, schema}]` of the server as it is now: all that can be used, or this one.

    Raises NoConnection, and what a server that is away raises: whoever asks is tried again."""
    found = reads.mcp_tools(Connection.objects.all().named(PREFIX, slug))
    return [
        {**one, "name": f"{PREFIX}.{one['name']}@{slug}", "doc": one["doc"][:LONGEST_DOC]}
        for one in found
        if tool in ("", one["name"]) and is_usable(one)
    ]


def is_usable(tool: dict[str, Any]) -> bool:
    """Whether it has a name that can be frozen and a schema that arguments can be held against."""
    try:
        mcp.McpCall(tool=tool["name"])
        json_schema.bounded(tool["schema"])
    except ValueError:
        return False
    return bool(tool["schema"].get("type") == "object")


def tier_of(tool: str, slug: str, agreed: str) -> dict[str, str]:
    """`{tier}` as its connection says now, and never less than the run was told; `{why}` where there is none."""
    try:
        config = Connection.objects.all().named(PREFIX, slug).config
    except NoConnection as error:
        return {"why": f"not possible: {error}"}
    return {"tier": str(stricter(mcp.tier_of(config, tool), agreed))}


def look(tool: str, slug: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a tool that only looks answers."""
    try:
        return reads.mcp_look(Connection.objects.all().named(PREFIX, slug), tool, arguments)
    except (NoConnection, NotSent, Refused, OutcomeUnknown) as error:
        raise CannotRead(str(error)) from None
