"""The policy over HTTP: everybody may read it; an admin in person, freshly signed in, changes it, never a token."""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from ninja import Query, Router, Status

from approvals import amending
from approvals import policy_schemas as schemas
from approvals.models import PolicyChange, PolicyRule
from project.lib.pages import Page, listing
from project.people.auth import Caller, caller
from project.people.models import User
from triggers.api import found

router = Router(tags=["policies"])
Saved = {201: schemas.RuleOut, 202: schemas.ChangeOut}


@router.get("/policies", response=Page[schemas.RuleOut])
def list_policies(request: HttpRequest, filters: Query[schemas.PolicyFilters]) -> Any:
    caller(request).need("view")
    rows = PolicyRule.objects.kept().select_related("changed_by")
    return listing(request, rows, filters, schemas.RuleOut.of, row=schemas.RuleOut)


@router.get("/policies/{slug:slug}", response=schemas.RuleOut)
def get_policy(request: HttpRequest, slug: str) -> Any:
    caller(request).need("view")
    return schemas.RuleOut.of(kept(slug))


@router.post("/policies", response=Saved)
def make_policy(request: HttpRequest, body: schemas.RuleIn) -> Any:
    """201, or 202 when it loosens what is high: it waits for a second admin then, and is not in force."""
    by = admin(request)
    return told(amending.save("create", body.slug, None, by=by, **fields_of(body, exclude={"slug"})), new=True)


@router.patch("/policies/{slug:slug}", response={200: schemas.RuleOut, 202: schemas.ChangeOut})
def change_policy(request: HttpRequest, slug: str, body: schemas.RulePatch) -> Any:
    """200, or 202 when it loosens what is high."""
    by = admin(request)
    fields = fields_of(body, exclude={"version"}, exclude_unset=True)
    return told(amending.save("change", slug, kept(slug), by=by, version=body.version, **fields))


@router.delete("/policies/{slug:slug}", response={204: None, 202: schemas.ChangeOut})
def archive_policy(request: HttpRequest, slug: str) -> Any:
    """204, or 202 when it loosens what is high."""
    by, row = admin(request), kept(slug)
    saved = amending.save("archive", slug, row, by=by, version=row.version)
    return told(saved) if isinstance(saved, PolicyChange) else Status(204, None)


@router.post("/policy-backtests", response=schemas.BacktestOut)
def try_policy(request: HttpRequest, body: schemas.BacktestIn) -> Any:
    """What a rule would have done to the actions of the last 30 days. Nothing is saved.

    For those who may make rules: whoever asks which actions an expression matches reads their arguments."""
    who = caller(request)
    who.need("configure")
    row = PolicyRule.objects.kept().filter(slug=body.slug).first()
    draft = amending.amended("change" if row else "create", body.slug, row, **fields_of(body, exclude={"slug"}))
    draft.backtest.shown_to(who.user or AnonymousUser())
    return schemas.BacktestOut.of(draft)


@router.get("/policy-changes", response=Page[schemas.ChangeOut])
def list_changes(request: HttpRequest, filters: Query[schemas.ChangeFilters]) -> Any:
    caller(request).need("view")
    rows = PolicyChange.objects.select_related("by", "ended_by")
    return listing(request, rows, filters, schemas.ChangeOut.of, row=schemas.ChangeOut)


@router.post("/policy-changes/{int:id}/confirm", response=schemas.ChangeOut)
def confirm_change(request: HttpRequest, id: int) -> Any:
    """By an admin who is not the one that asked for it."""
    by = admin(request)
    amending.confirm(one_change(id), by=by)
    return schemas.ChangeOut.of(one_change(id))


@router.post("/policy-changes/{int:id}/withdraw", response=schemas.ChangeOut)
def withdraw_change(request: HttpRequest, id: int) -> Any:
    by = admin(request)
    amending.withdraw(one_change(id), by=by)
    return schemas.ChangeOut.of(one_change(id))


def admin(request: HttpRequest) -> User:
    who: Caller = caller(request)
    who.need_fresh_admin(request)
    assert who.user is not None
    return who.user


def kept(slug: str) -> PolicyRule:
    row: PolicyRule = found(PolicyRule.objects.kept().select_related("changed_by"), slug=slug)
    return row


def one_change(id: int) -> PolicyChange:
    row: PolicyChange = found(PolicyChange.objects.select_related("by", "ended_by"), pk=id)
    return row


def fields_of(body: schemas.RuleFields, **which: Any) -> dict[str, Any]:
    return body.dict(by_alias=True, **which)


def told(saved: PolicyRule | PolicyChange, *, new: bool = False) -> Any:
    if isinstance(saved, PolicyChange):
        return Status(202, schemas.ChangeOut.of(saved))
    return Status(201 if new else 200, schemas.RuleOut.of(saved))
