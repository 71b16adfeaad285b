"""What the audit log says, to programs and as a table."""

from typing import Any, ClassVar

from ninja import Schema

from project.lib.pages import Filters, Instant, Words
from project.lib.schema import Moment
from triggers.models import Audit


class AuditFilters(Filters):
    """`actor` is a user name, or `/nightdesk` for the desk itself; `subject` is `action/7`, `A-7` or `action`."""

    NAME: ClassVar[str] = "audit"
    AT: ClassVar[str] = "at"
    COLUMNS: ClassVar[dict[str, str]] = {"verb": "verb"}

    actor: Words = []
    verb: Words = []
    subject: Words = []
    since: Instant | None = None
    until: Instant | None = None

    def narrow(self, rows: Any) -> Any:
        rows = rows.by_actors(self.actor) if self.actor else rows
        rows = rows.about(self.subject) if self.subject else rows
        return super().narrow(rows)


class AuditRow(Schema):
    id: int
    at: Moment
    actor: str
    verb: str
    subject: str
    detail: dict[str, Any]
    number: int | None  # of its seal; None: not sealed yet
    hash: str

    @classmethod
    def of(cls, row: Audit, *, payload: bool) -> dict[str, Any]:
        """`payload`: may the reader see arguments, of which headlines are made?"""
        own = {name: getattr(row, name) for name in cls.model_fields}
        return own if payload else {**own, "detail": without_headline(row.detail)}


def without_headline(detail: dict[str, Any]) -> dict[str, Any]:
    """What a person saw, but for the words that arguments are told in."""
    saw = detail.get("saw")
    if not isinstance(saw, dict):
        return detail
    return {**detail, "saw": {name: value for name, value in saw.items() if name != "title"}}
