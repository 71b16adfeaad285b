"""Several of one kind decided by one press: each for itself, on the digest that was shown, with a record of its own."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from approvals import decide
from approvals.errors import ApprovalProblem, NotValid
from approvals.models import Action
from approvals.refusals import is_question
from approvals.tiers import Tier
from project.people.models import User

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


def fits(action: Action) -> bool:
    """May it be decided beside others? What is high, and a question, is read alone."""
    return action.tier == Tier.MEDIUM and not is_question(action)


def groups(waiting: Iterable[Action]) -> list[tuple[str, int]]:
    """`(kind, how many)` where there is more than one of it."""
    kinds = Counter(action.kind for action in waiting if action.status == "awaiting" and fits(action))
    return [(kind, count) for kind, count in kinds.most_common() if count > 1]


def decide_together(lines: Sequence[Seen], *, by: User, verdict: str, reason: str = "") -> list[Outcome]:
    """Each goes through or is refused for itself, in the order given.

    Raises NotValid when they are none, too many, one twice, or of several kinds; then nothing is decided."""
    if not 1 <= len(lines) <= MOST:
        raise NotValid(f"Pick 1 to {MOST} of them.", field="pick")
    if len({line.action.pk for line in lines}) < len(lines):
        raise NotValid("One of them is named twice.", field="pick")
    if len({line.action.kind for line in lines}) > 1:
        raise NotValid("They are of several kinds; decide one kind at a time.", field="pick")
    return [decided(line, by=by, verdict=verdict, reason=reason, of=len(lines)) for line in lines]


def decided(line: Seen, *, by: User, verdict: str, reason: str, of: int) -> Outcome:
    share = None if line.looked_for is None else line.looked_for / of
    seen: dict[str, Any] = {"digest": line.digest, "revision": line.revision, "looked_for": share}
    try:
        if not fits(line.action):
            raise NotValid("It is decided alone, on its own page.", field="pick")
        decide.decide(line.action, by=by, verdict=verdict, reason=reason, channel=CHANNEL, **seen)
    except ApprovalProblem as refused:
        return Outcome(line.action, refused)
    return Outcome(line.action)
