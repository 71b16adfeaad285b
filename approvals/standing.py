"""What one reader may do with an action now: read it, decide it, mend it, take it back, withdraw it."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from approvals import authority, policy, reviewing
from approvals.errors import UnknownKind
from approvals.kinds import Kind, named
from approvals.models import Action, Decision, Review
from approvals.models.action import switches_over
from approvals.rules import Ruling
from approvals.tiers import Tier, stricter
from project.people.models import User
from triggers.models import Switch


@dataclass(frozen=True)
class Standing:
    """`barred` says in a sentence why this person may not decide, or is empty."""

    action: Action
    reader: User
    now: datetime
    decisions: tuple[Decision, ...] = ()
    review: Review | None = None  # it was drawn to be looked at afterwards
    barred: str = ""
    fresh: bool = False  # the reader proved again who he is
    ruling: Ruling | None = None  # what the policy says now; only of what waits

    @cached_property
    def kind(self) -> Kind | None:
        try:
            return named(self.action.kind)
        except UnknownKind:
            return None

    @cached_property
    def may_read(self) -> bool:
        return self.may_see_target or self.action.asked_by(self.reader)

    @cached_property
    def may_see_target(self) -> bool:
        return authority.may_see_target(self.action, self.reader, self.in_force)

    @cached_property
    def in_force(self) -> Ruling:
        """What the policy says now of it, also where nobody is asked any more."""
        return self.ruling or policy.ruling_of(self.action, known=policy.InForce.read(self.now))

    @cached_property
    def tier(self) -> Tier:
        """The risk it is treated as: what the policy in force asks for, when that is more than it was asked as."""
        return stricter(self.action.tier, self.ruling.tier) if self.ruling else Tier(self.action.tier)

    @property
    def is_awaiting(self) -> bool:
        return self.action.status == "awaiting"

    @property
    def is_open(self) -> bool:
        """Waits for a verdict, and the time is not over."""
        return self.is_awaiting and self.action.expires_at > self.now

    @property
    def can_decide(self) -> bool:
        return self.is_open and not self.barred and self.action.is_intact

    @property
    def can_edit(self) -> bool:
        """Who may decide may also mend it, as long as code knows what it takes."""
        return self.can_decide and self.kind is not None and not self.kind.is_question

    @property
    def is_unnamed(self) -> bool:
        """It is high, and no rule names who decides it: nobody may."""
        return self.ruling is not None and self.ruling.waits and not self.ruling.reviewers

    @property
    def edit_is_no_yes(self) -> bool:
        """Must somebody else say yes to what an edit makes of it?"""
        return self.tier is Tier.HIGH or self.action.is_strict or (self.ruling is not None and self.ruling.four_eyes)

    @property
    def needs_step_up(self) -> bool:
        return self.tier is Tier.HIGH and not self.fresh

    @property
    def reason_needed(self) -> bool:
        return self.tier is Tier.HIGH

    @property
    def given(self) -> list[Decision]:
        """The yeses that count for this revision."""
        return [d for d in self.decisions if d.verdict == "approve" and d.revision == self.action.revision]

    @property
    def can_take_back(self) -> bool:
        """While nothing was started."""
        was_asked = self.action.decided_at is not None  # what nobody was asked about is undone, not asked again
        return self.action.status == "approved" and was_asked and authority.may_take_back(self.action, self.reader)

    @property
    def held(self) -> bool:
        """Approved, and the window in which it can surely be taken back is not over."""
        action = self.action
        untouched = action.status == "approved" and not action.tries and not action.error
        return bool(untouched and action.not_before and action.not_before > self.now)

    @cached_property
    def stopped(self) -> Switch | None:
        """A switch that holds it back now."""
        return switches_over(self.action.kind, self.action.run).order_by("at").first()

    @property
    def can_settle(self) -> bool:
        return self.action.status == "unknown" and authority.may_settle(self.action, self.reader, self.in_force)

    @property
    def can_cancel(self) -> bool:
        is_stoppable = self.action.status in ("awaiting", "approved")
        return is_stoppable and authority.may_cancel(self.action, self.reader, self.in_force)

    @property
    def may_look(self) -> bool:
        return self.review is not None and reviewing.may_look(self.review, self.reader)
