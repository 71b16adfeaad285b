"""The far sides, one module each; importing this package fills the catalogue of kinds."""

from approvals.connectors import (
    chat,
    events,
    external,
    github,
    github_merge,
    http,
    human,
    kafka,
    mail,
    mcp,
    notify,
    stripe,
)

__all__ = [
    "chat",
    "events",
    "external",
    "github",
    "github_merge",
    "http",
    "human",
    "kafka",
    "mail",
    "mcp",
    "notify",
    "stripe",
]
