"""What the API takes and shows of actions and connections."""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from ninja import Schema
from pydantic import ConfigDict, Field, StrictInt

from approvals.kinds import KINDS
from approvals.models import Action, Attempt, Connection, Decision, Notice
from project.lib.pages import Filters, Instant, Number, Rows, Words
from project.lib.schema import Moment
from triggers.schemas import Name, Slug, Strict, shown_error

ActionStatus = Literal[
    "awaiting",
    "approved",
    "delivering",
    "unknown",
    "delivered",
    "failed",
    "rejected",
    "expired",
    "cancelled",
    "superseded",
]


class ActionFilters(Filters):
    NAME: ClassVar[str] = "actions"
    AT: ClassVar[str] = "created_at"
    COLUMNS: ClassVar[dict[str, str]] = {
        "kind": "kind",
        "tier": "tier",
        "status": "status",
        "run": "run_id",
        "requester": "requested_by__username",
    }

    kind: Words = []
    tier: list[Literal["read", "low", "medium", "high"]] = []
    status: list[ActionStatus] = []
    run: list[Number] = []
    requester: Words = []
    since: Instant | None = None
    until: Instant | None = None

    def narrow(self, rows: Rows) -> Rows:
        """What is not medium is said as its index says it: SQLite finds it by no other words."""
        return super().narrow(rows if not self.tier or "medium" in self.tier else rows.exclude(tier="medium"))


class ActionRow(Schema):
    id: int
    kind: str
    tier: str
    title: str
    digest: str
    revision: int
    connection: str | None
    practice: bool
    key: str
    status: str
    run: int | None
    compensates: int | None = None
    requested_by: str | None
    agent: str = ""  # the program outside that asked for it: a service, or the name of a person's token
    reversible: str
    blast_radius: str
    created_at: Moment
    decided_at: Moment | None
    not_before: Moment | None
    expires_at: Moment
    execute_by: Moment | None
    settled_at: Moment | None
    needed: int
    given: int

    @classmethod
    def facts(cls, action: Action, *, told: bool) -> dict[str, Any]:
        """`told`: may the reader see its headline? Else it is the kind that is told."""
        links = {
            "connection": action.connection.slug if action.connection else None,
            "practice": action.is_practice,
            "run": action.run_id,
            "compensates": action.compensates_id,
            "requested_by": action.requested_by.username if action.requested_by else None,
        }
        own = {name: getattr(action, name) for name in set(cls.model_fields) - set(links)}
        return {**own, **links, "title": action.title if told else action.kind}


class ActionLine(ActionRow):
    """A line of a table; the arguments only for who may see payloads, and what is hidden in them stays hidden."""

    arguments: Any = None

    @classmethod
    def of(cls, action: Action, *, arguments: bool, told: Callable[[Action], bool]) -> dict[str, Any]:
        return {
            **ActionRow.facts(action, told=told(action)),
            "arguments": action.shown_arguments if arguments else None,
        }


class DecisionOut(Schema):
    by: str
    verdict: str
    digest: str
    revision: int
    reason: str
    channel: str
    at: Moment

    @classmethod
    def of(cls, decision: Decision) -> dict[str, Any]:
        own = {name: getattr(decision, name) for name in set(cls.model_fields) - {"by"}}
        return {**own, "by": decision.by.username}


class AttemptOut(Schema):
    number: int
    key_sent: str
    outcome: str
    started_at: Moment
    ended_at: Moment | None
    retry_after: int | None
    error: Any = None

    @classmethod
    def of(cls, attempt: Attempt, *, told: bool) -> dict[str, Any]:
        """`told`: may the reader see what the far side said?"""
        own = {name: getattr(attempt, name) for name in set(cls.model_fields) - {"error"}}
        return {**own, "error": shown_error(attempt.error, told)}


class NoticeOut(Schema):
    """A message that asked somebody; `channel` is the connection it went by."""

    person: str
    channel: str
    what: str
    status: str
    sent_at: Moment | None

    @classmethod
    def of(cls, row: Notice) -> dict[str, Any]:
        own = {name: getattr(row, name) for name in ("what", "status", "sent_at")}
        return {**own, "person": row.person.username, "channel": row.channel.connection.slug}


class ActionOut(ActionRow):
    """What is about to happen, or did. Who may not read it gets its kind for a title, null for everything from
    `arguments` on, and of errors only the class: a far side may quote what was sent."""

    reason: str
    reason_code: str
    cancel_reason: str
    policy: str
    reviewers: list[str]
    groups: list[dict[str, Any]]
    ruled_by: list[dict[str, Any]]
    four_eyes: bool
    requester_chain: list[int]
    decisions: list[DecisionOut]
    attempts: list[AttemptOut]
    told: list[NoticeOut]
    error: Any = None
    arguments: dict[str, Any] | None = None
    canonical: str | None = None
    preview: list[dict[str, Any]] | None = None
    evidence: list[dict[str, Any]] | None = None
    result: Any = None

    @classmethod
    def of(cls, action: Action, *, reviewers: list[str], arguments: bool) -> dict[str, Any]:
        facts = ActionRow.facts(action, told=arguments)
        spoken = list(action.decisions.select_related("by").order_by("pk"))
        for name in ("reason", "reason_code", "cancel_reason", "policy", "groups", "ruled_by", "four_eyes"):
            facts[name] = getattr(action, name)
        editors = [row.by_id for row in spoken if row.verdict == "edit"]
        facts |= {
            "reviewers": reviewers,
            "requester_chain": list(dict.fromkeys([*action.requester_chain, *editors])),
            "decisions": [DecisionOut.of(row) for row in spoken],
            "attempts": [AttemptOut.of(row, told=arguments) for row in action.attempts.order_by("number")],
            "told": [NoticeOut.of(row) for row in Notice.objects.about(action)],
            "error": shown_error(action.error, arguments),
        }
        return facts | (readable(action) if arguments else {})


def readable(action: Action) -> dict[str, Any]:
    own = {name: getattr(action, name) for name in ("canonical", "evidence", "result")}
    return {**own, "arguments": action.shown_arguments, "preview": preview_of(action)}


def preview_of(action: Action) -> list[dict[str, str]]:
    """The kind's own words; empty when no code knows the kind, or these arguments, any more."""
    kind = KINDS.get(action.kind)
    return kind.summary(action.shown_arguments) if kind else []


class DecisionIn(Strict):
    """A verdict about what was seen. Its values are judged last, after whoever may speak and what still waits."""

    verdict: str = ""
    digest: str = ""
    revision: StrictInt = 0
    reason: str = ""
    arguments: dict[str, Any] | None = None
    answer: Any = None


class SaidOut(Schema):
    id: int
    status: str
    digest: str
    revision: int
    needed: int
    given: int


class CancelIn(Strict):
    reason: str = Field("", max_length=2000)


class OutcomeIn(Strict):
    status: str
    note: str = Field("", max_length=2000)


# --- connections ---


class ConnectionFilters(Filters):
    NAME: ClassVar[str] = "connections"
    COLUMNS: ClassVar[dict[str, str]] = {"system": "system"}

    system: Words = []


class ConnectionFields(Strict):
    name: str = Field("", max_length=200)
    config: dict[str, Any] = {}
    secrets: dict[Name, str] = {}
    practice: bool = False


class ConnectionIn(ConnectionFields):
    slug: Slug
    system: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")


class ConnectionPatch(ConnectionFields):
    version: int


class ConnectionOut(Schema):
    """`secrets` names what is kept; the values cannot be read back."""

    model_config = ConfigDict(from_attributes=True)

    slug: str
    name: str
    system: str
    config: dict[str, Any]
    secrets: list[str]
    practice: bool
    version: int
    created_at: Moment

    @classmethod
    def of(cls, row: Connection) -> dict[str, Any]:
        own = {name: getattr(row, name) for name in set(cls.model_fields) - {"secrets"}}
        return {**own, "secrets": row.secret_names}
