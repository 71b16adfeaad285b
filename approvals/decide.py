"""DOOR 3: a person has spoken. Pages, the API and whatever comes later decide here and nowhere else."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from approvals import policy
from approvals.authority import may_cancel, may_take_back
from approvals.editing import Judged, changes_nothing, edit, edited_before, judged
from approvals.errors import (
    AlreadyDecided,
    AlreadySaid,
    ApprovalProblem,
    Changed,
    NotReviewer,
    NotValid,
    StepUpRequired,
    TooLate,
)
from approvals.kinds import KINDS
from approvals.looking import check_seen
from approvals.models import Act, Action, Decision
from approvals.models.action import Status
from approvals.models.decision import IN_PERSON
from approvals.refusals import (
    VERDICTS,
    check_no_machine_nods_to_itself,
    check_person,
    check_row,
    check_words,
    how_it_ended,
)
from approvals.rules import Ruling
from approvals.settle import forbid, lock, refreeze, reopen, say, settle, show, shown_of
from approvals.starts import EXECUTE_WITHIN, opens_at
from approvals.tiers import Tier
from project.lib import clock, gate, spans
from project.lib.failpoints import failpoint
from project.lib.prepared import Select
from project.lib.text import is_storable, reason_of
from project.people.models import User
from triggers import bells
from triggers.models import Audit, Run

LEFT_AFTER_REOPEN = timedelta(seconds=900)  # at least this long people may decide again
BY_TOKEN = "api"  # the channel of a decision that a program brings for its person
TASK = "approvals.tasks.deliver_action"
NOWHERE: Mapping[str, str] = {}


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
    looked_for: float | None  # seconds
    origin: Mapping[str, str]  # {remote, browser} of the request it came by

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
    channel: str = IN_PERSON,
    looked_for: float | None = None,
    origin: Mapping[str, str] = NOWHERE,
) -> Said:
    """Record one person's verdict about what they saw; the last yes that is needed, or one no, ends the waiting.

    With `arguments` it is a yes to these instead of those shown: they become the next revision. On high, or with four
    eyes, that yes does not count, since who edits has asked for it. With `answer` it answers a question: the answer
    becomes the result.

    Refuses, in this order: NotReviewer, SelfApproval, StepUpRequired, AlreadyDecided or AlreadySaid, ExpiredAlready,
    Changed, NotSeen, ReasonRequired or NotValid. `proof` takes the proof of who it is that the edge has; only high asks
    for it, and a refusal that follows gives it back. What the desk has to change first, since the stored text is not
    what was shown or the policy became stricter, is told before any proof."""
    word = Word(by, verdict, digest, revision, reason, arguments, answer, channel, looked_for, origin)
    asked = Action.objects.for_pages().get(pk=action.pk)
    ruling = policy.ruling_of(asked)
    edited = None
    if word.arguments is not None:
        edited = judged(asked, word.arguments, partial(check_heard, asked, word, ruling, proof))
    with transaction.atomic():
        gate.shared()
        held = lock(action.pk)
        policy.check_current(ruling, held)
        outcome = hear(held, word, ruling, edited, proof)
    if isinstance(outcome, ApprovalProblem):
        raise outcome
    return outcome


def hear(
    held: Action, word: Word, ruling: Ruling, judged: Judged | None, proof: Callable[[], bool]
) -> Said | ApprovalProblem:
    """Inside the transaction; a refusal that is returned, not raised, comes with a change that must stay."""
    now = clock.now()
    check_who(held, word, ruling)
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
    if word.channel == IN_PERSON:
        check_seen(held, word.by, word.origin.get("browser", ""), word.looked_for, now)
    reason = check_words(held, word.verdict, word.reason, word.arguments, word.answer)
    how = {"channel": word.channel, "looked_for": word.looked_for}
    words = {"reason": reason, "stepped_up": high, "on_high": high, **how, **word.origin}
    if word.arguments is not None:
        edited = edit(held, word.arguments, by=word.by, now=now, judged=judged, **words)
        if edited and held.is_strict:
            return said(edited, held)
        ruling = judged.ruling if edited and judged else ruling
    seen = {"digest": held.digest, "revision": held.revision}
    what = {**seen, **words, "answer_json": word.told, "held": sorted(policy.names_of(word.by))}
    decision = Decision.objects.create(action=held, by=word.by, verdict=word.verdict, at=now, **what)
    Audit.write(word.verdict, held, by=word.by, **seen, **how, reason=reason, saw=shown_of(held))
    count(held, now, ruling, word.by)
    trace(held, word.verdict)
    return said(decision, held)


def check_who(held: Action, word: Word, ruling: Ruling) -> None:
    if word.channel == BY_TOKEN:
        check_no_machine_nods_to_itself(held, word.by, word.verdict)
    check_person(held, word.by, ruling, word.verdict)


def check_heard(asked: Action, word: Word, ruling: Ruling, proof: Callable[[], bool]) -> None:
    """What `hear` would refuse an edit with, before a far side is looked at for it; the proof is only tried on."""
    with transaction.atomic():
        check_who(asked, word, ruling)
        check_row(asked, word.by, clock.now(), word.digest, word.revision)
        if not asked.is_intact:
            raise Changed(digest=asked.digest, revision=asked.revision)
        if asked.tier == Tier.HIGH and not proof():
            raise StepUpRequired
        check_words(asked, word.verdict, word.reason, word.arguments, word.answer)
        transaction.set_rollback(True)


def adjusted(held: Action, word: Word, ruling: Ruling, now: datetime) -> ApprovalProblem | None:
    """What must happen to a waiting action before anybody says yes to it, and how that is told."""
    if held.status != Status.AWAITING:
        return None
    if not held.is_intact and not (word.verdict == "reject" and policy.cannot_be_read(held)):
        refreeze(held)  # the stored text was changed behind our back
        return Changed(digest=held.digest, revision=held.revision)
    if word.verdict != "approve" or held.expires_at <= now:
        return None
    if word.arguments is not None and not changes_nothing(held, word.arguments):
        return None  # an edit is judged by what it makes; one that makes nothing is a plain yes
    if ruling.denied_by:
        forbid(held, ruling.denied_by, now, **policy.written(ruling))
        return AlreadyDecided(**how_it_ended(held))
    if ruling.tier.rank > Tier(held.tier).rank:
        wanted = policy.asked_as(KINDS.get(held.kind), ruling)
        held.move("edit", revision=held.revision + 1, given=0, reason_code="policy_stricter", **wanted)
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
    if word.verdict not in VERDICTS or not is_storable(word.digest):
        return None  # nobody can have said that
    if word.arguments is not None and word.verdict == "approve":
        return edited_before(action, word.by, word.digest, word.revision, word.arguments)
    if word.revision != action.revision:
        return None
    same = {"by": word.by, "verdict": word.verdict, "revision": word.revision, "digest": word.digest}
    before = action.decisions.filter(**same).first()
    if before is not None and before.answer_json != word.told:
        raise AlreadySaid(**how_it_ended(action))
    if before is None and word.verdict == "approve" and word.by.pk in policy.rejected_by(action):
        raise AlreadySaid(**how_it_ended(action))  # a yes may turn into a no, never the other way
    return before


def count(action: Action, now: datetime, ruling: Ruling, by: User) -> None:
    """Enough people saying no end it, one where no rule says more; enough saying yes, of every group that must, approve
    it. What the policy in force needs is noted, and only ever raised."""
    if len(policy.rejected_by(action)) >= ruling.rejections:
        settle(action, "reject", now, by=by, decided_at=now)
        return
    chain = [*action.requester_chain, *policy.chain_added(action, ruling)]
    wanted = {**policy.written(ruling), "requester_chain": chain, "given": policy.counted(action, ruling).given}
    if ruling.tier.rank > Tier(action.tier).rank:  # only a no comes so far: the next yes is asked for more first
        wanted = {"given": wanted["given"]}
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
        if not may_take_back(held, by):
            raise NotReviewer("Only who approved it, or an admin, may take it back.")
        if held.status != Status.APPROVED or held.decided_at is None:
            raise TooLate(status=held.status)
        reopen(held, by=by, expires_at=max(held.expires_at, now + LEFT_AFTER_REOPEN), why="take back")
    return held


@policy.again_when_moved
def cancel(action: Action, *, by: User, reason: str = "") -> Action:
    """Withdraw an action that has not started: its requester, an operator or a reviewer may.

    Raises NotReviewer, TooLate once it is under way, AlreadyDecided when it has ended."""
    ruling = policy.ruling_of(Action.objects.for_pages().get(pk=action.pk))
    with transaction.atomic():
        gate.shared()
        held = lock(action.pk)
        now = clock.now()
        policy.check_current(ruling, held)
        if not may_cancel(held, by, ruling):
            raise NotReviewer("Only its requester, an operator or a reviewer may cancel it.")
        call_off(held, now, by=by, reason=reason)
    return held


def call_off(held: Action, now: datetime, *, by: User | None, reason: str) -> None:
    """End what has not started, inside the caller's transaction. Raises TooLate, AlreadyDecided, NotValid."""
    if held.is_settled:
        raise AlreadyDecided(**how_it_ended(held))
    if held.status not in (Status.AWAITING, Status.APPROVED):
        raise TooLate(status=held.status)
    why = reason_of(reason, NotValid)
    settle(held, "cancel", now, by=by, ended_by=by, reason_code="cancelled", cancel_reason=why)


def open_of(run: int) -> "QuerySet[Act, tuple[int]]":
    own = Act.objects.filter(run=run, action__status__in=[Status.AWAITING, Status.APPROVED])
    return own.order_by("action_id").values_list("action_id")


OPEN_OF = Select(open_of, run=int)


def withdraw(run: Run) -> None:
    """A run ended: cancel its actions that nobody else's live run waits for. Called in the run's last transaction."""
    for (action_id,) in OPEN_OF(run=run.pk):
        held = lock(action_id)
        if held.status not in (Status.AWAITING, Status.APPROVED) or others_wait(held, run):
            continue
        settle(held, "cancel", clock.now(), reason_code="run_ended")


def others_wait(action: Action, run: Run) -> bool:
    return Run.objects.live().filter(acts__action=action).exclude(pk=run.pk).exists()
