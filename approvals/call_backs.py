"""A program outside is told once that its action has ended: a signed message, sent again until it was taken.

It says what happened to which action and nothing else, so it may come late, twice (under the same `webhook-id`) or
never; whoever gets it reads the action with its own token. It has its own row, and causes nothing in the desk.
"""

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import F

from approvals.models import Action, CallBack
from project.lib import backoff, clock
from project.lib.apart import each
from project.lib.crypto import Unreadable
from project.lib.egress import EgressError, Session
from project.lib.failpoints import failpoint
from project.lib.schema import rfc3339
from project.people.models import ApiToken

PAUSES = (30, 60, 300, 1800, 7200, 21600, 86400)  # seconds until the next try; after the last one it is given up
BUDGET = timedelta(seconds=10)  # of one call; shorter than the shortest pause, so that no two are under way
MOST_READ = 4096  # bytes of an answer that nobody uses
ROUND = 50
GONE = 410  # the far side wants no more of them
TYPE = "action.settled"


def tick() -> int:
    """Call everybody whose action has ended; safe when two rounds run at once."""
    due = CallBack.objects.all().due(clock.now()).order_by("due_at").values_list("pk", flat=True)
    return each(call, list(due[:ROUND]))


def call(number: int) -> bool:
    """One try, unless another round was faster. The next one is planned before: a crash loses nothing."""
    now = clock.now()
    row = CallBack.objects.all().due(now).filter(pk=number).select_related("action__token", "action__proposal").first()
    if row is None:
        return False
    later = now + backoff.around(PAUSES[row.tries]) if row.tries < len(PAUSES) else None
    mine = CallBack.objects.filter(pk=number, due_at=row.due_at, tries=row.tries)
    if not mine.update(tries=F("tries") + 1, due_at=later):
        return False
    answered = send(row)
    fields: dict[str, Any] = {"error": answered.error}
    if answered.is_final:
        fields["due_at"] = None
    if answered.was_taken:
        fields["told_at"] = clock.now()
    CallBack.objects.filter(pk=number).update(**fields)
    return answered.was_taken


@dataclass(frozen=True, slots=True)
class Answered:
    """How one try ended: `error` is empty when it was taken; what is final is not tried again."""

    error: str = ""
    is_final: bool = True

    @property
    def was_taken(self) -> bool:
        return not self.error


def send(row: CallBack) -> Answered:
    token = row.action.token
    assert token is not None  # a call-back is made for a token's action only
    body = message(row.action)
    failpoint("before_call_back")
    try:
        with Session(BUDGET, max_answer=MOST_READ) as http:
            answer = http.call(
                "POST", row.url, headers=signed(token, f"action-{row.action_id}-settled", body), content=body
            )
    except EgressError as error:
        return Answered(str(error)[:300] or "no answer", is_final=False)
    except Unreadable:
        return Answered("its address was sealed with a key that FIELD_KEY no longer holds")
    if answer.status < 300:
        return Answered()
    return Answered(f"{answer.host}: status {answer.status}", is_final=answer.status == GONE)


def message(action: Action) -> bytes:
    """What is sent: no argument and no result, which only a token reads."""
    facts = {
        "id": action.pk,
        "status": action.status,
        "kind": action.kind,
        "key": action.proposal.key,
        "digest": action.digest,
        "revision": action.revision,
        "url": f"{settings.BASE_URL}/actions/{action.pk}",
    }
    at = rfc3339(action.settled_at) if action.settled_at else ""
    return json.dumps({"type": TYPE, "timestamp": at, "data": facts}).encode()


def signed(token: ApiToken, id: str, body: bytes) -> dict[str, str]:
    """Headers of Standard Webhooks: `v1` is HMAC-SHA256 over `id.timestamp.body`."""
    at = str(int(clock.now().timestamp()))
    digest = hmac.new(key_of(token), f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": at,
        "webhook-signature": signature,
    }


def key_of(token: ApiToken) -> bytes:
    """Of each token its own, made from what the desk alone knows; it is stored nowhere."""
    return hmac.new(settings.SECRET_KEY.encode(), f"call-back:{token.hash}".encode(), hashlib.sha256).digest()


def secret_of(token: ApiToken) -> str:
    """The same as receivers enter it: `whsec_` and base64."""
    return f"whsec_{base64.b64encode(key_of(token)).decode()}"
