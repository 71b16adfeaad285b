"""Event types over HTTP: what arrives, its schema, and whether what does not fit is refused."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from project.lib.pages import Page, listing
from project.people.auth import caller
from triggers import event_types
from triggers import schemas_types as schemas
from triggers.api import found
from triggers.models import EventType

router = Router()
NAMES = {"kept_schema": "schema"}  # pydantic keeps the plain name to itself


@router.get("/event-types", response=Page[schemas.TypeRow], tags=["event types"])
def list_types(request: HttpRequest, filters: Query[schemas.TypeFilters]) -> Any:
    caller(request).need("view")
    rows = EventType.objects.defer("shape", "schema")
    return listing(request, rows, filters, schemas.TypeRow.of, row=schemas.TypeRow)


@router.get("/event-types/{path:type}", response=schemas.TypeOut, by_alias=True, tags=["event types"])
def get_type(request: HttpRequest, type: str) -> Any:
    who = caller(request)
    who.need("view")
    return schemas.TypeOut.of(found(EventType.objects.all(), type=type), payload=who.may("payloads"))


@router.patch("/event-types/{path:type}", response=schemas.TypeOut, by_alias=True, tags=["event types"])
def change_type(request: HttpRequest, type: str, body: schemas.TypePatch) -> Any:
    """`schema` is JSON schema, draft 2020-12, bounded and without references outside; 409 when `version` is older."""
    who = caller(request)
    who.need("configure")
    row = found(EventType.objects.all(), type=type)
    given = body.dict(exclude_unset=True, exclude={"version"})
    fields = {NAMES.get(name, name): value for name, value in given.items()}
    return schemas.TypeOut.of(event_types.change(row, by=who.user, version=body.version, **fields))
