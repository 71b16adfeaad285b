"""Several of one kind decided by one press: each for itself, on the digest that was shown, with a record of its own."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from approvals import decide, policy
from approvals.errors import ApprovalProblem, NotValid, SelfApproval
from approvals.models import Action
from approvals.models.action import Status
from approvals.policy import is_question
from approvals.refusals import why_not
from approvals.rules import Ruling
from approvals.tiers import Tier, stricter
from project.people.models import User
from project.people.roles import groups_of

MOST = 20
CHANNEL = "batch"


@dataclass(frozen=True, slots=True)
class Seen:
    """One line of the page as it was shown."""

    action: Action
    digest: str
    revision: int
    looked_for: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one of them; `refused` says why its decision changed nothing."""

    action: Action
    refused: ApprovalProblem | None = None


def fits(action: Action, ruling: Ruling | None = None) -> bool:
    """May it be decided beside others? What is high, also by the policy in force, and a question, is read alone."""
    tier = stricter(action.tier, ruling.tier) if ruling else action.tier
    return tier == Tier.MEDIUM and not is_question(action)


def check_not_alone(action: Action, by: User) -> None:
    """Some are decided on their own page only. Raises NotValid; SelfApproval for what `by` asked for himself, also
    where he may decide it there."""
    if not fits(action):
        raise NotValid("It is decided alone, on its own page.", field="pick")
    if action.asked_by(by):
        raise SelfApproval("You asked for this; look at it alone, on its own page.")


@dataclass(frozen=True, slots=True)
class Reader:
    """Who looks at many of them; what is to be known of him and of the policy is read once, not for each."""

    person: User
    names: frozenset[str]
    known: policy.InForce

    @classmethod
    def of(cls, person: User, now: datetime | None = None) -> "Reader":
        return cls(person, policy.names_of(person), policy.InForce.read(now))

    def may_decide(self, action: Action) -> bool:
        """Now, beside others? The list, the page and the door ask the same."""
        try:
            check_not_alone(action, self.person)
        except ApprovalProblem:
            return False
        if not action.is_intact:
            return False
        ruling = policy.ruling_of(action, known=self.known)
        return fits(action, ruling) and not self.why_not(action, ruling)

    def why_not(self, action: Action, ruling: Ruling | None = None) -> str:
        """Why this person may not approve it, in a sentence; empty when he may."""
        ruling = ruling or policy.ruling_of(action, known=self.known)
        return why_not(action, self.person, ruling, names=self.names)


def kinds_for(person: User, waiting: Iterable[Action], now: datetime) -> list[str]:
    """Of which kinds this person may decide more than one at once; the commonest first."""
    rows = [row for row in waiting if row.status == Status.AWAITING and row.expires_at > now and fits(row)]
    common = [kind for kind, count in Counter(row.kind for row in rows).most_common() if count > 1]
    if not common:
        return []
    reader = Reader(person, groups_of(person), policy.InForce.read(now))  # a page is told what its request was told
    return [kind for kind in common if at_least_two(reader.may_decide(row) for row in rows if row.kind == kind)]


def at_least_two(found: Iterable[bool]) -> bool:
    """Looks at no more than it must."""
    each = iter(found)
    return any(each) and any(each)


def decide_together(
    lines: Sequence[Seen], *, by: User, verdict: str, reason: str = "", origin: Mapping[str, str] = decide.NOWHERE
) -> list[Outcome]:
    """Each goes through or is refused for itself, in the order given.

    Raises NotValid when they are none, too many, one twice, or of several kinds; then nothing is decided."""
    if not 1 <= len(lines) <= MOST:
        raise NotValid(f"Pick 1 to {MOST} of them.", field="pick")
    if len({line.action.pk for line in lines}) < len(lines):
        raise NotValid("One of them is named twice.", field="pick")
    if len({line.action.kind for line in lines}) > 1:
        raise NotValid("They are of several kinds; decide one kind at a time.", field="pick")
    said = {"by": by, "verdict": verdict, "reason": reason, "channel": CHANNEL, "origin": origin}
    return [decided(line, said, of=len(lines)) for line in lines]


def decided(line: Seen, said: dict[str, Any], *, of: int) -> Outcome:
    share = None if line.looked_for is None else line.looked_for / of
    seen: dict[str, Any] = {"digest": line.digest, "revision": line.revision, "looked_for": share}
    try:
        check_not_alone(line.action, said["by"])
        decide.decide(line.action, **said, **seen)
    except ApprovalProblem as refused:
        return Outcome(line.action, refused)
    return Outcome(line.action)
