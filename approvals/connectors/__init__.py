"""The far sides, one module each; importing this package fills the catalogue of kinds."""

from approvals.connectors import github, http, human, notify

__all__ = ["github", "http", "human", "notify"]
