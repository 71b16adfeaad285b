"""A button was pressed in a chat. It decides for the person who linked that account here, on medium, on what the
message showed, once; else it decides nothing and the answer says why.

Slack signs what it sends, so who pressed is proved; a click is claimed by Slack's own
name for it before anything is done, so that the same one, sent again, is not a second one.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

from django.db import transaction

from approvals.carriers import slack_call
from approvals.decide import decide
from approvals.errors import ApprovalProblem, NotSent, OutcomeUnknown, Refused
from approvals.letters import APPROVE
from approvals.models import Action, Channel, Click, Connection
from approvals.tiers import Tier
from approvals.wording import said
from project.lib import clock
from project.lib.crypto import Unreadable
from triggers.sources.verify import verify

logger = logging.getLogger("nightdesk.chat")
ANSWER_WITHIN = timedelta(seconds=2)  # Slack waits three for all of it
SIGNED = {  # "Verifying requests from Slack", in the words of triggers/sources/verify.py
    "scheme": "hmac",
    "digest": "sha256",
    "signed": "v0:{h:X-Slack-Request-Timestamp}:{body}",
    "signature": {"header": "X-Slack-Signature", "prefix": "v0=", "encoding": "hex"},
    "timestamp": {"header": "X-Slack-Request-Timestamp", "unit": "s", "tolerance": 300},
}
TEST = "test"
LINK_FIRST = "This account is linked to nobody here: link it under Settings, Notifications. Nothing was decided."
USED = "This click was taken already. Nothing new was decided."
ON_THE_PAGE = "Only medium is decided here; open the page for this one. Nothing was decided."
NOT_OURS = "This button does not belong to a request of this desk. Nothing was decided."


@dataclass(frozen=True, slots=True)
class Pressed:
    """One button that somebody pressed, as the far side tells it."""

    claim: str
    identity: str
    user: str
    name: str
    value: str
    message: dict[str, str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the desk made of it: a code for the row, words for the person; empty where nothing need be said."""

    code: str
    words: str


def hear(connection: Connection, body: bytes, headers: Mapping[str, str], *, remote: str) -> None:
    """Check that Slack says it, and do what was pressed. Raises Forged; what is no click of ours is let go."""
    secret = str(connection.secrets.get("signing_secret") or "").encode()
    verify(SIGNED, body, headers, [secret] if secret else [], now=clock.now().timestamp())
    for pressed in read(body):
        verdict = take(connection, pressed, remote)
        if verdict.words:
            answer(connection, pressed, verdict.words)


def read(body: bytes) -> list[Pressed]:
    """The buttons of ours in one call-back; none in whatever else Slack tells us."""
    try:
        told = json.loads(parse_qs(body.decode())["payload"][0])
        if told["type"] != "block_actions":
            return []
        user, message = told["user"], told["container"]
        ours = [each for each in told["actions"] if each.get("action_id") in (APPROVE, TEST)]
        where = {"channel": str(message["channel_id"]), "ts": str(message["message_ts"])}
        team = str((told.get("team") or {}).get("id") or user["team_id"])
        member, trigger = str(user["id"]), str(told["trigger_id"])
        return [
            Pressed(
                f"{trigger}/{each['action_id']}", f"{team}/{member}", member, each["action_id"], each["value"], where
            )
            for each in ours
        ]
    except (ValueError, LookupError, TypeError, AttributeError):
        return []


def take(connection: Connection, pressed: Pressed, remote: str) -> Verdict:
    """Claim the click, then do what it says; what came of it is written beside it."""
    mine = Channel.objects.usable().filter(connection=connection, identity=pressed.identity)
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
    if not is_new:
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
    number, digest, revision = shown
    Click.objects.filter(pk=row.pk).update(action_id=number, digest=digest[:80], revision=revision)
    action = Action.objects.filter(pk=number).first()
    if action is None:
        return Verdict("not_ours", NOT_OURS)
    return decided(action, channel, digest, revision)


def shown_in(value: str) -> tuple[int, str, int] | None:
    """`(id, digest, revision)` of what the button stood under."""
    try:
        told: Any = json.loads(value)
        number, digest, revision = told["id"], told["digest"], told["revision"]
    except (ValueError, LookupError, TypeError):
        return None
    plain = type(number) is int and type(revision) is int and isinstance(digest, str)
    return (number, digest, revision) if plain and 0 < number < 2**63 and 0 < revision < 2**31 else None


def decided(action: Action, channel: Channel, digest: str, revision: int) -> Verdict:
    if action.tier != Tier.MEDIUM:
        return Verdict("not_in_chat", ON_THE_PAGE)
    asked = clock.now()
    try:
        decide(action, by=channel.person, verdict="approve", digest=digest, revision=revision, channel="slack")
    except ApprovalProblem as problem:
        refusal = said(problem, asked)
        return Verdict(refusal.code, f"{refusal.headline} {refusal.detail}".strip())
    return Verdict("approved", "")


def answer(connection: Connection, pressed: Pressed, words: str) -> None:
    """Only the person who pressed reads it. It may be lost: the message itself is brought up to date by the desk."""
    body = {"channel": pressed.message["channel"], "user": pressed.user, "text": words}
    try:
        slack_call(connection.far(ANSWER_WITHIN), "chat.postEphemeral", body)
    except (NotSent, Refused, OutcomeUnknown, Unreadable) as error:
        logger.warning("click not answered: %s", error)
