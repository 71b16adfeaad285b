"""What a message about a request says: facts of the frozen row in the desk's words, odd characters shown as such."""

import json
from datetime import datetime

from django.conf import settings

from approvals.carriers import carrier_of
from approvals.carrying import Letter
from approvals.links import link_to
from approvals.models import Action, Asking, Notice
from approvals.models.action import Status
from approvals.policy import is_question
from approvals.pressing import APPROVE
from approvals.refusals import how_it_ended
from approvals.tiers import Tier
from project.lib import canonical
from project.lib.visible import plain
from project.people.models import User

LONGEST_OUTCOME = 200  # characters
LONGEST_LINE = 500  # characters of one fact; the page says the rest
LONGEST_WHOLE = 1_000  # characters of all arguments; over it a message has no button
ENDS = {
    Status.APPROVED: "approved",
    Status.DELIVERING: "approved",
    Status.DELIVERED: "approved",
    Status.UNKNOWN: "approved",
    Status.FAILED: "approved",
    Status.REJECTED: "rejected",
    Status.CANCELLED: "withdrawn",
    Status.SUPERSEDED: "replaced by a newer request",
}


def letter_of(notice: Notice) -> Letter:
    """The message as it stands now."""
    asking, action = notice.asking, notice.asking.action
    headline = f"A-{action.pk} {plain(action.title)}"
    link = link_to(notice.follows or notice)
    key = f"notice-{notice.pk}"
    if notice.what == "end":
        follows = notice.follows.ref if notice.follows else None
        at = local(asking.closed_at or notice.due_at, notice.person)
        return Letter(f"{asking.outcome} ({at:%H:%M}): {headline}", (), link, follows=follows, key=key)
    still = "still waiting, " if notice.what == "remind" else ""
    until = f"expires {local(action.expires_at, notice.person):%H:%M}"
    title = f"[{settings.ENVIRONMENT}] {still}{Tier(action.tier).label}: {headline}, {until}"
    pressed = button(notice)
    exactly = (f"Exactly: {whole(action)}",) if pressed else ()
    return Letter(title, (*exactly, *facts(action, notice.person)), link, button=pressed, key=key)


def facts(action: Action, reader: User) -> tuple[str, ...]:
    against = [item for item in action.evidence if isinstance(item, dict) and item.get("for") is False]
    said = [
        f"Risk: {Tier(action.tier).label}",
        f"Against: {on_one_line(against[0].get('text', ''))}" if against else "",
        f"Asked by {on_one_line(action.asker)}",
        f"Undo: {action.reversible}" if action.reversible else "",
        f"Who notices: {action.blast_radius}" if action.blast_radius else "",
        f"If nobody decides it expires at {local(action.expires_at, reader):%H:%M, %d %B (%Z)}; nothing is sent.",
    ]
    return tuple(line for line in said if line)


def on_one_line(text: object) -> str:
    """What somebody else wrote: it can begin no line of its own, and push nothing of ours out of a message."""
    line = " ".join(plain(text).split())
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"


def whole(action: Action) -> str:
    """Every argument as it is sent, in one line of JSON."""
    return plain(canonical.text(action.arguments))


def button(notice: Notice) -> tuple[str, str] | None:
    """For medium only, only where the far side signs clicks of a person that is known there, and only where the message
    can show all that is approved: else it is read on the page."""
    action, channel = notice.asking.action, notice.channel
    signed = carrier_of(channel.connection.system, channel.address).clicks and channel.identity
    is_shown = action.is_intact and not action.title.endswith("…") and len(whole(action)) <= LONGEST_WHOLE
    if action.tier != Tier.MEDIUM or is_question(action) or not is_shown or not signed:
        return None
    shown = {"id": action.pk, "digest": notice.asking.digest, "revision": notice.asking.revision}
    return APPROVE, json.dumps(shown, separators=(",", ":"))


def outcome_of(asking: Asking, action: Action) -> str:
    """`Approved by Ben`; what became of what was asked, in a few words."""
    is_older = action.revision != asking.revision
    if is_older and action.status == Status.AWAITING:
        return "Changed since; you are asked anew"
    said = f"Changed since. {end_of(action)}" if is_older else end_of(action)  # an edit and the yes may be one press
    return said[:LONGEST_OUTCOME]


def end_of(action: Action) -> str:
    if action.status == Status.EXPIRED and action.reason_code == "expires_at":
        return "Expired: nobody decided, nothing was sent"
    if action.status == Status.EXPIRED:
        return "Expired: approved, but not carried out in time"
    ended = how_it_ended(action)
    by = f" by {plain(ended['by'])}" if ended["by"] else ""
    return f"{ENDS[Status(action.status)].capitalize()}{by}"


def local(moment: datetime, reader: User) -> datetime:
    return moment.astimezone(reader.zone)
