"""Connections: the ways out. Everybody may see which there are; an admin changes them behind a fresh sign-in."""

from typing import Any

from django.contrib import messages
from django.db.models import Count, Max
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from approvals import connect, schemas
from approvals.connection_forms import ConnectionForm
from approvals.connection_systems import FORMS, SYSTEMS
from approvals.kinds import KINDS
from approvals.models import Action, Connection
from project.lib.language import phrase
from project.lib.problem import Problem
from project.people import doors
from project.people.doors import needs, who
from triggers.errors import Stale
from triggers.views.lists import Filters, as_table, list_page

LAST_ACTIONS = 8


@require_safe
def connections(request: HttpRequest) -> HttpResponseBase:
    """Every connection that is kept, and when it was last used."""
    filters = Filters(request.GET, ())
    if filters.as_table:
        shown = schemas.ConnectionOut
        return as_table(request, "connections", shown, Connection.objects.kept(), shown.of)
    rows = list(Connection.objects.kept().order_by("slug"))
    used = Action.objects.filter(connection__in=rows).values("connection").annotate(n=Count("pk"), at=Max("created_at"))
    told = {row["connection"]: row for row in used.order_by()}
    for row in rows:
        row.used = told.get(row.pk, {"n": 0, "at": None})  # type: ignore[attr-defined]
        row.look = SYSTEMS.get(row.system, ("plug", row.system, ""))  # type: ignore[attr-defined]
    return list_page(request, "approvals/connections.html", filters, {"connections": rows})


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs("configure")
def connection_new(request: HttpRequest) -> HttpResponse:
    """Pick a system, then fill in its form."""
    system = request.POST.get("system") or request.GET.get("system", "")
    if system not in FORMS:
        return render(request, "approvals/connection_systems.html", {"systems": SYSTEMS})
    if request.method != "POST" and not doors.is_fresh(request):
        return doors.to_step_up(request.get_full_path())
    form = FORMS[system](request.POST or None)
    if form.is_valid():
        return make(request, form, system)
    return page(request, form, None, system)


def make(request: HttpRequest, form: ConnectionForm, system: str) -> HttpResponse:
    if not doors.is_fresh(request):
        return confirm_first(request, form, None, system)
    slug = form.cleaned_data["slug"]
    fields = form.row_fields()
    try:
        connect.make_connection(by=who(request), slug=slug, system=system, **fields)
    except Problem as refused:
        form.refuse(refused)
        return page(request, form, None, system)
    messages.success(request, phrase("{slug} is saved.", slug=slug))
    return redirect("connections")


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def connection_edit(request: HttpRequest, slug: str) -> HttpResponseBase:
    """One connection: what it is for and what went through it; the form is an admin's."""
    row = get_object_or_404(Connection, slug=slug)
    form_class = FORMS.get(row.system, ConnectionForm)
    if request.method != "POST":
        return page(request, form_class(connection=row), row, row.system)
    return save(request, row, form_class(request.POST, connection=row))


@needs("configure")
def save(request: HttpRequest, row: Connection, form: ConnectionForm) -> HttpResponse:
    if not form.is_valid():
        return page(request, form, row, row.system)
    if not doors.is_fresh(request):
        return confirm_first(request, form, row, row.system)
    if row.archived_at is not None:
        raise Http404("Archived connections are not changed any more.")
    try:
        connect.change_connection(row, by=who(request), version=form.cleaned_data["version"], **form.row_fields())
    except Stale:
        form.add_error(None, "Somebody changed this while you had it open. Open it again, then make your change.")
        return page(request, form, row, row.system, status=409)
    except Problem as refused:
        form.refuse(refused)
        return page(request, form, row, row.system)
    messages.success(request, phrase("{slug} is saved.", slug=row.slug))
    return redirect("connection-edit", slug=row.slug)


def confirm_first(request: HttpRequest, form: ConnectionForm, row: Connection | None, system: str) -> HttpResponse:
    """The sign-in is older than five minutes: say so and keep what was typed, but for the secrets."""
    form.add_error(None, "Confirm that it is you in another tab (the link is above), then save again.")
    return page(request, form, row, system, status=403)


def page(
    request: HttpRequest, form: ConnectionForm, row: Connection | None, system: str, *, status: int = 0
) -> HttpResponse:
    went = Action.objects.for_pages().filter(connection=row).order_by("-pk")[:LAST_ACTIONS] if row else []
    context: dict[str, Any] = {
        "form": form,
        "connection": row,
        "system": system,
        "look": SYSTEMS.get(system, ("plug", system, "")),
        "fresh": doors.is_fresh(request),
        "here": reverse("connection-edit", args=[row.slug]) if row else f"{reverse('connection-new')}?system={system}",
        "kinds": sorted(name for name, kind in KINDS.items() if kind.system == system),
        "actions": [action.shown_to(who(request)) for action in went],
        "built_in": bool(row and row.config.get("from")),
    }
    failed = 422 if form.is_bound and form.errors else 200
    return render(request, "approvals/connection.html", context, status=status or failed)


@require_POST
@needs("configure")
def archive_connection(request: HttpRequest, slug: str) -> HttpResponse:
    """Out of use for good: handlers that name it fail before anybody is asked."""
    row = get_object_or_404(Connection.objects.kept(), slug=slug)
    if not doors.is_fresh(request):
        return doors.to_step_up(reverse("connection-edit", args=[slug]))
    connect.archive_connection(row, by=who(request))
    messages.success(request, phrase("{slug} is archived.", slug=slug))
    return redirect("connections")
