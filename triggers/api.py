"""Events, runs and dead letters over HTTP: the same verbs as on the pages."""

from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Status

from project.lib.pages import Page, listing
from project.lib.schema import NotFound
from project.people.auth import caller
from triggers import assigning, redrive, schemas, schemas_events, search
from triggers.errors import NotValid
from triggers.models import DeadLetter, Event, Run, Source, Trigger
from triggers.publish import publish
from triggers.unblock import unblock

router = Router()


@router.get("/events", response=Page[schemas.EventRow], tags=["events"])
def list_events(request: HttpRequest, filters: Query[schemas.EventFilters]) -> Any:
    """`q` looks through type, subject and id, and through payloads for whoever may see them."""
    who = caller(request)
    who.need("view")
    rows = Event.objects.without_payload()
    if filters.q:
        rows = rows.filter(search.matching(filters.q, payloads=who.may("payloads")))
    return listing(request, rows, filters, schemas.EventRow.facts, row=schemas.EventRow)


@router.post(
    "/events",
    response={202: schemas_events.Published, 200: schemas_events.Published},
    tags=["events"],
    openapi_extra=schemas_events.CLOUD_EVENTS,
)
def publish_events(request: HttpRequest, source: schemas.Slug = "api") -> Any:
    """CloudEvents 1.0: structured, binary, or a batch that is stored whole or not at all. 200: nothing was new."""
    who = caller(request)
    who.need("ingest")
    row = found(Source.objects.open(), slug=source, kind="cloudevents")
    told = publish(
        row,
        request.body,
        {name.lower(): value for name, value in request.headers.items()},
        requester_id=who.token.answered_for_by if who.token else who.user.pk if who.user else None,
        remote=request.META.get("REMOTE_ADDR", ""),
    )
    fresh = any(outcome.status != "duplicate" for _, outcome in told)
    return Status(202 if fresh else 200, {"events": [schemas_events.EventTold.of(*pair) for pair in told]})


@router.get("/events/{int:seq}", response=schemas.EventOut, tags=["events"])
def get_event(request: HttpRequest, seq: int) -> Any:
    who = caller(request)
    who.need("view")
    return schemas.EventOut.of(found(Event.objects.all(), pk=seq), payload=who.may("payloads"))


@router.post("/events/{int:seq}/run-again", response={201: schemas.RunRow}, tags=["events"])
def run_event_again(request: HttpRequest, seq: int, body: schemas.RunAgainIn) -> Any:
    who = caller(request)
    who.need("operate")
    event = found(Event.objects.all(), pk=seq)
    trigger = Trigger.objects.kept().filter(slug=body.trigger).first()
    if trigger is None:
        raise NotValid(f"There is no trigger `{body.trigger}`.", field="trigger")
    run = redrive.run_event_again(event, trigger, by=who.user)
    return Status(201, schemas.RunRow.facts(run))


@router.get("/runs", response=Page[schemas.RunRow], tags=["runs"])
def list_runs(request: HttpRequest, filters: Query[schemas.RunFilters]) -> Any:
    caller(request).need("view")
    rows = Run.objects.select_related("trigger").defer("result_json", "data_json", "error")
    return listing(request, rows, filters, schemas.RunRow.facts, row=schemas.RunRow)


@router.get("/runs/{int:id}", response=schemas.RunOut, tags=["runs"])
def get_run(request: HttpRequest, id: int) -> Any:
    who = caller(request)
    who.need("view")
    return schemas.RunOut.of(found(Run.objects.select_related("trigger"), pk=id), payload=who.may("payloads"))


@router.post("/runs/{int:id}/cancel", response={200: schemas.RunRow, 202: schemas.CancelOut}, tags=["runs"])
def cancel_run(request: HttpRequest, id: int) -> Any:
    """200 when it ended at once, 202 when a worker holds it and will stop at its next step."""
    who = caller(request)
    who.need("operate")
    run = found(Run.objects.all(), pk=id)
    if not redrive.cancel(run, by=who.user):
        return Status(202, {"cancel_requested": True})
    return Status(200, schemas.RunRow.facts(found(Run.objects.all(), pk=id)))


@router.post("/runs/{int:id}/rerun", response={201: schemas.RunRow}, tags=["runs"])
def rerun(request: HttpRequest, id: int, body: schemas.RerunIn | None = None) -> Any:
    who = caller(request)
    who.need("operate")
    run = found(Run.objects.all(), pk=id)
    wish = body or schemas.RerunIn.model_validate({})
    new = redrive.rerun(run, by=who.user, from_step=wish.from_step, reason=wish.reason, send_again=wish.send_again)
    return Status(201, schemas.RunRow.facts(new))


@router.post("/runs/{int:id}/choice", response={200: schemas.RunRow, 201: schemas.RunRow}, tags=["runs"])
def choose(request: HttpRequest, id: int, body: schemas.ChoiceIn) -> Any:
    """How a blocked run goes on: 200 with the run itself, 201 with the new one after `restart`."""
    who = caller(request)
    who.need("operate")
    run = unblock(found(Run.objects.all(), pk=id), by=who.user, choice=body.choice)
    fresh = found(Run.objects.select_related("trigger"), pk=run.pk)
    return Status(200 if run.pk == id else 201, schemas.RunRow.facts(fresh))


@router.get("/dead-letters", response=Page[schemas.LetterOut], tags=["dead letters"])
def list_letters(request: HttpRequest, filters: Query[schemas.LetterFilters]) -> Any:
    who = caller(request)
    who.need("view")
    shown = partial(schemas.LetterOut.of, payload=who.may("payloads"))
    return listing(request, DeadLetter.objects.with_assignee(), filters, shown, row=schemas.LetterOut)


@router.get("/dead-letters/{int:id}", response=schemas.LetterOut, tags=["dead letters"])
def get_letter(request: HttpRequest, id: int) -> Any:
    who = caller(request)
    who.need("view")
    return schemas.LetterOut.of(found(DeadLetter.objects.with_assignee(), pk=id), payload=who.may("payloads"))


@router.post(
    "/dead-letters/{int:id}/redrive", response={201: schemas.RunRow, 202: schemas.LetterOut}, tags=["dead letters"]
)
def redrive_letter(request: HttpRequest, id: int, body: schemas.RedriveIn | None = None) -> Any:
    """201 with the new run; 202 for the letter of an event, which is matched again."""
    who = caller(request)
    who.need("operate")
    letter = found(DeadLetter.objects.all(), pk=id)
    wish = body or schemas.RedriveIn.model_validate({})
    data = wish.data if "data" in wish.model_fields_set else redrive.UNCHANGED
    run = redrive.redrive(
        letter, by=who.user, data=data, from_=wish.from_, send_again=wish.send_again, reason=wish.reason
    )
    if run is None:
        return Status(
            202, schemas.LetterOut.of(found(DeadLetter.objects.with_assignee(), pk=id), payload=who.may("payloads"))
        )
    return Status(201, schemas.RunRow.facts(run))


@router.post("/dead-letters/{int:id}/dismiss", response=schemas.LetterOut, tags=["dead letters"])
def dismiss_letter(request: HttpRequest, id: int, body: schemas.DismissIn) -> Any:
    who = caller(request)
    who.need("operate")
    letter = found(DeadLetter.objects.all(), pk=id)
    redrive.dismiss(letter, by=who.user, reason=body.reason)
    return schemas.LetterOut.of(found(DeadLetter.objects.with_assignee(), pk=id), payload=who.may("payloads"))


@router.post("/dead-letters/{int:id}/assign", response=schemas.LetterOut, tags=["dead letters"])
def assign_cause(request: HttpRequest, id: int, body: schemas.AssignIn) -> Any:
    """Give the cause of this letter, and so all letters of it, to a person."""
    who = caller(request)
    who.need("operate")
    letter = found(DeadLetter.objects.all(), pk=id)
    assigning.assign(letter.fingerprint, assigning.named(body.to), by=who.user)
    return schemas.LetterOut.of(found(DeadLetter.objects.with_assignee(), pk=id), payload=who.may("payloads"))


def found(rows: QuerySet[Any], **key: Any) -> Any:
    """The one row with this key, or 404."""
    row = rows.filter(**key).first()
    if row is None:
        raise NotFound
    return row
