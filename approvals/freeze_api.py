"""The freeze calendar over HTTP: everybody may read it; an admin in person, freshly signed in, changes it."""

from datetime import datetime
from typing import Any, ClassVar

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from approvals import freezing
from approvals.models import Freeze
from project.lib import clock
from project.lib.pages import Filters, Instant, Page, listing
from project.lib.schema import Moment
from project.people.auth import caller
from triggers.api import found
from triggers.schemas import Strict

router = Router(tags=["freezes"])


class FreezeFilters(Filters):
    NAME: ClassVar[str] = "freezes"
    AT: ClassVar[str] = "ends_at"

    since: Instant | None = None
    until: Instant | None = None


class FreezeIn(Strict):
    """Without `kinds` it means every kind, without `tiers` every tier; without `starts_at` it begins now."""

    name: str = Field(max_length=200)
    starts_at: Instant | None = None
    ends_at: Instant
    kinds: list[str] = []
    tiers: list[str] = []


class FreezeOut(Schema):
    id: int
    name: str
    starts_at: Moment
    ends_at: Moment
    kinds: list[str]
    tiers: list[str]
    by: str | None
    on: bool
    lifted_at: Moment | None
    lifted_by: str | None

    @classmethod
    def of(cls, row: Freeze, now: datetime) -> dict[str, Any]:
        people = {name: person.username if (person := getattr(row, name)) else None for name in ("by", "lifted_by")}
        own = {name: getattr(row, name) for name in set(cls.model_fields) - {"on", *people}}
        return {**own, **people, "on": row.is_on(now)}


@router.get("/freezes", response=Page[FreezeOut])
def list_freezes(request: HttpRequest, filters: Query[FreezeFilters]) -> Any:
    """`since=` now gives those that are on or to come."""
    caller(request).need("view")
    rows, now = Freeze.objects.select_related("by", "lifted_by"), clock.now()
    return listing(request, rows, filters, lambda row: FreezeOut.of(row, now), row=FreezeOut)


@router.get("/freezes/{int:id}", response=FreezeOut)
def get_freeze(request: HttpRequest, id: int) -> Any:
    caller(request).need("view")
    return FreezeOut.of(found(Freeze.objects.select_related("by", "lifted_by"), pk=id), clock.now())


@router.post("/freezes", response={201: FreezeOut})
def make_freeze(request: HttpRequest, body: FreezeIn) -> Any:
    who = caller(request)
    who.need_fresh_admin(request)
    now = clock.now()
    times = {"starts_at": body.starts_at or now, "ends_at": body.ends_at}
    row = freezing.freeze(body.name, **times, kinds=body.kinds, tiers=body.tiers, by=who.user)
    return Status(201, FreezeOut.of(row, now))


@router.delete("/freezes/{int:id}", response={204: None})
def lift_freeze(request: HttpRequest, id: int) -> Any:
    """It is over at once; what waited for its end starts."""
    who = caller(request)
    who.need_fresh_admin(request)
    freezing.lift(found(Freeze.objects.all(), pk=id), by=who.user)
    return Status(204, None)
