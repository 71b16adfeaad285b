"""DOOR 3: a person has spoken. Pages, the API and whatever comes later decide here and nowhere else."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from approvals import policy
from approvals.editing import edit, edited_before, ruling_on_edit
from approvals.errors import (
    AlreadyDecided,
    AlreadySaid,
    ApprovalProblem,
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
from approvals.rules import Ruling
from approvals.settle import bury, forbid, lock, refreeze, reopen, say, settle, show
from approvals.starts import EXECUTE_WITHIN, Obstacle, obstacle, opens_at
from approvals.tiers import Tier
from project.lib import canonical, clock, gate, spans
from project.lib.failpoints import failpoint
from project.people import roles
from project.people.models import User
from triggers import bells
from triggers.models import Audit, Run

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


@dataclass(frozen=True, slots=True)
class Word:
    """What one person says about what they saw."""

    by: User
    verdict: str
    digest: str
    revision: int
    reason: str
    arguments: dict[str, Any] | None
    answer: Any
    channel: str

    @property
    def told(self) -> str | None:
        return None if self.answer is None else json.dumps(self.answer, ensure_ascii=False)


@policy.again_when_moved
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

    With `arguments` it is a yes to these instead of those shown: they become the next revision. On high, or with four
    eyes, that yes does not count, since who edits has asked for it. With `answer` it answers a question: the answer
    becomes the result.

    Refuses, in this order: NotReviewer, SelfApproval, StepUpRequired, AlreadyDecided or AlreadySaid, ExpiredAlready,
    Changed, ReasonRequired or NotValid. `proof` takes the proof of who it is that the edge has; only high asks for it,
    and a refusal that follows gives it back. What the desk has to change first, since the stored text is not what was
    shown or the policy became stricter, is told before any proof."""
    word = Word(by, verdict, digest, revision, reason, arguments, answer, channel)
    asked = Action.objects.for_pages().get(pk=action.pk)
    ruling = policy.ruling_of(asked)
    edited = None if word.arguments is None else ruling_on_edit(asked, word.arguments)
    with transaction.atomic():
        gate.shared()
        held = lock(action.pk)
        policy.check_current(ruling, held)
        outcome = hear(held, word, ruling, edited, proof)
    if isinstance(outcome, ApprovalProblem):
        raise outcome
    return outcome


def hear(
    held: Action, word: Word, ruling: Ruling, edited_ruling: Ruling | None, proof: Callable[[], bool]
) -> Said | ApprovalProblem:
    """Inside the transaction; a refusal that is returned, not raised, comes with a change that must stay."""
    now = clock.now()
    check_person(held, word.by, ruling, word.verdict)
    again = said_before(held, word)
    if again is not None:
        return said(again, held, is_new=False)
    moved = adjusted(held, word, ruling, now)
    if moved is not None:
        return moved
    high = held.tier == Tier.HIGH
    if high and not proof():
        raise StepUpRequired
    check_row(held, word.by, now, word.digest, word.revision)
    reason = check_words(held, word.verdict, word.reason, word.arguments, word.answer)
    words = {"reason": reason, "channel": word.channel, "stepped_up": high, "on_high": high}
    if word.arguments is not None:
        edited = edit(held, word.arguments, by=word.by, now=now, ruling=edited_ruling, **words)
        if edited and held.is_strict:
            return said(edited, held)
        ruling = edited_ruling if edited and edited_ruling else ruling
    seen = {"digest": held.digest, "revision": held.revision}
    what = {**seen, **words, "answer_json": word.told, "held": sorted(policy.names_of(word.by))}
    decision = Decision.objects.create(action=held, by=word.by, verdict=word.verdict, at=now, **what)
    Audit.write(word.verdict, held, by=word.by, **seen, reason=reason, channel=word.channel)
    count(held, word.verdict, now, ruling, word.by)
    trace(held, word.verdict)
    return said(decision, held)


def adjusted(held: Action, word: Word, ruling: Ruling, now: datetime) -> ApprovalProblem | None:
    """What must happen to a waiting action before anybody says yes to it, and how that is told."""
    if held.status != Status.AWAITING:
        return None
    if not held.is_intact:  # the stored text was changed behind our back
        refreeze(held)
        return Changed(digest=held.digest, revision=held.revision)
    if word.verdict != "approve" or word.arguments is not None or held.expires_at <= now:
        return None  # an edit is judged by what it makes
    if ruling.denied_by:
        forbid(held, ruling.denied_by, now, **policy.written(ruling))
        return AlreadyDecided(**how_it_ended(held))
    if ruling.tier.rank > Tier(held.tier).rank:
        held.move("edit", revision=held.revision + 1, given=0, reason_code="policy_stricter", **policy.written(ruling))
        Audit.write("ask for more", held, revision=held.revision, policy=ruling.version, rule=ruling.name)
        show(held)
        return Changed(digest=held.digest, revision=held.revision)
    return None


def trace(action: Action, verdict: str) -> None:
    """The decision as a moment of the story, once it is committed; who decided stays in the rows."""
    origin, facts = (action.run.event if action.run else None), {"action": action.pk, "tier": str(action.tier)}

    def committed() -> None:
        failpoint("after_decision")
        spans.moment(f"decision {verdict}", of=origin, **facts)

    transaction.on_commit(committed, robust=True)


def said_before(action: Action, word: Word) -> Decision | None:
    """The same words about the same bytes and the revision that still stands: a second click, a retried request.

    Raises AlreadySaid for another answer than the first."""
    if word.arguments is not None and word.verdict == "approve":
        return edited_before(action, word.by, word.digest, word.revision, word.arguments)
    if word.revision != action.revision:
        return None
    same = {"by": word.by, "verdict": word.verdict, "revision": word.revision, "digest": word.digest}
    before = action.decisions.filter(**same).first()
    if before is not None and before.answer_json != word.told:
        raise AlreadySaid(**how_it_ended(action))
    return before


def count(action: Action, verdict: str, now: datetime, ruling: Ruling, by: User) -> None:
    """One no ends it; enough people saying yes, of every group that must, approve it. A yes that turned into a no does
    not count. What the policy in force needs is noted, and only ever raised."""
    if verdict == "reject":
        settle(action, "reject", now, by=by, decided_at=now)
        return
    chain = [*action.requester_chain, *policy.chain_added(action, ruling)]
    wanted = {**policy.written(ruling), "requester_chain": chain, "given": policy.counted(action, ruling).given}
    if wanted["given"] < ruling.needed:
        Action.objects.filter(pk=action.pk).update(**wanted)
        action.refresh_from_db()
        show(action)
        return
    final = now + timedelta(seconds=action.take_back_for)
    not_before = opens_at(ruling, final)
    since = now if not_before == final else not_before
    times = {"decided_at": now, "not_before": not_before, "execute_by": since + EXECUTE_WITHIN}
    action.move("approve", **wanted, **times)
    say(action, "decided")
    show(action)
    if not_before <= now:
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
    ruling = policy.ruling_of(Action.objects.for_pages().get(pk=action.pk))
    with transaction.atomic():
        held = lock(action.pk)
        now = clock.now()
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


@policy.again_when_moved
def settle_unknown(
    action: Action, *, by: User, status: str, note: str = "", proof: Callable[[], bool] = no_proof
) -> Action:
    """A person says what became of an action in doubt: `delivered`, `not_sent` (send it again) or `failed` (give up).

    Raises NotReviewer, StepUpRequired (high), AlreadyDecided, ReasonRequired, NotValid, CannotSendAgain."""
    ruling = policy.ruling_of(Action.objects.for_pages().get(pk=action.pk))
    with transaction.atomic():
        gate.shared()
        held = lock(action.pk)
        now = clock.now()
        policy.check_current(ruling, held)
        check_may_settle(held, by, ruling, proof)
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
            send_again(held, now, ruling)
    return held


def told(note: str, by: User) -> str:
    return canonical.text({"settled_by": str(by), "note": note})


def send_again(action: Action, now: datetime, ruling: Ruling) -> None:
    """A start like any other: what stands against one is said now, and the action stays unknown."""
    against = obstacle(action, now, ruling)
    if against and against not in (Obstacle.BUSY, Obstacle.SHUT):
        raise CannotSendAgain(f"It cannot be sent again: {against}. It stays unknown.", why=against.name.lower())
    Action.objects.filter(pk=action.pk).update(not_sent_said=True, not_before=now)
    action.refresh_from_db()
    show(action)
    ring_on_commit(action.pk)
