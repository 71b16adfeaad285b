"""How an action can refuse or end; the class is the meaning, the docstring the sentence."""

from datetime import timedelta

from project.lib.problem import Problem
from triggers.errors import Blocked, BuriedAlready, EndsRun, Permanent
from triggers.errors import NameTaken as NameTaken  # a handler finds it beside the others


class ActionEnded(EndsRun):
    """An action ended without its effect. A handler may catch it; uncaught it ends the run `cancelled`."""


class Rejected(ActionEnded):
    """A reviewer said no."""

    reason = "rejected"


class Expired(ActionEnded):
    """Nobody decided in time, or it was not carried out in time."""

    reason = "expired"


class Cancelled(ActionEnded):
    """The action was withdrawn."""

    reason = "action_cancelled"


class Undeliverable(BuriedAlready):
    """The far side refused for good, or every try was used up."""


class NoConnection(Permanent):
    """No connection of this system exists; add one under Settings before a handler acts on it."""


class KeyTaken(Permanent):
    """The key names another effect already."""


class UnknownKind(Permanent):
    """No code is registered for this kind of action."""


class Drifted(Blocked):
    """The replayed handler proposes something other than what people were shown."""


class PolicyMoved(Exception):
    """The policy, or the action, changed while its verdict was computed; it is computed again."""


class DeliveryError(Exception):
    """A try to carry out an action did not succeed."""

    def __init__(self, message: str = "", *, retry_after: timedelta | None = None, key_used_up: bool = False) -> None:
        self.retry_after = retry_after
        self.key_used_up = key_used_up  # the far side repeats a failure it has stored for this key
        super().__init__(message or (type(self).__doc__ or ""))


class NotSent(DeliveryError):
    """It is certain that nothing happened; trying again is safe."""


class Refused(DeliveryError):
    """The far side refused for good; trying again would not help."""


class OutcomeUnknown(DeliveryError):
    """It may or may not have happened."""


class ApprovalProblem(Problem):
    """The desk cannot do that with this action."""


class NotReviewer(ApprovalProblem):
    """You may not decide this action; a reviewer must."""

    code = "not_reviewer"
    http = 403


class SelfApproval(ApprovalProblem):
    """You cannot approve what you asked for; somebody else must look at it."""

    code = "self_approval"
    http = 403


class StepUpRequired(ApprovalProblem):
    """Confirm that it is you: sign in again, then decide."""

    code = "step_up_required"
    http = 403


class AlreadyDecided(ApprovalProblem):
    """Somebody decided before you. Your click changed nothing."""

    code = "already_decided"
    http = 409


class AlreadySaid(ApprovalProblem):
    """You have decided this already."""

    code = "already_said"
    http = 409


class TooLate(ApprovalProblem):
    """It is under way or done; it cannot be taken back."""

    code = "too_late"
    http = 409


class ExpiredAlready(ApprovalProblem):
    """Too late: it expired. Nothing was sent."""

    code = "expired"
    http = 410


class NotSeen(ApprovalProblem):
    """It had only just come up after another decision of yours. Read it first, then decide."""

    code = "not_seen"
    http = 409


class Changed(ApprovalProblem):
    """The request changed while you read it. Read it again before you decide."""

    code = "changed"
    http = 412


class ReasonRequired(ApprovalProblem):
    """Say why, in 1 to 2000 characters."""

    code = "reason_required"
    http = 422


class CannotSendAgain(ApprovalProblem):
    """It cannot be sent again now; it stays unknown until somebody settles it otherwise."""

    code = "cannot_send_again"
    http = 409


class NotValid(ApprovalProblem):
    """A value is missing or makes no sense."""

    code = "not_valid"
    http = 422


class InUse(ApprovalProblem):
    """It is still needed."""

    code = "in_use"
    http = 409


class NeedsSecondAdmin(ApprovalProblem):
    """It makes something less than high: a second admin must confirm it."""

    code = "needs_second_admin"
    http = 403


class KeyReused(ApprovalProblem):
    """This Idempotency-Key was used with another body; a new wish needs a new key."""

    code = "key_reused"
    http = 422


class StillRunning(ApprovalProblem):
    """A request with this Idempotency-Key is under way; ask again in a moment."""

    code = "running"
    http = 409


class AskedEnough(ApprovalProblem):
    """People said no to this three times within a day; ask again tomorrow, or for something else."""

    code = "asked_enough"
    http = 409


class TooManyWaiting(ApprovalProblem):
    """So many of your actions wait for people already; ask again when some have ended."""

    code = "too_many_waiting"
    http = 429


class NotGranted(ApprovalProblem):
    """Nobody said yes to it, or not yet: there is nothing to use."""

    code = "not_granted"
    http = 409


class UsedUp(ApprovalProblem):
    """This yes was used already: one nod is for one time. Ask again under another key."""

    code = "used_up"
    http = 409


class CannotLook(ApprovalProblem):
    """What it would change cannot be looked at right now; ask again later."""

    code = "cannot_look"
    http = 503
