"""What people read about an action before they decide: only facts, computed from the frozen bytes, in their words."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from approvals import policy
from approvals.answer_forms import answer_form
from approvals.argument_forms import Form
from approvals.before_after import Before, before, unbound
from approvals.budget import SPENT
from approvals.changes import Change, changes
from approvals.connectors import external
from approvals.errors import NotValid
from approvals.evidence import Evidence, in_order
from approvals.looking import drawn
from approvals.models import Action, Attempt, CallBack, Decision, Freeze, Notice, Review
from approvals.models.action import Status
from approvals.refusals import may_say_no, why_not
from approvals.rules import Reason
from approvals.similar import Similar, similar_to
from approvals.standing import Standing
from approvals.tallying import Panel
from approvals.tiers import Tier
from project.lib.language import phrase, spoken, words
from project.people.models import User
from triggers.models import Audit, DeadLetter

VERBS = {  # what the button says; a kind that is not here says only "Approve"
    "github.create_pr": words("pull request"),
    "github.comment": words("comment"),
    "github.merge": words("merge"),
    "http.request": words("call"),
    "notify.send": words("message"),
    "stripe.refund": words("refund"),
    "email.send": words("mail"),
    "slack.post": words("message"),
    "feishu.post": words("message"),
    "wecom.post": words("message"),
    "event.publish": words("event"),
}
ASKED_AGAIN = {
    "target_moved": words("It was approved, but what it would change is no longer what people saw. Nothing was sent."),
    "policy_stricter": words("It was approved, but the policy asks for more now. Nothing was sent."),
    "changed_after_approval": words("It was approved, but it, or its connection, was changed since. Nothing was sent."),
}
MOST_NAMED = 5  # people a card names
RETURNS = ("url", "html_url", "link")  # members of a result that lead to the thing made


@dataclass(frozen=True, slots=True)
class Edit:
    """Who made the next revision of one, and what differs."""

    said: Decision
    changes: list[Change]


@dataclass(frozen=True)
class Card(Standing):
    """An action as one reader sees it now, and what he may do with it."""

    taken_back: tuple[Audit, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    letter: DeadLetter | None = None
    newer: Action | None = None  # what took the place of a superseded one
    undoers: tuple[Action, ...] = ()  # what undoes it, or has tried to
    told: tuple[Notice, ...] = ()  # the receipts of messages that asked
    posted: Mapping[str, str] | None = None  # an answer that was refused, and is shown again

    @property
    def noun(self) -> str:
        return VERBS.get(self.action.kind, "")

    @property
    def thing(self) -> str:
        """The subject of a sentence: `The pull request`."""
        return phrase("The {noun}", noun=spoken(self.noun)) if self.noun else phrase("It")

    @cached_property
    def preview(self) -> list[dict[str, str]]:
        """`[{label, text, form}]` by the kind's own code; empty when the kind is unknown or finds no words for it."""
        return self.kind.summary(self.action.shown_arguments) if self.kind else []

    @cached_property
    def answer_form(self) -> Form | None:
        """What a question asks for; None for everything else, and for a form that no code can read any more."""
        if self.kind is None:
            return None
        try:
            return answer_form(self.kind.asked(self.action.shown_arguments), self.posted)
        except NotValid:
            return None

    @property
    def usual_tier(self) -> Tier:
        """What its kind alone would be, through its connection as it is now."""
        carrier = self.action.connection
        return policy.usual(self.action.kind, self.action.shown_arguments, carrier.config if carrier else None)

    @property
    def raised_by(self) -> list[Reason]:
        """The rules that ask for this tier, where the kind alone would ask for less."""
        if self.tier.rank <= self.usual_tier.rank:
            return []
        return [said for said in self.reasons if said.tier == self.tier or (said.error and self.tier is Tier.HIGH)]

    @property
    def is_over_budget(self) -> bool:
        return self.action.policy == SPENT

    @cached_property
    def before(self) -> Before | None:
        """What it would meet, and change there; None when it is bound to nothing, or the reader may not see it."""
        return before(self.action, self.kind) if self.may_see_target else None

    @cached_property
    def unbound(self) -> str:
        """Why a yes holds whatever stands at its target, where code could have looked at one."""
        return unbound(self.action, self.kind) if self.may_read else ""

    @property
    def asked_again(self) -> str:
        """Why it waits although people had said yes to it, in a sentence."""
        return ASKED_AGAIN.get(self.action.reason_code, "") if self.is_awaiting else ""

    @property
    def drawn(self) -> str:
        """Carried by the form: when it was drawn, for whom."""
        return drawn(self.action, self.reader, self.now)

    @property
    def noes(self) -> tuple[int, int]:
        """How many people said no to this revision, and how many must."""
        said = sum(d.verdict == "reject" and d.revision == self.action.revision for d in self.decisions)
        return said, self.ruling.rejections if self.ruling else self.action.rejections_needed

    @cached_property
    def freeze(self) -> Freeze | None:
        """The entry of the freeze calendar that holds it back now, or would once it is approved."""
        if self.action.status not in (Status.AWAITING, Status.APPROVED):
            return None
        rows = Freeze.objects.ahead(self.now).order_by("-ends_at")
        return next(
            (row for row in rows if row.is_on(self.now) and row.means(self.action.kind, self.action.tier)), None
        )

    @cached_property
    def can_only_refuse(self) -> bool:
        """May the reader, who did not ask for it, say no where nobody may say yes?"""
        if self.ruling is None or not self.barred or not self.is_open or self.action.asked_by(self.reader):
            return False
        return may_say_no(self.action, self.reader, self.ruling)

    @property
    def offers_withdrawal(self) -> bool:
        """Below the body, where neither the bar of who may only look nor the outcome has that button already."""
        if self.is_awaiting:
            return not (self.is_open and self.barred)
        return self.held and not self.freeze and self.action.decided_at is not None

    @property
    def voice(self) -> str:
        """Whose words stand on the card, unchecked: `handler`, or `program` for one outside."""
        return words("handler") if self.action.run else words("program")

    @property
    def is_grant(self) -> bool:
        """Does whoever asked do it himself, once he may?"""
        return self.action.kind.startswith(f"{external.FAMILY}.")

    @cached_property
    def call_back(self) -> CallBack | None:
        """Whether the program outside that asked is told of its end."""
        return CallBack.objects.filter(action=self.action).first() if self.action.token_id else None

    @cached_property
    def edits(self) -> list[Edit]:
        """What reviewers made of it, the oldest first."""
        return [edit_of(said) for said in self.decisions if said.verdict == "edit"]

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

    @cached_property
    def able(self) -> list[User]:
        """The first few of the active people who may say yes."""
        return list(policy.able(self.action, self.ruling).order_by("username")[:MOST_NAMED]) if self.ruling else []

    @property
    def nobody(self) -> bool:
        """Is there no active person who may say yes?"""
        return self.ruling is not None and not self.able

    @property
    def others(self) -> list[User]:
        """Whom to ask instead, where the reader may not say yes himself."""
        return [person for person in self.able if person.pk != self.reader.pk]

    @property
    def story(self) -> list[Decision | Audit]:
        """What people said of it and what they took back, the oldest first."""
        return sorted((*self.decisions, *self.taken_back), key=lambda row: row.at)

    @property
    def last(self) -> Decision | None:
        return self.decisions[-1] if self.decisions else None

    @cached_property
    def evidence(self) -> list[Evidence]:
        """Against first: what speaks against it must be read before the rest. It quotes what the arguments do, and is
        for the same people."""
        return in_order(self.action.evidence) if self.may_read else []

    @cached_property
    def similar(self) -> Similar | None:
        """How earlier requests like it ended; only while somebody must decide."""
        return similar_to(self.action, self.now) if self.is_open else None

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


def card_of(
    action: Action, reader: User, now: datetime, *, fresh: bool = False, posted: Mapping[str, str] | None = None
) -> Card:
    """Collect what the card shows."""
    waits = action.status == Status.AWAITING
    ruling = policy.ruling_of(action, known=policy.InForce.read(now)) if waits else None
    card = Card(
        action=action,
        reader=reader,
        now=now,
        decisions=tuple(action.decisions.select_related("by").order_by("id")),
        taken_back=takes_back_of(action) if action.revision > 1 else (),  # it makes the next revision
        attempts=tuple(action.attempts.order_by("number")),
        letter=DeadLetter.objects.filter(kind="action", action_id=action.pk).first(),
        undoers=tuple(action.compensated_by.order_by("pk")),
        told=tuple(Notice.objects.about(action)),
        newer=newer_than(action) if action.status == Status.SUPERSEDED else None,
        review=Review.objects.filter(action=action).select_related("by").first() if action.is_settled else None,
        barred=why_not(action, reader, ruling) if waits else "",
        ruling=ruling,
        fresh=fresh,
        posted=posted,
    )
    if not card.may_read:
        action.title = action.kind  # a headline is made of arguments
    return card


def takes_back_of(action: Action) -> tuple[Audit, ...]:
    return tuple(Audit.objects.taken_back().filter(ref=str(action.pk)).order_by("id"))


def newer_than(action: Action) -> Action | None:
    """What the same step asked for after this."""
    same = Action.objects.filter(kind=action.kind, step=action.step, origin_run=action.origin_run, pk__gt=action.pk)
    return same.order_by("pk").first() if action.origin_run else None
