"""Sources, triggers and the switch over HTTP."""

import base64
from functools import partial
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from project.lib import clock
from project.lib.pages import Page, listing
from project.people.auth import Caller, caller
from triggers import configure, fire, pausing, refusals, routing, trying, upkeep
from triggers import schemas_config as schemas
from triggers import schemas_trials as trials
from triggers.api import found
from triggers.errors import NotValid
from triggers.listeners.tryout import try_out
from triggers.models import Event, Source, Trigger
from triggers.sources import fitting
from triggers.sources.places import headers_in
from triggers.sources.schedule import preview

router = Router()


@router.get("/sources", response=Page[schemas.SourceOut], tags=["sources"])
def list_sources(request: HttpRequest, filters: Query[schemas.SourceFilters]) -> Any:
    caller(request).need("view")
    return listing(request, Source.objects.kept(), filters, schemas.SourceOut.of, row=schemas.SourceOut)


@router.post("/sources/fit", response=schemas.FitsOut, tags=["sources"])
def fit_request(request: HttpRequest, body: schemas.RequestIn) -> Any:
    """Which provider, or which description, fits one real request and its secret; nothing is kept."""
    may_configure(request)
    return {"fits": fitting.fitting(headers_of(body), raw_of(body), body.secret, body.url)}


@router.post("/sources/preview", response=schemas.PreviewOut, tags=["sources"])
def preview_schedule(request: HttpRequest, body: schemas.PreviewIn) -> Any:
    """When a schedule would ring, by the code that rings it; nothing is saved."""
    caller(request).need("view")
    return preview(body.config, body.count, body.after or clock.now())


@router.get("/sources/{slug:slug}", response=schemas.SourceOut, tags=["sources"])
def get_source(request: HttpRequest, slug: str) -> Any:
    caller(request).need("view")
    return schemas.SourceOut.of(found(Source.objects.kept(), slug=slug), vitals=True)


@router.post("/sources", response={201: schemas.SourceOut}, tags=["sources"])
def make_source(request: HttpRequest, body: schemas.SourceIn) -> Any:
    who = may_configure(request, secrets=bool(body.secrets))
    fields = body.dict(exclude={"slug", "secrets"})
    source = configure.make_source(by=who.user, slug=body.slug, secrets=secrets_of(body), **named(fields))
    return Status(201, schemas.SourceOut.of(source))


@router.patch("/sources/{slug:slug}", response=schemas.SourceOut, tags=["sources"])
def change_source(request: HttpRequest, slug: str, body: schemas.SourcePatch) -> Any:
    may_configure(request)
    source = found(Source.objects.kept(), slug=slug)
    fields = body.dict(exclude_unset=True, exclude={"version", "secrets"})
    leads_elsewhere = configure.leads_elsewhere(source, fields.get("config"))
    who = may_configure(request, secrets="secrets" in body.model_fields_set or leads_elsewhere)
    if "secrets" in body.model_fields_set:
        fields["secrets"] = secrets_of(body)
    changed_row = configure.change_source(source, by=who.user, version=body.version, **fields)
    return schemas.SourceOut.of(changed_row)


@router.delete("/sources/{slug:slug}", response={204: None}, tags=["sources"])
def archive_source(request: HttpRequest, slug: str) -> Any:
    who = may_configure(request)
    upkeep.archive(found(Source.objects.kept(), slug=slug), by=who.user)
    return Status(204, None)


@router.post("/sources/{slug:slug}/backfill", response={202: schemas.FilledOut}, tags=["sources"])
def backfill(request: HttpRequest, slug: str, body: schemas.RangeIn) -> Any:
    """Ring the slots of a past range that have not rung, in order; tick does it within seconds."""
    who = caller(request)
    who.need("operate")
    source = found(Source.objects.kept().filter(kind="schedule"), slug=slug)
    return Status(202, {"slots": fire.backfill(source, body.since, body.until, by=who.user)})


@router.post("/sources/{slug:slug}/try", response=schemas.TriedOut, tags=["sources"])
def try_source(request: HttpRequest, slug: str) -> Any:
    """Connect once as its listener does; nothing is read. 422 says what is wrong."""
    may_configure(request)
    return {"detail": try_out(found(Source.objects.kept(), slug=slug))}


@router.get("/sources/{slug:slug}/refusals", response=Page[schemas.RefusalOut], tags=["sources"])
def list_refusals(request: HttpRequest, slug: str, filters: Query[schemas.RefusalFilters]) -> Any:
    who = caller(request)
    who.need("view")
    rows = found(Source.objects.kept(), slug=slug).refusals.all()
    shown = partial(schemas.RefusalOut.of, payload=who.may("payloads"))
    return listing(request, rows, filters, shown, row=schemas.RefusalOut)


@router.post("/sources/{slug:slug}/refusals/{int:id}/admit", response=schemas.AdmittedOut, tags=["sources"])
def admit_refusal(request: HttpRequest, slug: str, id: int) -> Any:
    """Check it again, by the time it came and the secrets of now; what proves itself then is taken in."""
    who = caller(request)
    who.need("operate")
    refusal = found(found(Source.objects.kept(), slug=slug).refusals.select_related("source"), pk=id)
    outcomes = refusals.admit(refusal, by=who.user)
    events = [{"id": one.ce_id, "source": slug, "seq": one.seq, "status": one.status} for one in outcomes]
    return {"events": events}


@router.get("/triggers", response=Page[schemas.TriggerOut], tags=["triggers"])
def list_triggers(request: HttpRequest, filters: Query[schemas.TriggerFilters]) -> Any:
    caller(request).need("view")
    return listing(request, Trigger.objects.kept(), filters, schemas.TriggerOut.of, row=schemas.TriggerOut)


@router.get("/triggers/{slug:slug}", response=schemas.TriggerOut, tags=["triggers"])
def get_trigger(request: HttpRequest, slug: str) -> Any:
    caller(request).need("view")
    return schemas.TriggerOut.of(found(Trigger.objects.kept(), slug=slug), health=True)


@router.post("/triggers", response={201: schemas.TriggerOut}, tags=["triggers"])
def make_trigger(request: HttpRequest, body: schemas.TriggerIn) -> Any:
    who = may_configure(request)
    fields = body.dict(exclude={"slug"})
    trigger = configure.make_trigger(by=who.user, slug=body.slug, **named(fields))
    return Status(201, schemas.TriggerOut.of(trigger))


@router.patch("/triggers/{slug:slug}", response=schemas.TriggerOut, tags=["triggers"])
def change_trigger(request: HttpRequest, slug: str, body: schemas.TriggerPatch) -> Any:
    who = may_configure(request)
    trigger = found(Trigger.objects.kept(), slug=slug)
    fields = body.dict(exclude_unset=True, exclude={"version"})
    changed_row = configure.change_trigger(trigger, by=who.user, version=body.version, **fields)
    return schemas.TriggerOut.of(changed_row)


@router.delete("/triggers/{slug:slug}", response={204: None}, tags=["triggers"])
def archive_trigger(request: HttpRequest, slug: str) -> Any:
    who = may_configure(request)
    upkeep.archive(found(Trigger.objects.kept(), slug=slug), by=who.user)
    return Status(204, None)


@router.post("/triggers/{slug:slug}/test", response=trials.TrialsOut, tags=["triggers"])
def try_trigger(request: HttpRequest, slug: str, body: trials.TrialIn | None = None) -> Any:
    """What it would do with one event, or with the newest ones of its source: matches, or why not. Nothing runs.

    A `draft` may ask anything of payloads, so it is for those who may configure and read them."""
    wish = body or trials.TrialIn.model_validate({})
    if wish.draft:
        who = may_configure(request)
        who.need("payloads")
        trigger = wish.draft.over(Trigger.objects.kept().filter(slug=slug).first())
        rule = trying.rule_of(trigger.source, trigger.type_pattern, trigger.filter)
    else:
        who = caller(request)
        who.need("view")
        trigger = found(Trigger.objects.kept(), slug=slug)
        rule = routing.rule_of(trigger)
    payload = who.may("payloads")
    told = [
        trials.TrialOut.of(trial, payload=payload) for trial in trying.try_on(rule, events_for(wish, trigger.source))
    ]
    lately = trying.estimate(rule, trigger.handler) if wish.estimate else None
    return {"matched": sum(trial["outcome"] == "matched" for trial in told), "events": told, "estimate": lately}


@router.post("/switch", response=schemas.SwitchOut, tags=["switch"])
def switch(request: HttpRequest, body: schemas.SwitchIn) -> Any:
    """Pause or open everything, or one handler, kind or source. Decisions stay possible, nothing is lost."""
    who = caller(request)
    who.need("operate")
    verb = pausing.pause if body.paused else pausing.resume
    return verb(body.scope, body.name, by=who.user, reason=body.reason)


def events_for(wish: trials.TrialIn, source: str) -> list[Any]:
    """What it is tried on; raises NotFound, NotValid."""
    if isinstance(wish.event, int):
        return [found(Event.objects.all(), pk=wish.event)]
    if wish.event is not None:
        return [trying.sample(wish.event, source)]
    if wish.sample:
        return [trying.sample_of(wish.sample, source)]
    if wish.after is not None:
        return trying.captured(source, wish.after)
    return trying.newest_events(source, most=wish.limit, since=wish.since)


def headers_of(body: schemas.RequestIn) -> dict[str, str]:
    pairs = [
        (name.lower().encode("latin-1", "replace"), text.encode("latin-1", "replace"))
        for name, text in body.headers.items()
    ]
    return headers_in(pairs, body.query.encode("latin-1", "replace"))


def raw_of(body: schemas.RequestIn) -> bytes:
    try:
        return base64.b64decode(body.body_base64, validate=True) if body.body_base64 else body.body.encode()
    except ValueError:
        raise NotValid("body_base64: no base64.", field="body_base64") from None


def may_configure(request: HttpRequest, *, secrets: bool = False) -> Caller:
    """An admin; with secrets an admin in person, freshly signed in."""
    who = caller(request)
    who.need("configure")
    if secrets:
        who.need_fresh_admin(request)
    return who


def named(fields: dict[str, Any]) -> dict[str, Any]:
    """Without the empty name, for which the slug stands in."""
    return fields if fields.get("name") else {name: value for name, value in fields.items() if name != "name"}


def secrets_of(body: schemas.SourceIn | schemas.SourcePatch) -> list[dict[str, Any]]:
    return [secret.model_dump(mode="json", exclude_none=True) for secret in body.secrets]
