"""DOOR 3: a person has spoken. Pages, the API and whatever comes later decide here and nowhere else."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from approvals import policy
from approvals.editing import edit, edited_before
from approvals.errors import (
    AlreadyDecided,
    AlreadySaid,
    CannotSendAgain,
    Changed,
    NotReviewer,
    NotValid,
    StepUpRequired,
    TooLate,
)
from approvals.models import Act, Action, Decision
from approvals.models.action import Status
from approvals.refusals import (
    check_may_settle,
    check_note,
    check_person,
    check_row,
    check_words,
    how_it_ended,
)
from approvals.settle import bury, lock, refreeze, reopen, say, settle, show
from approvals.starts import obstacle
from approvals.tiers import Tier
from project.lib import canonical, clock, spans
from project.lib.failpoints import failpoint
from project.people import roles
from project.people.models import User
from triggers import bells
from triggers.models import Audit, Run

EXECUTE_WITHIN = timedelta(hours=1)  # of the last yes
LEFT_AFTER_REOPEN = timedelta(seconds=900)  # at least this long people may decide again
TASK = "approvals.tasks.deliver_action"


@dataclass(frozen=True, slots=True)
class Said:
    """What became of a decision. `is_new` is False for the same person saying the same again."""

    id: int  # of the decision
    status: str
    digest: str
    revision: int
    needed: int
    given: int
    is_new: bool = True


def no_proof() -> bool:
    return False


def decide(
    action: Action,
    *,
    by: User,
    verdict: str,
    digest: str,
    revision: int,
    reason: str = "",
    arguments: dict[str, Any] | None = None,
    answer: Any = None,
    proof: Callable[[], bool] = no_proof,
    channel: str = "page",
) -> Said:
    """Record one person's verdict about what they saw; the last yes that is needed, or one no, ends the waiting.

    With `arguments` it is a yes to these instead of those shown: they become the next revision. On high that yes does
    not count, since who edits has asked for it. With `answer` it answers a question: the answer becomes the result.

    Refuses, in this order: NotReviewer, SelfApproval, StepUpRequired, AlreadyDecided or AlreadySaid, ExpiredAlready,
    Changed, ReasonRequired or NotValid. `proof` takes the proof of who it is that the edge has; only high asks for it,
    and a refusal that follows gives it back. A stored text that is not what was shown is told before any proof."""
    with transaction.atomic():
        held = lock(action.pk)
        now = clock.now()
        ruling = policy.verdict(held.kind, at_least=held.tier)
        check_person(held, by, ruling, verdict)
        told = None if answer is None else json.dumps(answer, ensure_ascii=False)
        again = said_before(held, by, verdict, digest, revision, arguments, told)
        if again is not None:
            return said(again, held, is_new=False)
        high = held.tier == Tier.HIGH
        if held.status == Status.AWAITING and not held.is_intact:
            refreeze(held)
        elif high and not proof():
            raise StepUpRequired
        else:
            check_row(held, by, now, digest, revision)
            reason = check_words(held, verdict, reason, arguments, answer)
            words = {"reason": reason, "channel": channel, "stepped_up": high, "on_high": high}
            edited = None if arguments is None else edit(held, arguments, by=by, now=now, **words)
            if edited and held.tier == Tier.HIGH:
                return said(edited, held)
            seen = {"digest": held.digest, "revision": held.revision}
            what = {**seen, **words, "answer_json": told}
            decision = Decision.objects.create(action=held, by=by, verdict=verdict, at=now, **what)
            Audit.write(verdict, held, by=by, **seen, reason=reason, channel=channel)
            count(held, verdict, now, ruling, by)
            trace(held, verdict)
            return said(decision, held)
    raise Changed(digest=held.digest, revision=held.revision)  # the stored text was changed behind our back


def trace(action: Action, verdict: str) -> None:
    """The decision as a moment of the story, once it is committed; who decided stays in the rows."""
    origin, facts = (action.run.event if action.run else None), {"action": action.pk, "tier": str(action.tier)}

    def committed() -> None:
        failpoint("after_decision")
        spans.moment(f"decision {verdict}", of=origin, **facts)

    transaction.on_commit(committed, robust=True)


def said_before(
    action: Action,
    by: User,
    verdict: str,
    digest: str,
    revision: int,
    arguments: dict[str, Any] | None,
    told: str | None,
) -> Decision | None:
    """The same words about the same bytes and the revision that still stands: a second click, a retried request.

    Raises AlreadySaid for another answer than the first."""
    if arguments is not None and verdict == "approve":
        return edited_before(action, by, digest, revision, arguments)
    if revision != action.revision:
        return None
    before = action.decisions.filter(by=by, verdict=verdict, revision=revision, digest=digest).first()
    if before is not None and before.answer_json != told:
        raise AlreadySaid(**how_it_ended(action))
    return before


def count(action: Action, verdict: str, now: datetime, ruling: policy.Verdict, by: User) -> None:
    """One no ends it; enough people saying yes approve it. A yes that turned into a no does not count."""
    if verdict == "reject":
        settle(action, "reject", now, by=by, decided_at=now)
        return
    needed = max(action.needed, ruling.needed)
    given = action.decisions.filter(verdict="approve", revision=action.revision).values("by").distinct().count()
    if given < needed:
        Action.objects.filter(pk=action.pk).update(needed=needed, given=given)
        action.refresh_from_db()
        show(action)
        return
    not_before = now + timedelta(seconds=action.take_back_for)
    times = {"decided_at": now, "not_before": not_before, "execute_by": now + EXECUTE_WITHIN}
    action.move("approve", needed=needed, given=given, **times)
    say(action, "decided")
    show(action)
    if not action.take_back_for:
        ring_on_commit(action.pk)


def ring_on_commit(action_id: int) -> None:
    """Ring the desk for this action once the transaction commits; tick repeats it if nobody hears."""
    transaction.on_commit(lambda: bells.send(TASK, action_id=action_id), robust=True)


def said(decision: Decision, action: Action, *, is_new: bool = True) -> Said:
    return Said(decision.pk, action.status, action.digest, action.revision, action.needed, action.given, is_new=is_new)


def take_back(action: Action, *, by: User) -> Action:
    """Undo the yes while nothing was started: the action waits again under the next revision.

    Whoever said yes may, and an admin. Raises NotReviewer, TooLate."""
    with transaction.atomic():
        held = lock(action.pk)
        now = clock.now()
        said_yes = held.decisions.filter(by=by, verdict="approve", revision=held.revision).exists()
        if not ((said_yes and by.is_active) or roles.can(by, "configure")):
            raise NotReviewer("Only who approved it, or an admin, may take it back.")
        if held.status != Status.APPROVED or held.decided_at is None:
            raise TooLate(status=held.status)
        reopen(held, by=by, expires_at=max(held.expires_at, now + LEFT_AFTER_REOPEN), why="take back")
    return held


def cancel(action: Action, *, by: User, reason: str = "") -> Action:
    """Withdraw an action that has not started: its requester, an operator or a reviewer may.

    Raises NotReviewer, TooLate once it is under way, AlreadyDecided when it has ended."""
    with transaction.atomic():
        held = lock(action.pk)
        now = clock.now()
        ruling = policy.verdict(held.kind, at_least=held.tier)
        mine = held.requested_by_id == by.pk and by.is_active
        if not (mine or roles.can(by, "operate") or policy.may_review(by, ruling)):
            raise NotReviewer("Only its requester, an operator or a reviewer may cancel it.")
        if held.is_settled:
            raise AlreadyDecided(**how_it_ended(held))
        if held.status not in (Status.AWAITING, Status.APPROVED):
            raise TooLate(status=held.status)
        settle(held, "cancel", now, by=by, ended_by=by, reason_code=reason.strip()[:64] or "cancelled")
    return held


def withdraw(run: Run) -> None:
    """A run ended: cancel its actions that nobody else's live run waits for. Called in the run's last transaction."""
    own = Act.objects.filter(run=run, action__status__in=[Status.AWAITING, Status.APPROVED])
    for action_id in own.order_by("action_id").values_list("action_id", flat=True):
        held = lock(action_id)
        if held.status not in (Status.AWAITING, Status.APPROVED) or others_wait(held, run):
            continue
        settle(held, "cancel", clock.now(), reason_code="run_ended")


def others_wait(action: Action, run: Run) -> bool:
    return Run.objects.live().filter(acts__action=action).exclude(pk=run.pk).exists()


def settle_unknown(
    action: Action, *, by: User, status: str, note: str = "", proof: Callable[[], bool] = no_proof
) -> Action:
    """A person says what became of an action in doubt: `delivered`, `not_sent` (send it again) or `failed` (give up).

    Raises NotReviewer, StepUpRequired (high), AlreadyDecided, ReasonRequired, NotValid, CannotSendAgain."""
    with transaction.atomic():
        held = lock(action.pk)
        now = clock.now()
        check_may_settle(held, by, proof)
        if status not in ("delivered", "not_sent", "failed"):
            raise NotValid("The outcome is delivered, not_sent or failed.", field="status")
        if held.status != Status.UNKNOWN:
            raise AlreadyDecided(**how_it_ended(held))
        note = check_note(note, needed=held.tier == Tier.HIGH)
        Audit.write(f"say {status}", held, by=by, note=note)
        if status == "delivered":
            settle(held, "deliver", now, by=by, ended_by=by, result_json=told(note, by))
        elif status == "failed":
            error = {"type": "GivenUp", "message": note or "a person gave it up; whether it happened is not known"}
            settle(held, "fail", now, by=by, ended_by=by, keeps_key=True, error=error)
            bury(held, now, error=error)
        else:
            send_again(held, now)
    return held


def told(note: str, by: User) -> str:
    return canonical.text({"settled_by": str(by), "note": note})


def send_again(action: Action, now: datetime) -> None:
    """A start like any other: what stands against one is said now, and the action stays unknown."""
    against = obstacle(action, now)
    if against:
        raise CannotSendAgain(f"It cannot be sent again: {against}. It stays unknown.", why=against.name.lower())
    Action.objects.filter(pk=action.pk).update(not_sent_said=True, not_before=now)
    action.refresh_from_db()
    show(action)
    ring_on_commit(action.pk)
