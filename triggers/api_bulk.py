"""Bulk jobs over HTTP: one verb for every row a filter finds."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Status

from project.lib.pages import Page, listing
from project.lib.schema import NotFound
from project.people.auth import caller
from triggers import bulk, schemas_bulk
from triggers.models import Bulk, Trigger
from triggers.schemas_bulk import BulkIn, BulkOut, ItemFilters, ItemOut, Look

router = Router(tags=["bulk"])


@router.post("/bulk", response={202: BulkOut, 200: Look})
def press(request: HttpRequest, response: HttpResponse, body: BulkIn) -> Any:
    """202 with the job, which the desk works off; 200 with what it would take when `dry_run` is set."""
    who = caller(request)
    who.need("operate")
    texts = body.filter
    rows = schemas_bulk.rows_of(body.verb, texts, payloads=who.may("payloads"))
    triggers = Trigger.objects.named(body.triggers)
    if body.dry_run:
        return Status(200, bulk.look(body.verb, rows, triggers=max(1, len(triggers)), upto=body.upto))
    given = {name: getattr(body, name) for name in ("reason", "canary", "rate", "stop_after", "upto")}
    job = bulk.press(body.verb, rows, by=who.user, filter=texts, triggers=triggers, **given)
    response["Location"] = f"/api/v1/bulk/{job.pk}"
    return Status(202, BulkOut.of(job))


@router.get("/bulk/{int:id}", response=BulkOut)
def get_job(request: HttpRequest, id: int) -> Any:
    caller(request).need("view")
    return BulkOut.of(found(id))


@router.get("/bulk/{int:id}/items", response=Page[ItemOut])
def list_items(request: HttpRequest, id: int, filters: Query[ItemFilters]) -> Any:
    """What became of each row, the last one first."""
    caller(request).need("view")
    rows = found(id).items.select_related("trigger", "run")
    return listing(request, rows, filters, ItemOut.of, row=ItemOut)


@router.post("/bulk/{int:id}/pause", response=BulkOut)
def pause(request: HttpRequest, id: int) -> Any:
    """Take no further row until it is resumed."""
    who = caller(request)
    who.need("operate")
    return BulkOut.of(bulk.pause(found(id), by=who.user))


@router.post("/bulk/{int:id}/resume", response=BulkOut)
def resume(request: HttpRequest, id: int) -> Any:
    """Go on after a pause, or although it had stopped by itself."""
    who = caller(request)
    who.need("operate")
    return BulkOut.of(bulk.resume(found(id), by=who.user))


@router.post("/bulk/{int:id}/cancel", response=BulkOut)
def cancel(request: HttpRequest, id: int) -> Any:
    """Leave what was not taken as it is."""
    who = caller(request)
    who.need("operate")
    return BulkOut.of(bulk.cancel(found(id), by=who.user))


def found(id: int) -> Bulk:
    job = Bulk.objects.select_related("by").filter(pk=id).first()
    if job is None:
        raise NotFound
    return job
