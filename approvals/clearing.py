"""A person clears up a doubt: what became of an action whose outcome nobody knows."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from django.db import transaction

from approvals import current, policy
from approvals.authority import check_may_settle
from approvals.current import Met
from approvals.decide import no_proof, ring_on_commit
from approvals.errors import AlreadyDecided, CannotSendAgain, NotValid, StepUpRequired
from approvals.models import Action, Review
from approvals.models.action import Status
from approvals.refusals import check_note, how_it_ended
from approvals.rules import Ruling
from approvals.settle import bury, lock, log, settle, show
from approvals.starts import Obstacle, needs_a_look, obstacle
from approvals.tiers import Tier
from project.lib import canonical, clock, gate
from project.people.models import User


@policy.again_when_moved
def settle_unknown(
    action: Action, *, by: User, status: str, note: str = "", proof: Callable[[], bool] = no_proof
) -> Action:
    """A person says what became of an action in doubt: `delivered`, `not_sent` (send it again) or `failed` (give up).

    Raises NotReviewer, SelfApproval, StepUpRequired, AlreadyDecided, ReasonRequired, NotValid, CannotSendAgain."""
    asked = Action.objects.for_pages().get(pk=action.pk)
    ruling = policy.ruling_of(asked)
    found: Met | None = current.NOTHING
    if status == "not_sent":
        found = current.looked_at_again(asked, ruling, partial(check_may_look, asked, ruling, by, note, proof))
    with transaction.atomic():
        gate.shared()
        held = lock(action.pk)
        now = clock.now()
        policy.check_current(ruling, held)
        check_who(held, by, ruling, proof)
        if status not in ("delivered", "not_sent", "failed"):
            raise NotValid("The outcome is delivered, not_sent or failed.", field="status")
        if held.status != Status.UNKNOWN:
            raise AlreadyDecided(**how_it_ended(held))
        note = check_note(note, needed=held.tier == Tier.HIGH)
        log(f"say {status}", held, by=by, note=note)
        if status == "delivered":
            settle(held, "deliver", now, by=by, ended_by=by, result_json=told(note, by))
            Review.objects.draw(held, now)
        elif status == "failed":
            error = {"type": "GivenUp", "message": note or "a person gave it up; whether it happened is not known"}
            settle(held, "fail", now, by=by, ended_by=by, keeps_key=True, error=error)
            bury(held, now, error=error)
        else:
            send_again(held, now, ruling, found)
    return held


def check_who(held: Action, by: User, ruling: Ruling, proof: Callable[[], bool]) -> None:
    check_may_settle(held, by, ruling)
    if held.tier == Tier.HIGH and not proof():
        raise StepUpRequired


def check_may_look(asked: Action, ruling: Ruling, by: User, note: str, proof: Callable[[], bool]) -> None:
    """Whatever refuses it later refuses it before anybody looks at its target; the proof is only tried on."""
    with transaction.atomic():
        check_who(asked, by, ruling, proof)
        transaction.set_rollback(True)
    check_note(note, needed=asked.tier == Tier.HIGH)
    if asked.status != Status.UNKNOWN or not needs_a_look(asked, clock.now(), ruling):
        raise AlreadyDecided(**how_it_ended(asked))


def told(note: str, by: User) -> str:
    return canonical.text({"settled_by": str(by), "note": note})


def send_again(action: Action, now: datetime, ruling: Ruling, found: Met | None) -> None:
    """A start like any other: what stands against one is said now, and the action stays unknown."""
    against = obstacle(action, now, ruling, found)
    if against and against not in (Obstacle.BUSY, Obstacle.FROZEN, Obstacle.SHUT):
        raise CannotSendAgain(f"It cannot be sent again: {against}. It stays unknown.", why=against.name.lower())
    Action.objects.filter(pk=action.pk).update(not_sent_said=True, not_before=now)
    action.refresh_from_db()
    show(action)
    ring_on_commit(action.pk)
