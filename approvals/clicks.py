"""A button was pressed in a chat. It decides for the person who linked that account here, on medium, on what the
message showed, once; else it decides nothing and the answer says why.

The far side signs what it sends, so who pressed is proved; a click is claimed by the far side's own name for it before
anything is done, so that the same one, sent again, is not a second one.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction

from approvals.carriers import clicks_of
from approvals.decide import decide
from approvals.errors import ApprovalProblem, NotSent, OutcomeUnknown, Refused
from approvals.kinds import Far
from approvals.models import Action, Channel, Click, Connection
from approvals.pressing import TEST, Call, Pressed
from approvals.tiers import Tier
from approvals.wording import said
from project.lib import clock
from project.lib.crypto import Unreadable
from triggers.sources.forged import Forged

logger = logging.getLogger("nightdesk.chat")
ANSWER_WITHIN = timedelta(seconds=2)  # the far sides wait three for all of it
LINK_FIRST = "This account is linked to nobody here: link it under Settings, Notifications. Nothing was decided."
USED = "This click was taken already. Nothing new was decided."
ON_THE_PAGE = "Only medium is decided here; open the page for this one. Nothing was decided."
NOT_OURS = "This button does not belong to a request of this desk. Nothing was decided."


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the desk made of it: a code for the row, words for the person; empty where nothing need be said."""

    code: str
    words: str


def hear(connection: Connection | None, call: Call, *, remote: str) -> dict[str, Any]:
    """Check that the far side says it, and do what was pressed; what it wants to read as the answer.

    Raises Forged; what is no click of ours is let go."""
    ways = clicks_of(connection.system) if connection else None
    if connection is None or ways is None:
        raise Forged("no_secret", "there is no such connection")
    heard = ways.hear(connection.config, connection.secrets, call)
    answer = heard.answer
    for pressed in heard.pressed:
        words = take(connection, pressed, remote).words
        if words and ways.toast:
            answer = ways.toast(words)
        elif words and ways.whisper:
            whispered(connection, ways.whisper, pressed, words)
    return answer


def take(connection: Connection, pressed: Pressed, remote: str) -> Verdict:
    """Claim the click, then do what it says; what came of it is written beside it."""
    mine = Channel.objects.usable().filter(connection=connection, identity=pressed.identity).exclude(identity="")
    channel = mine.select_related("person").first()
    given = {
        "identity": pressed.identity[:254],
        "message": pressed.message,
        "remote": remote[:45],
        "at": clock.now(),
        "person": channel.person if channel else None,
    }
    with transaction.atomic():
        row, is_new = Click.objects.get_or_create(connection=connection, claim=pressed.claim[:255], defaults=given)
    if not is_new and row.outcome:  # one that was cut short is heard when it is sent again: its yes counts once anyway
        return Verdict("taken", USED)
    verdict = deed(row, channel, pressed)
    Click.objects.filter(pk=row.pk).update(outcome=verdict.code[:32])
    logger.info("click %s: %s", row.pk, verdict.code)
    return verdict


def deed(row: Click, channel: Channel | None, pressed: Pressed) -> Verdict:
    if channel is None:
        return Verdict("unlinked", LINK_FIRST)
    if pressed.name == TEST:
        if pressed.value != str(channel.pk):
            return Verdict("not_ours", NOT_OURS)
        Channel.objects.filter(pk=channel.pk).update(pressed_at=row.at)
        return Verdict("tested", "It works: your clicks arrive.")
    shown = shown_in(pressed.value)
    if shown is None:
        return Verdict("not_ours", NOT_OURS)
    row.action_id, row.digest, row.revision = shown
    row.save(update_fields=["action_id", "digest", "revision"])
    action = Action.objects.filter(pk=row.action_id).first()
    if action is None:
        return Verdict("not_ours", NOT_OURS)
    return decided(action, channel, row)


def shown_in(value: str) -> tuple[int, str, int] | None:
    """`(id, digest, revision)` of what the button stood under."""
    try:
        told: Any = json.loads(value)
        number, digest, revision = told["id"], told["digest"], told["revision"]
    except (ValueError, LookupError, TypeError):
        return None
    plain = type(number) is int and type(revision) is int and isinstance(digest, str)
    return (number, digest[:80], revision) if plain and 0 < number < 2**63 and 0 < revision < 2**31 else None


def decided(action: Action, channel: Channel, click: Click) -> Verdict:
    if action.tier != Tier.MEDIUM:
        return Verdict("not_in_chat", ON_THE_PAGE)
    asked = clock.now()
    try:
        how: dict[str, Any] = {"channel": channel.connection.system, "origin": {"remote": click.remote}}
        decide(action, by=channel.person, verdict="approve", digest=click.digest, revision=click.revision or 0, **how)
    except ApprovalProblem as problem:
        refusal = said(problem, asked)
        return Verdict(refusal.code, f"{refusal.headline} {refusal.detail}".strip())
    return Verdict("approved", "")


def whispered(
    connection: Connection, whisper: Callable[[Far, Pressed, str], None], pressed: Pressed, words: str
) -> None:
    """Only the person who pressed reads it. It may be lost: the message itself is brought up to date by the desk."""
    try:
        whisper(connection.far(ANSWER_WITHIN), pressed, words)
    except (NotSent, Refused, OutcomeUnknown, Unreadable) as error:
        logger.warning("click not answered: %s", error)
