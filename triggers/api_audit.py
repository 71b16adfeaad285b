"""The audit log over HTTP: read only, like everywhere."""

from functools import partial
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Schema

from project.lib.pages import listing
from project.people.auth import caller
from triggers.models import Audit
from triggers.schemas_audit import AuditFilters, AuditRow

router = Router()


class AuditPage(Schema):
    items: list[AuditRow]
    next: str | None


@router.get("/audit", response=AuditPage, tags=["audit"])
def list_audit(request: HttpRequest, filters: Query[AuditFilters]) -> Any:
    """Who did what to which row, newest first."""
    who = caller(request)
    who.need("view")
    shown = partial(AuditRow.of, payload=who.may("payloads") or who.may("decide"))
    return listing(request, Audit.objects.select_related("by"), filters, shown, row=AuditRow)
