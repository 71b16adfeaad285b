"""Why a person may not decide, in the order in which it is said (docs/lifecycle-of-an-action.md)."""

from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from approvals import policy
from approvals.errors import (
    AlreadyDecided,
    AlreadySaid,
    ApprovalProblem,
    Changed,
    ExpiredAlready,
    NotReviewer,
    NotValid,
    ReasonRequired,
    SelfApproval,
)
from approvals.kinds import KINDS
from approvals.models import Action
from approvals.models.action import EVERYBODY, Status
from approvals.policy import is_question
from approvals.questions import check_answer
from approvals.rules import Ruling
from approvals.tiers import Tier
from project.lib.language import phrase, words
from project.lib.text import reason_of
from project.people import roles
from project.people.models import User

VERDICTS = ("approve", "reject")
ASKED = words("You asked for this, so it needs a second person. Invite one under Settings.")
EDITED = words("You edited this, so it needs a second person. Invite one under Settings.")

UNTOLD = words(
    "So many runs are behind this one that nobody can tell who asked for it, so nobody may approve it. Ask for it anew."
)
UNNAMED = words("No rule of the policy names who decides what is high, so nobody may. An admin names them in a rule.")


def check_person(
    action: Action, by: User, ruling: Ruling, verdict: str, *, names: frozenset[str] | None = None
) -> None:
    if not ruling.reviewers and verdict == "reject":
        ruling = replace(ruling, reviewers=(roles.REVIEWER,))
    if not ruling.reviewers:
        raise NotReviewer(phrase(UNNAMED))
    if not policy.may_review(by, ruling, names):
        named = phrase("Only {names} may decide this.", names=phrase(" or ").join(ruling.reviewers))
        raise NotReviewer(named if ruling.groups else "")
    if verdict != "reject" and not is_question(action) and EVERYBODY in policy.behind(action, ruling):
        raise SelfApproval(phrase(UNTOLD))
    asked = action.asked_by(by) or by.pk in policy.chain_added(action, ruling)
    if not asked or verdict == "reject":  # who asked may always say no to it
        return
    if is_question(action):  # an answer grants nothing, and who rang often knows it
        return
    if ruling.four_eyes:
        edited = action.edited_by(by) and by.pk not in action.requester_chain
        raise SelfApproval(phrase(EDITED if edited else ASKED))
    if not policy.able(action, ruling).filter(pk=by.pk).exists():
        raise SelfApproval


def may_say_no(action: Action, reader: User, ruling: Ruling) -> bool:
    """Also where nobody may say yes: no rule names people, or can read what is asked for."""
    with suppress(ApprovalProblem):
        check_person(action, reader, ruling, "reject")
        return True
    return False


def why_not(action: Action, reader: User, ruling: Ruling | None = None, *, names: frozenset[str] | None = None) -> str:
    """Why this person may not approve it, in a sentence; empty when he may."""
    ruling = ruling or policy.ruling_of(action)
    if ruling.denied_by:
        return phrase("The rule {rule} of the policy forbids it now.", rule=ruling.denied_by)
    try:
        check_person(action, reader, ruling, "approve", names=names)
    except ApprovalProblem as problem:
        return problem.detail
    return ""


def check_no_machine_nods_to_itself(action: Action, by: User, verdict: str) -> None:
    """Also where a person alone may decide what he asked for, he does it himself, not by a program of his: one token
    rings, or proposes, and another one of the same person says yes."""
    if is_question(action) and action.token_id is None:
        return
    if verdict != "reject" and by.pk in action.requester_chain:
        raise SelfApproval("You, or a program of yours, asked for this; look at it and decide in the browser.")


def check_row(action: Action, by: User, now: datetime, digest: str, revision: int) -> None:
    if action.status == Status.EXPIRED:
        raise ExpiredAlready(expired_at=action.settled_at)
    if action.status != Status.AWAITING:
        mine = action.decisions.filter(by=by, revision=action.revision).exists()
        raise (AlreadySaid if mine else AlreadyDecided)(**how_it_ended(action))
    if action.expires_at <= now:
        raise ExpiredAlready(expired_at=action.expires_at)
    if (digest, revision) != (action.digest, action.revision):
        raise Changed(digest=action.digest, revision=action.revision)


def how_it_ended(action: Action) -> dict[str, Any]:
    """Who was first, when, and what became of it."""
    last = action.decisions.filter(revision=action.revision).select_related("by").order_by("-pk").first()
    person = action.ended_by or (last.by if last else None)
    at = action.decided_at or action.settled_at or (last.at if last else None)
    return {"by": str(person) if person else None, "at": at, "status": action.status}


def check_words(action: Action, verdict: str, reason: str, arguments: dict[str, Any] | None, answer: Any) -> str:
    """The reason, trimmed."""
    if verdict not in VERDICTS:
        raise NotValid("The verdict is approve or reject.", field="verdict")
    reason = reason_of(reason, NotValid)
    if not reason and (verdict == "reject" or action.tier == Tier.HIGH):
        raise ReasonRequired
    if arguments is not None and verdict == "reject":
        raise NotValid("An edit goes with a yes; a no leaves it as it is.", field="arguments")
    check_answered(action, verdict, arguments, answer)
    return reason


def check_answered(action: Action, verdict: str, arguments: dict[str, Any] | None, answer: Any) -> None:
    """A yes to a question is its answer, by the question's form; nothing else is answered."""
    if not is_question(action):
        if answer is not None:
            raise NotValid("This is no question; approve or reject what is shown.", field="answer")
    elif verdict == "reject":
        if answer is not None:
            raise NotValid("A no comes without an answer.", field="answer")
    elif arguments is not None:
        raise NotValid("A question is answered as it was asked.", field="arguments")
    else:
        check_answer(KINDS[action.kind].asked(action.arguments), answer)


def check_note(note: str, *, needed: bool) -> str:
    note = reason_of(note, NotValid, field="note")
    if needed and not note:
        raise ReasonRequired
    return note
