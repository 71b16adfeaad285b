"""Actions, decisions and connections over HTTP: the same doors as the pages."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from django.db import connection
from django.http import HttpRequest
from ninja import Query, Router, Status
from pydantic import Field

from approvals import authority, clearing, connect, decide, outside, policy, schemas
from approvals.models import Action, Connection
from approvals.models.action import ActionQuerySet
from approvals.rules import Ruling
from approvals.tiers import Tier
from project.lib.pages import Page, listing
from project.people import doors
from project.people.auth import Caller, Forbidden, caller
from project.people.models import User
from triggers.api import found

LOOK_AGAIN = 0.5  # seconds between two looks of somebody who waits
MOST_WAITING = 50  # requests of one process that may wait at a time; the next ones are answered at once
waiting = threading.BoundedSemaphore(MOST_WAITING)

router = Router()


@router.get("/actions", response=Page[schemas.ActionRow], tags=["actions"])
def list_actions(request: HttpRequest, filters: Query[schemas.ActionFilters]) -> Any:
    who = caller(request)
    rows = Action.objects.for_lists()
    if not who.may("view"):
        who.need("propose")
        rows = own(rows, who)
    if filters.format == "csv":
        shown = partial(schemas.ActionLine.of, arguments=who.may("payloads"), told=partial(tells_title, who))
        return listing(request, rows.for_tables(), filters, shown, row=schemas.ActionLine)
    return listing(request, rows, filters, partial(facts, who), row=schemas.ActionRow)


@router.get("/actions/{int:id}", response=schemas.ActionOut, tags=["actions"])
def get_action(request: HttpRequest, id: int, wait: Annotated[float, Field(ge=0, le=60)] = 0) -> Any:
    """With `wait` the answer comes when the action no longer waits for people, at the latest after so many seconds."""
    who = caller(request)
    action = visible(who, id)
    if wait and action.status == "awaiting" and waiting.acquire(blocking=False):
        try:
            action = patiently(who, id, wait)
        finally:
            waiting.release()
    ruling = policy.ruling_of(action)
    shown = may_read(who, action, ruling)
    return schemas.ActionOut.of(action, reviewers=list(ruling.reviewers), arguments=shown)


@router.post("/actions/{int:id}/decisions", response={200: schemas.SaidOut, 201: schemas.SaidOut}, tags=["actions"])
def decide_action(request: HttpRequest, id: int, body: schemas.DecisionIn) -> Any:
    """201 when it counts, 200 when the same person had said the same of the same revision."""
    who = caller(request)
    action = visible(who, id)
    who.need_scope("decide")
    channel = decide.BY_TOKEN if who.token else "page"
    proof, origin = proof_of(request), doors.origin_of(request)
    said = decide.decide(action, by=person(who), proof=proof, channel=channel, origin=origin, **body.dict())
    return Status(201 if said.is_new else 200, said)


@router.post("/actions/{int:id}/cancel", response=schemas.ActionRow, tags=["actions"])
def cancel_action(request: HttpRequest, id: int, body: schemas.CancelIn | None = None) -> Any:
    who = caller(request)
    action = visible(who, id)
    reason = body.reason if body else ""
    if who.token is not None and action.token_id == who.token.pk:
        outside.withdraw(action, who.token, reason)
        return facts(who, visible(who, id))
    asked = who.user is not None and action.requested_by_id == who.user.pk
    who.need_scope("operate", "decide", *(["propose"] if asked else []))
    decide.cancel(action, by=person(who), reason=reason)
    return facts(who, visible(who, id))


@router.post("/actions/{int:id}/take-back", response=schemas.ActionRow, tags=["actions"])
def take_back(request: HttpRequest, id: int) -> Any:
    who = caller(request)
    action = visible(who, id)
    who.need_scope("decide", "configure")
    decide.take_back(action, by=person(who))
    return facts(who, visible(who, id))


@router.post("/actions/{int:id}/outcome", response=schemas.ActionRow, tags=["actions"])
def settle_action(request: HttpRequest, id: int, body: schemas.OutcomeIn) -> Any:
    """What became of an action whose outcome is not known: `delivered`, `not_sent` (it is sent again) or `failed`."""
    who = caller(request)
    action = visible(who, id)
    who.need_scope("decide" if action.tier == Tier.HIGH else "operate")
    clearing.settle_unknown(action, by=person(who), status=body.status, note=body.note, proof=proof_of(request))
    return facts(who, visible(who, id))


@router.get("/connections", response=Page[schemas.ConnectionOut], tags=["connections"])
def list_connections(request: HttpRequest, filters: Query[schemas.ConnectionFilters]) -> Any:
    caller(request).need("view")
    return listing(request, Connection.objects.kept(), filters, schemas.ConnectionOut.of, row=schemas.ConnectionOut)


@router.get("/connections/{slug:slug}", response=schemas.ConnectionOut, tags=["connections"])
def get_connection(request: HttpRequest, slug: str) -> Any:
    caller(request).need("view")
    return schemas.ConnectionOut.of(found(Connection.objects.kept(), slug=slug))


@router.post("/connections", response={201: schemas.ConnectionOut}, tags=["connections"])
def make_connection(request: HttpRequest, body: schemas.ConnectionIn) -> Any:
    who = caller(request)
    who.need_fresh_admin(request)
    row = connect.make_connection(by=who.user, **body.dict())
    return Status(201, schemas.ConnectionOut.of(row))


@router.patch("/connections/{slug:slug}", response=schemas.ConnectionOut, tags=["connections"])
def change_connection(request: HttpRequest, slug: str, body: schemas.ConnectionPatch) -> Any:
    who = caller(request)
    who.need_fresh_admin(request)
    fields = body.dict(exclude_unset=True, exclude={"version"})
    row = found(Connection.objects.kept(), slug=slug)
    row = connect.change_connection(row, by=who.user, version=body.version, **fields)
    return schemas.ConnectionOut.of(row)


@router.delete("/connections/{slug:slug}", response={204: None}, tags=["connections"])
def archive_connection(request: HttpRequest, slug: str) -> Any:
    who = caller(request)
    who.need_fresh_admin(request)
    connect.archive_connection(found(Connection.objects.kept(), slug=slug), by=who.user)
    return Status(204, None)


def visible(who: Caller, id: int) -> Action:
    """The action, or 404; a token that may only propose sees what it proposed itself, and nothing of its owner's."""
    rows = Action.objects.for_pages()
    if not who.may("view") and not (who.token and who.may("decide")):
        if not who.may("propose"):
            found(rows, pk=id)
            who.need("view")
        rows = own(rows, who)
    action: Action = found(rows, pk=id)
    return action


def own(rows: ActionQuerySet, who: Caller) -> ActionQuerySet:
    """What this very token asked for."""
    return rows.filter(token=who.token) if who.token else rows.none()


def may_read(who: Caller, action: Action, ruling: Ruling) -> bool:
    """A person's token reads what its scope allows of what the person may, and any token what it asked for."""
    if who.token is None:
        return authority.may_read(action, person(who), ruling)
    if action.token_id == who.token.pk or who.may("payloads") or who.may("decide"):
        return True
    return who.user is not None and action.asked_by(who.user)


def tells_title(who: Caller, action: Action) -> bool:
    """The same for a list, whose rows are not judged by the policy."""
    if who.token is None:
        return action.tells_title_to(person(who))
    if action.token_id == who.token.pk or who.may("payloads") or who.may("decide"):
        return True
    return who.user is not None and who.user.pk in action.requester_chain


def facts(who: Caller, action: Action) -> dict[str, Any]:
    return schemas.ActionRow.facts(action, told=tells_title(who, action))


def person(who: Caller) -> User:
    """Only people decide; a service never does."""
    if who.user is None:
        raise Forbidden("A service cannot do that; a person must.")
    return who.user


def proof_of(request: HttpRequest) -> Callable[[], bool]:
    """Takes the fresh sign-in of this browser; a token has none."""
    return lambda: caller(request).token is None and doors.use_up(request)


def patiently(who: Caller, id: int, seconds: float) -> Action:
    """Look at the row now and then, holding no connection to the database in between."""
    deadline = time.monotonic() + seconds
    action = visible(who, id)
    while action.status == "awaiting" and (left := deadline - time.monotonic()) > 0:
        if not connection.in_atomic_block:
            connection.close()
        time.sleep(min(LOOK_AGAIN, left))
        action = visible(who, id)
    return action
