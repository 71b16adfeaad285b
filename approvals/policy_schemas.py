"""What the API takes and shows of the policy."""

from typing import Any, ClassVar, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from approvals.amending import Amendment
from approvals.backtest import Backtest
from approvals.models import PolicyChange, PolicyRule
from project.lib.pages import Filters
from project.lib.schema import Moment
from triggers.schemas import Slug, Strict

Effect = Literal["deny", "require", "allow"]
Days = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class PolicyFilters(Filters):
    NAME: ClassVar[str] = "policies"
    COLUMNS: ClassVar[dict[str, str]] = {"effect": "effect"}

    effect: list[Effect] = []


class ChangeFilters(Filters):
    NAME: ClassVar[str] = "policy-changes"
    COLUMNS: ClassVar[dict[str, str]] = {"status": "status"}

    status: list[Literal["waiting", "confirmed", "withdrawn", "outdated"]] = []


class WindowIn(Strict):
    model_config = ConfigDict(populate_by_name=True)

    days: list[Days] = []
    since: str = Field("00:00", alias="from")
    until: str = Field("00:00", alias="to")


class RuleFields(Strict):
    order: int = 100
    when: str = Field(max_length=2000)
    effect: Effect
    tier: Literal["", "low", "medium", "high"] = ""
    reviewers: list[str] = Field([], max_length=20)
    quorum: int = 0
    rejections: int = 0
    four_eyes: bool = False
    expires: int = 0
    windows: list[WindowIn] = []
    zone: str = Field("UTC", max_length=64)
    escalate_after: int = 0
    hold: int = 0
    otherwise: bool = False


class RuleIn(RuleFields):
    slug: Slug


class RulePatch(RuleFields):
    when: str = Field("", max_length=2000)
    effect: Effect = "require"
    version: int


class BacktestIn(RuleIn):
    """A rule as it would be; one with the same slug takes the place of that one."""


class RuleOut(Schema):
    model_config = ConfigDict(from_attributes=True)

    slug: str
    order: int
    when: str
    effect: str
    tier: str
    reviewers: list[str]
    quorum: int
    rejections: int
    four_eyes: bool
    expires: int
    windows: list[dict[str, Any]]
    zone: str
    escalate_after: int
    hold: int
    otherwise: bool
    version: int
    changed_by: str | None
    changed_at: Moment

    @classmethod
    def of(cls, row: PolicyRule) -> dict[str, Any]:
        own = {name: getattr(row, name) for name in set(cls.model_fields) - {"changed_by"}}
        return {**own, "changed_by": row.changed_by.username if row.changed_by else None}


class ChangeOut(Schema):
    """A change that loosens what is high: it does nothing until a second admin confirms it."""

    change: int
    verb: str
    slug: str
    fields: dict[str, Any]
    loosens: list[str]
    status: str
    by: str
    at: Moment
    ended_by: str | None
    ended_at: Moment | None

    @classmethod
    def of(cls, row: PolicyChange) -> dict[str, Any]:
        fields = {name: value for name, value in row.fields.items() if name != "plan"}
        return {
            "change": row.pk,
            "loosens": row.reasons,
            "by": row.by.username,
            "ended_by": row.ended_by.username if row.ended_by else None,
            "fields": fields,
            **{name: getattr(row, name) for name in ("verb", "slug", "status", "at", "ended_at")},
        }


class TriedOut(Schema):
    action: int
    title: str
    before: str
    after: str


class BacktestOut(Schema):
    """What a draft would have done to the actions of the last 30 days; `untold`: their payload is gone.

    `differs` counts those that would have gone otherwise, each under one of `more` (waited), `fewer` (not waited),
    `denied`, `let` (no longer denied), `asks_more` and `asks_otherwise` (fewer or other people, or a lower tier)."""

    looked_at: int
    all_of_them: bool
    untold: int
    differs: int
    more: int
    fewer: int
    denied: int
    let: int
    asks_more: int
    asks_otherwise: int
    less_than_high: list[int]
    high_for_others: list[int]
    loosens: list[str]
    warns: list[str]
    changes: list[TriedOut]

    @classmethod
    def of(cls, draft: Amendment) -> dict[str, Any]:
        found: Backtest = draft.backtest
        plain = set(cls.model_fields) - {"loosens", "warns", "changes"}
        changes = [
            {"action": one.action.pk, "title": one.action.title, "before": one.before.words, "after": one.after.words}
            for one in found.changes
        ]
        return {
            **{name: getattr(found, name) for name in plain},
            "loosens": list(draft.loosens),
            "warns": list(draft.warns),
            "changes": changes,
        }
