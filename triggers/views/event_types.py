"""Event types: what arrives here, the shape it has, and what lately differs from it."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from project.lib.jsontext import difference
from project.lib.language import phrase
from project.lib.problem import Problem
from project.lib.text import made_storable
from project.people.doors import needs, who
from project.people.roles import can
from project.templatetags.desk import raw_json
from triggers import event_types as doors
from triggers import schemas_types as schemas
from triggers import shapes
from triggers.errors import NotValid, Stale
from triggers.forms.event_type import EventTypeForm
from triggers.matching import type_matches
from triggers.models import Event, EventType, Trigger
from triggers.views.lists import Filters, as_table, list_page, listing

MOST_VERSIONS = 20  # on the page


@require_safe
def event_types(request: HttpRequest) -> HttpResponseBase:
    """Every type that ever came, the newest first."""
    filters = Filters(request.GET, ("type", "mode"))
    everything = EventType.objects.defer("shape", "schema")
    rows = filters.narrow(everything, schemas.TypeFilters)
    if filters.as_table:
        return as_table(request, "event-types", schemas.TypeRow, rows, schemas.TypeRow.of)
    found = listing(rows, everything, filters)
    picks = [filters.pick("mode", "Mode", doors.MODES)]
    return list_page(request, "triggers/event_types.html", filters, {"list": found, "picks": picks})


@require_http_methods(["GET", "HEAD", "POST"])
def event_type(request: HttpRequest, name: str) -> HttpResponseBase:
    """One type: everybody reads it, an admin changes it."""
    row = get_object_or_404(EventType, type=made_storable(name))
    if request.method == "POST":
        return save(request, row)
    taken = shapes.schema_of(row.shape) if request.GET.get("schema") == "seen" else None
    return page(request, row, EventTypeForm(row=row, schema=taken))


@needs("configure")
def save(request: HttpRequest, row: EventType) -> HttpResponse:
    form = EventTypeForm(request.POST, row=row)
    if not form.is_valid():
        return page(request, row, form, status=422)
    if "try" in request.POST:
        return look(request, row, form)
    try:
        fields = form.changes()
        if fields:
            doors.change(row, by=who(request), version=form.cleaned_data["version"], **fields)
    except Stale:
        return page(request, row, form, status=409, stale=True)
    except Problem as refused:
        form.refuse(refused)
        return page(request, row, form, status=422)
    messages.success(request, phrase("{type} is saved.", type=row.type) if fields else "Nothing was changed.")
    return redirect("event-type", name=row.type)


def look(request: HttpRequest, row: EventType, form: EventTypeForm) -> HttpResponse:
    """What the schema as it was typed would refuse of what came lately. Nothing is saved."""
    schema = form.cleaned_data["schema"]
    try:
        doors.check_schema(schema)
    except NotValid as refused:
        form.refuse(refused)
        return page(request, row, form, status=422)
    return page(request, row, form, misfits=doors.tried(row, schema))


def page(
    request: HttpRequest,
    row: EventType,
    form: EventTypeForm,
    *,
    status: int = 200,
    stale: bool = False,
    misfits: Any = None,
) -> HttpResponse:
    seen = shapes.schema_of(row.shape)
    versions = list(row.versions.select_related("by").order_by("-version")[: MOST_VERSIONS + 1])
    context = {
        "row": row,
        "form": form,
        "wrong": form.wrong if status == 422 else [],
        "stale": stale,
        "misfits": misfits,
        "tried": doors.TRIED,
        "schema_text": raw_json(row.schema),
        "seen": difference(raw_json(row.schema), raw_json(seen)) if seen != row.schema else [],
        "versions": with_changes(versions),
        "sample": Event.objects.without_payload().filter(pk=row.sample).first(),
        "listeners": [one for one in Trigger.objects.kept().order_by("slug") if listens(one, row)],
        "may_edit": can(request.user, "configure"),
    }
    return render(request, "triggers/event_type.html", context, status=status)


def listens(trigger: Trigger, row: EventType) -> bool:
    return trigger.source in ("*", *row.sources) and type_matches(trigger.type_pattern, row.type)


def with_changes(versions: list[Any]) -> list[dict[str, Any]]:
    """Each version with what it changed of the schema before it."""
    older = [*versions, None][1:]
    return [
        {"row": one, "difference": difference(raw_json(before.schema), raw_json(one.schema)) if before else []}
        for one, before in zip(versions, older, strict=True)
    ][:MOST_VERSIONS]
