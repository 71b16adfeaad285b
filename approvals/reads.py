"""What handlers may look at on the far side, inside a step: reads change nothing and need no nod."""

from typing import Any

from approvals.connectors import github, mcp
from approvals.errors import Refused
from approvals.kinds import CALL_TIMEOUT
from approvals.models import Connection
from approvals.tiers import Tier


def github_file(repo: str, path: str, ref: str, *, connection: str = "", made_up: str = "") -> str | None:
    """The text of a file on a branch, or None. A practice connection holds no files: it answers with `made_up`.

    Raises NoConnection, and what a far side that is down raises (NotSent, Refused): the step is tried again."""
    row = Connection.objects.all().named("github", connection)
    if row.practice:
        return made_up
    return github.read_file(row.far(CALL_TIMEOUT), repo, path, ref)


def mcp_tools(connection: Connection) -> list[dict[str, Any]]:
    """`[{name, doc, schema, tier}]` of an MCP server; a practice connection has none. Raises NotSent, Refused."""
    if connection.practice:
        return []
    tiers = mcp.tiers_of(connection.config)
    found = mcp.offered(connection.far(CALL_TIMEOUT))
    return [{**one, "tier": tiers.get(one["name"], Tier.HIGH)} for one in found]


def mcp_look(connection: Connection, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a tool that only looks answers, `{text, data}`. Raises as a delivery does."""
    if connection.practice:
        raise Refused("a practice connection leads to no server")
    return mcp.ask(connection.far(CALL_TIMEOUT), mcp.McpCall(tool=tool, arguments=arguments))
