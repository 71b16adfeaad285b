"""What people read about an action before they decide: only facts, computed from the frozen bytes, in their words."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from approvals import policy
from approvals.answer_forms import answer_form
from approvals.argument_forms import Form
from approvals.changes import Change, changes
from approvals.errors import ApprovalProblem, NotValid, UnknownKind
from approvals.kinds import Kind, named
from approvals.models import Action, Attempt, Decision
from approvals.models.action import Status
from approvals.refusals import check_person
from approvals.rules import Reason, Ruling
from approvals.tallying import Panel
from project.people.models import User
from project.people.roles import can
from triggers.models import Audit, DeadLetter

VERBS = {  # what the button says; a kind that is not here says only "Approve"
    "github.create_pr": "pull request",
    "github.comment": "comment",
    "github.merge": "merge",
    "http.request": "call",
    "notify.send": "message",
    "stripe.refund": "refund",
    "email.send": "mail",
    "slack.post": "message",
    "feishu.post": "message",
    "wecom.post": "message",
    "event.publish": "event",
}
MOST_EVIDENCE = 50
RETURNS = ("url", "html_url", "link")  # members of a result that lead to the thing made


@dataclass(frozen=True, slots=True)
class Evidence:
    """One check of the handler: `tone` is ok (speaks for it), fail (against) or retry (unknown)."""

    text: str
    tone: str
    url: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Who made the next revision of one, and what differs."""

    said: Decision
    changes: list[Change]


@dataclass(frozen=True)
class Card:
    """An action as one reader sees it now. `barred` says in a sentence why this person may not decide, or is empty."""

    action: Action
    reader: User
    now: datetime
    decisions: tuple[Decision, ...] = ()
    taken_back: tuple[Audit, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    letter: DeadLetter | None = None
    newer: Action | None = None  # what took the place of a superseded one
    undoers: tuple[Action, ...] = ()  # what undoes it, or has tried to
    barred: str = ""
    fresh: bool = False  # the reader proved again who he is
    ruling: Ruling | None = None  # what the policy says now; only of what waits
    posted: Mapping[str, str] | None = None  # an answer that was refused, and is shown again

    @cached_property
    def kind(self) -> Kind | None:
        try:
            return named(self.action.kind)
        except UnknownKind:
            return None

    @property
    def noun(self) -> str:
        return VERBS.get(self.action.kind, "")

    @property
    def thing(self) -> str:
        """The subject of a sentence: `The pull request`."""
        return f"The {self.noun}" if self.noun else "It"

    @cached_property
    def may_read(self) -> bool:
        """Arguments are for operators, and for reviewers and members of teams who may decide them."""
        if can(self.reader, "payloads") or can(self.reader, "decide") or self.action.asked_by(self.reader):
            return True
        return policy.is_named(self.reader, self.action)

    @cached_property
    def preview(self) -> list[dict[str, str]]:
        """`[{label, text, form}]` by the kind's own code; empty when the kind is unknown or finds no words for it."""
        return self.kind.summary(self.action.arguments) if self.kind else []

    @cached_property
    def answer_form(self) -> Form | None:
        """What a question asks for; None for everything else, and for a form that no code can read any more."""
        if self.kind is None:
            return None
        try:
            return answer_form(self.kind.asked(self.action.arguments), self.posted)
        except NotValid:
            return None

    @property
    def is_awaiting(self) -> bool:
        return self.action.status == "awaiting"

    @property
    def is_open(self) -> bool:
        """Waits for a verdict, and the time is not over."""
        return self.is_awaiting and self.action.expires_at > self.now

    @property
    def can_decide(self) -> bool:
        return self.is_open and not self.barred and self.action.is_intact

    @property
    def can_edit(self) -> bool:
        """Who may decide may also mend it, as long as code knows what it takes."""
        return self.can_decide and self.kind is not None and not self.kind.is_question

    @cached_property
    def edits(self) -> list[Edit]:
        """What reviewers made of it, the oldest first."""
        return [edit_of(said) for said in self.decisions if said.verdict == "edit"]

    @property
    def needs_step_up(self) -> bool:
        return self.action.tier == "high" and not self.fresh

    @property
    def reason_needed(self) -> bool:
        return self.action.tier == "high"

    @property
    def given(self) -> list[Decision]:
        """The yeses that count for this revision."""
        return [d for d in self.decisions if d.verdict == "approve" and d.revision == self.action.revision]

    @cached_property
    def seats(self) -> list[tuple[Panel, int]]:
        """Each group that is needed, and how many of its people have said yes."""
        if self.ruling is None:
            return []
        return list(zip(self.ruling.groups, policy.counted(self.action, self.ruling).each, strict=True))

    @property
    def needed(self) -> int:
        return self.ruling.needed if self.ruling else self.action.needed

    @cached_property
    def counting(self) -> int:
        """People whose yes counts."""
        return policy.counted(self.action, self.ruling).given if self.ruling else self.action.given

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The rules that spoke about it, in force now or when it was last decided on."""
        return self.ruling.reasons if self.ruling else tuple(Reason(**said) for said in self.action.ruled_by)

    @property
    def nobody(self) -> bool:
        """Is there no active person who may say yes?"""
        return self.ruling is not None and not policy.anybody(self.action, self.ruling)

    @property
    def story(self) -> list[Decision | Audit]:
        """What people said of it and what they took back, the oldest first."""
        return sorted((*self.decisions, *self.taken_back), key=lambda row: row.at)

    @property
    def last(self) -> Decision | None:
        return self.decisions[-1] if self.decisions else None

    @property
    def can_take_back(self) -> bool:
        """The one who decided, or an admin, while nothing was started."""
        decided = any(d.by_id == self.reader.pk for d in self.given)
        return self.action.status == "approved" and (decided or can(self.reader, "configure"))

    @property
    def held(self) -> bool:
        """Approved, and the window in which it can surely be taken back is not over."""
        action = self.action
        return bool(
            action.status == "approved" and not action.tries and action.not_before and action.not_before > self.now
        )

    @property
    def can_settle(self) -> bool:
        """Who may answer "did it happen?": an operator; on high a reviewer who did not ask for it."""
        if self.action.status != "unknown":
            return False
        if self.action.tier == "high":
            return can(self.reader, "decide") and not self.action.asked_by(self.reader)
        return can(self.reader, "operate")

    @property
    def can_cancel(self) -> bool:
        return self.action.status in ("awaiting", "approved") and (
            can(self.reader, "operate") or can(self.reader, "decide") or self.action.requested_by_id == self.reader.pk
        )

    @cached_property
    def evidence(self) -> list[Evidence]:
        """Against first: what speaks against it must be read before the rest."""
        items = [read(item) for item in self.action.evidence[:MOST_EVIDENCE]]
        return sorted(items, key=lambda item: ("fail", "retry", "ok").index(item.tone))

    @property
    def score(self) -> dict[str, int]:
        tones = [item.tone for item in self.evidence]
        return {"good": tones.count("ok"), "bad": tones.count("fail"), "open": tones.count("retry")}

    @property
    def strongest(self) -> Evidence | None:
        """What speaks most clearly against it."""
        return next((item for item in self.evidence if item.tone == "fail"), None)

    @property
    def size(self) -> int:
        return len(self.action.canonical.encode())

    @property
    def result_link(self) -> str:
        """Where the thing that was made can be looked at: a web address or a page of this desk."""
        result = self.action.result
        found = next((result[name] for name in RETURNS if result.get(name)), "") if isinstance(result, dict) else ""
        return found if isinstance(found, str) and found.startswith(("https://", "http://", "/practice")) else ""

    @property
    def trouble(self) -> str:
        """What the far side said of the last try; who may not read the arguments gets only what it amounts to."""
        error = self.action.error or {}
        return str(error.get("message" if self.may_read else "type") or "")

    @property
    def result_text(self) -> str:
        return self.action.result_json or ""

    @property
    def waited(self) -> timedelta:
        return (self.action.decided_at or self.now) - self.action.created_at

    @property
    def version(self) -> str:
        """Changes whenever the row or its decisions do: the part on the page is replaced then."""
        row = self.action
        return f"{row.revision}.{row.status}.{row.tries}.{len(self.decisions)}.{len(self.undoers)}"


def edit_of(said: Decision) -> Edit:
    before, after = (json.loads(text)["arguments"] for text in (said.before, said.after))
    return Edit(said, list(changes(before, after)))


def why_not(action: Action, reader: User, ruling: Ruling | None = None) -> str:
    """Why this person may not approve it, in a sentence; empty when he may."""
    ruling = ruling or policy.ruling_of(action)
    if ruling.denied_by:
        return f"The rule {ruling.denied_by} of the policy forbids it now."
    try:
        check_person(action, reader, ruling, "approve")
    except ApprovalProblem as problem:
        return problem.detail
    return ""


def card_of(
    action: Action, reader: User, now: datetime, *, fresh: bool = False, posted: Mapping[str, str] | None = None
) -> Card:
    """Collect what the card shows."""
    waits = action.status == Status.AWAITING
    ruling = policy.ruling_of(action) if waits else None
    return Card(
        action=action,
        reader=reader,
        now=now,
        decisions=tuple(action.decisions.select_related("by").order_by("id")),
        taken_back=tuple(Audit.objects.taken_back().filter(ref=str(action.pk)).order_by("id")),
        attempts=tuple(action.attempts.order_by("number")),
        letter=DeadLetter.objects.filter(kind="action", action_id=action.pk).first(),
        undoers=tuple(action.compensated_by.order_by("pk")),
        newer=newer_than(action) if action.status == Status.SUPERSEDED else None,
        barred=why_not(action, reader, ruling) if waits else "",
        ruling=ruling,
        fresh=fresh,
        posted=posted,
    )


def newer_than(action: Action) -> Action | None:
    """What the same step asked for after this."""
    same = Action.objects.filter(kind=action.kind, step=action.step, origin_run=action.origin_run, pk__gt=action.pk)
    return same.order_by("pk").first() if action.origin_run else None


def read(item: Any) -> Evidence:
    """One entry as handlers give it: `{text, for: true|false|null, url?}`; anything else is shown as it is."""
    if not isinstance(item, dict):
        return Evidence(str(item), "retry", "")
    given = item.get("for")
    tone = "ok" if given is True else "fail" if given is False else "retry"
    url = str(item.get("url") or "")
    text = str(item.get("text") or json.dumps(item, ensure_ascii=False))
    return Evidence(text, tone, url if url.startswith(("https://", "http://")) else "")
