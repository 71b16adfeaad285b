"""What the API takes and shows of agents."""

from typing import Any, ClassVar, Literal

from ninja import Schema

from project.lib.pages import Filters, Instant, Words
from project.lib.schema import Moment
from triggers.models import Agent, AgentEvent
from triggers.replaying import Played, Replay
from triggers.schemas import Slug, Strict

NEWEST = 50  # entries of its history beside an agent
Outcome = Literal["moved", "no_move", "guarded", "could_not_evaluate", "unknown_state", "too_late", "suppressed"]


class AgentFilters(Filters):
    NAME: ClassVar[str] = "agents"
    COLUMNS: ClassVar[dict[str, str]] = {"machine": "machine", "status": "status"}

    machine: Words = []
    status: Words = []


class AgentRow(Schema):
    """`status` is its state; `version` counts the events it took up, `moves` those that moved it."""

    slug: str
    machine: str
    status: str
    version: int
    moves: int
    moved_at: Moment | None
    made_at: Moment

    @classmethod
    def of(cls, row: Agent) -> dict[str, Any]:
        return {name: getattr(row, name) for name in AgentRow.model_fields}


class HistoryFilters(Filters):
    NAME: ClassVar[str] = "agent-history"
    AT: ClassVar[str] = "at"
    COLUMNS: ClassVar[dict[str, str]] = {"outcome": "outcome"}

    outcome: list[Outcome] = []
    since: Instant | None = None
    until: Instant | None = None


class HistoryRow(Schema):
    """One event it took up: what it found and left, and the runs that were started."""

    number: int
    event: int
    type: str
    outcome: str
    start: str
    end: str
    detail: str
    machine_version: str
    at: Moment
    runs: list[int]

    @classmethod
    def of(cls, row: AgentEvent) -> dict[str, Any]:
        own = ("number", "outcome", "start", "end", "detail", "machine_version", "at")
        facts = {name: getattr(row, name) for name in own}
        return {**facts, "event": row.event_id, "type": row.event.type, "runs": [run.pk for run in row.runs]}


class SnapshotOut(Schema):
    number: int
    status: str
    at: Moment


class AgentOut(AgentRow):
    """With the newest of its history, the last snapshot, and how many events wait to be taken up."""

    waiting: int
    snapshot: SnapshotOut | None
    history: list[HistoryRow]

    @classmethod
    def of(cls, row: Agent) -> dict[str, Any]:
        last = row.snapshots.order_by("-number").first()
        newest = row.history.taken_up().told().order_by("-pk")[:NEWEST]
        return {
            **AgentRow.of(row),
            "waiting": row.history.to_come().count(),
            "snapshot": last and {"number": last.number, "status": last.status, "at": last.at},
            "history": [HistoryRow.of(one) for one in newest],
        }


class AgentIn(Strict):
    slug: Slug
    machine: str


class ReplayIn(Strict):
    since: Instant | None = None
    until: Instant | None = None


class PlayedOut(Schema):
    """One event of a replay, and what it did then."""

    number: int
    event: int
    type: str
    outcome: str
    end: str
    lived_outcome: str
    lived_end: str

    @classmethod
    def of(cls, one: Played) -> dict[str, Any]:
        row = one.row
        then = {"lived_outcome": row.outcome, "lived_end": row.end}
        now = {"outcome": one.outcome, "end": one.end}
        return {"number": row.number, "event": row.event_id, "type": row.event.type, **now, **then}


class ReplayOut(Schema):
    """`status` is where the replay ends, `lived` where the agent was; `began_at` is the snapshot's number, 0: none."""

    began_at: int
    status: str
    lived: str
    equal: bool
    count: int
    differences: int
    played: list[PlayedOut]

    @classmethod
    def of(cls, found: Replay) -> dict[str, Any]:
        return {
            "began_at": found.began_at,
            "status": found.state,
            "lived": found.lived,
            "equal": found.is_equal,
            "count": found.count,
            "differences": found.differences,
            "played": [PlayedOut.of(one) for one in found.played],
        }
