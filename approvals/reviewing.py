"""What was done without a nod is looked at afterwards: of some, drawn at random, a person says whether it was right."""

from typing import TYPE_CHECKING

from django.db import transaction

from approvals import policy
from approvals.errors import AlreadyDecided, NotReviewer, NotValid, ReasonRequired, SelfApproval
from approvals.models import Review
from approvals.models.review import VERDICTS, WRONG
from approvals.settle import lock, show
from project.lib import clock
from project.lib.text import reason_of
from project.people import roles
from triggers.models import Audit

if TYPE_CHECKING:
    from project.people.models import User


def may_look(review: Review, by: "User") -> bool:
    """A reviewer who did not ask for it; who is the only one there may look at his own."""
    reviewing = policy.at_least_asked(policy.asked_of(review.action))
    mine = review.action.asked_by(by)
    return roles.can(by, "decide") and (not mine or policy.able(review.action, reviewing).filter(pk=by.pk).exists())


def say(review: Review, *, by: "User", verdict: str, note: str = "") -> Review:
    """`fine`, or `wrong` with a note: once, by one person.

    Raises NotReviewer, SelfApproval, AlreadyDecided, NotValid, ReasonRequired."""
    if not roles.can(by, "decide"):
        raise NotReviewer
    if not may_look(review, by):
        raise SelfApproval("You asked for this; somebody else looks at it.")
    if verdict not in VERDICTS:
        raise NotValid("It was fine, or wrong.", field="verdict")
    note = reason_of(note, NotValid, field="note")
    if verdict == WRONG and not note:
        raise ReasonRequired
    with transaction.atomic():
        action = lock(review.action_id)
        now = clock.now()
        if not Review.objects.waiting().filter(pk=review.pk).update(verdict=verdict, note=note, by=by, at=now):
            review.refresh_from_db()
            raise AlreadyDecided(by=str(review.by), at=review.at, status=action.status)
        Audit.write(f"find {verdict}", action, by=by, note=note)
        show(action)
    review.refresh_from_db()
    return review
