"""What programs outside ask over HTTP: an action, once a key. It hangs at the address of api.py, which reads them."""

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Header, Schema, Status
from pydantic import Field

from approvals import outside, policy, schemas
from approvals.api import own, router
from approvals.call_backs import secret_of
from approvals.models import Action
from project.lib.schema import Moment
from project.people.auth import Forbidden, caller
from triggers.api import found
from triggers.schemas import Strict

LONGEST_KEY = 180
LONGEST_TEXT = 2000

Key = Annotated[
    str, Field(min_length=1, max_length=LONGEST_KEY, pattern=r"^[\x21-\x7e]+$"), Header(alias="Idempotency-Key")
]


class ProposalIn(Strict):
    """What is asked for. There is no member for the tier, for who must nod or for who asks: the desk says that."""

    kind: str = Field(min_length=1, max_length=64)
    connection: str | None = Field(None, max_length=64)
    arguments: dict[str, Any] = {}
    reason: str = Field("", max_length=LONGEST_TEXT)
    evidence: list[dict[str, Any] | str] = Field([], max_length=50)
    expires: float | None = Field(None, gt=0, allow_inf_nan=False)
    callback_url: str | None = Field(None, max_length=LONGEST_TEXT)


class ProposalOut(schemas.ActionOut):
    """The action; with a `callback_url` also the secret by which call-backs for this token are signed."""

    callback_secret: str | None = None


@router.post("/actions", response={200: ProposalOut, 201: ProposalOut}, tags=["actions"])
def ask_for_action(request: HttpRequest, body: ProposalIn, idempotency_key: Key) -> Any:
    """201 for a new one; 200 with the same action, as it is now, for the same key and body within 24 hours."""
    who = caller(request)
    who.need("propose")
    if who.token is None:
        raise Forbidden("A program asks with its token; people let handlers ask.")
    action, is_new = outside.ask(who.token, idempotency_key, outside.Wanted(**body.dict()))
    shown = schemas.ActionOut.of(action, reviewers=list(policy.ruling_of(action).reviewers), arguments=True)
    secret = secret_of(who.token) if body.callback_url else None
    return Status(201 if is_new else 200, {**shown, "callback_secret": secret})


class ConsumeIn(Strict):
    """`digest` is that of what was approved; `under` any name of one taking, so that it can be asked for again."""

    digest: str = Field(max_length=80)
    under: str = Field(min_length=1, max_length=64, pattern=r"^[\x21-\x7e]+$")


class ConsumedOut(Schema):
    id: int
    digest: str
    revision: int
    used_at: Moment


@router.post("/actions/{int:id}/consume", response=ConsumedOut, tags=["actions"])
def consume_action(request: HttpRequest, id: int, body: ConsumeIn) -> Any:
    """Take up a yes before you do what it allows: the first call gets it, every other one 409 `used_up`."""
    who = caller(request)
    who.need("propose")
    if who.token is None:
        raise Forbidden("Whoever asked takes up the yes, with the token it asked with.")
    action = found(own(Action.objects.all(), who), pk=id)
    return outside.consume(action, who.token, digest=body.digest, under=body.under)


__all__ = ["router"]
