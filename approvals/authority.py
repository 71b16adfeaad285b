"""What a person may do with an action beside deciding it: asked by the doors, by the card and by the API alike.

Whether they may decide it is `refusals.check_person`. Whether there is still anything to do is not asked here."""

from contextlib import suppress

from approvals import policy
from approvals.errors import ApprovalProblem, NotReviewer, SelfApproval
from approvals.models import Action
from approvals.rules import Ruling
from approvals.tiers import Tier
from project.people import roles
from project.people.models import User


def may_read(action: Action, who: User, ruling: Ruling) -> bool:
    """Arguments are for operators, for reviewers, for members of teams who may decide them, and for who asked."""
    return action.asked_by(who) or may_see_target(action, who, ruling)


def may_see_target(action: Action, who: User, ruling: Ruling) -> bool:
    """What stands at its target was read with the credentials of the connection: it is for the same people but not for
    who asked, to whom asking would open whatever the connection may read."""
    if roles.can(who, "payloads") or roles.can(who, "decide"):
        return True
    return policy.is_named(who, action) or (not action.is_settled and policy.may_review(who, ruling))


def may_cancel(action: Action, who: User, ruling: Ruling) -> bool:
    """Its requester, an operator, or who may decide it."""
    asked = who.is_active and action.requested_by_id == who.pk
    return asked or roles.can(who, "operate") or policy.may_review(who, policy.at_least_asked(ruling))


def may_take_back(action: Action, who: User) -> bool:
    """Who said yes to it as it stands, or an admin."""
    said_yes = action.decisions.filter(by=who, verdict="approve", revision=action.revision)
    return roles.can(who, "configure") or (who.is_active and said_yes.exists())


def may_settle(action: Action, who: User, ruling: Ruling) -> bool:
    """May they answer "did it happen?"?"""
    with suppress(ApprovalProblem):
        check_may_settle(action, who, ruling)
        return True
    return False


def check_may_settle(action: Action, who: User, ruling: Ruling) -> None:
    """An operator; on high who may decide it and did not ask for it. Raises NotReviewer, SelfApproval."""
    if action.tier != Tier.HIGH:
        if not roles.can(who, "operate"):
            raise NotReviewer("Only an operator may settle this.")
        return
    if not policy.may_review(who, ruling):
        raise NotReviewer
    if action.asked_by(who):
        raise SelfApproval
