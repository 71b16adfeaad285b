"""A refused click in the words a person needs: what really happened, and that the click changed nothing."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from approvals.errors import AlreadyDecided, ApprovalProblem, Changed, ExpiredAlready
from project.lib.language import phrase, spoken, words
from project.lib.text import parsed_time, span

YES, NO = words("{by} approved it."), words("{by} rejected it.")
ENDS = {"approved": YES, "delivering": YES, "delivered": YES, "failed": YES, "unknown": YES, "rejected": NO}
WITHDRAWN = {
    "cancelled": words("It was withdrawn"),
    "superseded": words("It was replaced by a newer request"),
    "expired": words("It expired"),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """`tone` is a badge's; `code` is the API's word for the same refusal."""

    headline: str
    detail: str
    tone: str
    code: str


def said(problem: ApprovalProblem, asked: datetime) -> Refusal:
    """`asked` is the moment of the click by the database's clock."""
    if isinstance(problem, AlreadyDecided):
        return Refusal(*beaten(problem.facts, asked), "ok", problem.code)
    if isinstance(problem, ExpiredAlready):
        return Refusal(*late(problem.facts, asked), "retry", problem.code)
    if isinstance(problem, Changed):
        now = phrase("Below is how it is now. Your click changed nothing.")
        return Refusal(spoken(problem.detail), now, "fail", problem.code)
    return Refusal(spoken(problem.detail), phrase("Your click changed nothing."), "fail", problem.code)


def beaten(facts: dict[str, Any], asked: datetime) -> tuple[str, str]:
    """`Wei decided 4 s before you. Your click changed nothing.`"""
    at, by, status = parsed_time(facts.get("at")), str(facts.get("by") or ""), str(facts.get("status") or "")
    ago = phrase("{time} before you", time=span(max(0.0, (asked - at).total_seconds()))) if at else phrase("before you")
    if status in WITHDRAWN:
        return phrase("{end} {ago}. Your click changed nothing.", end=spoken(WITHDRAWN[status]), ago=ago), ""
    detail = phrase(ENDS[status], by=by) if by and status in ENDS else ""
    return phrase("{by} decided {ago}. Your click changed nothing.", by=by or phrase("Somebody"), ago=ago), detail


def late(facts: dict[str, Any], asked: datetime) -> tuple[str, str]:
    """`Too late by 3 s. It expired at 03:26:00. Nothing was sent.`"""
    at = parsed_time(facts.get("expired_at"))
    if at is None:
        return phrase("Too late: it has expired. Nothing was sent."), ""
    by = span(max(0.0, (asked - at).total_seconds()))
    return phrase(
        "Too late by {by}. It expired at {time}. Nothing was sent.",
        by=by,
        time=f"{timezone.localtime(at):%H:%M:%S}",
    ), ""
