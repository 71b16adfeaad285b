"""Sources: who may ring, how they prove themselves, and what was refused at the door."""

from datetime import UTC, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib import messages
from django.db.models import Count, OuterRef, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from project.lib import clock
from project.lib.language import phrase
from project.lib.problem import Problem
from project.people import doors
from project.people.doors import needs, who
from project.people.roles import can
from triggers import configure, fire, refusals, upkeep
from triggers import schemas_config as schemas
from triggers.errors import NotValid, Stale
from triggers.forms.listened import MODELS, PasswordForm
from triggers.forms.named import SourceForm
from triggers.forms.schedule import ScheduleForm
from triggers.forms.source import KINDS, SecretForm, form_for
from triggers.models import Audit, Event, Refusal, ScheduleFire, Source, Trigger, Watch
from triggers.sources.details import warning_of, way_of
from triggers.sources.recipe import recipe_of
from triggers.sources.schedule import parse_schedule, preview, same_schedule, shown, zones
from triggers.unusable import wrong_with
from triggers.views.lists import Filters, as_table, list_page
from triggers.vitals import last_deliveries, next_expected, vitals_of

NEXT = 5  # slots shown
SHOWN_REFUSALS = 50
HOLD = {"day": timedelta(days=1), "week": timedelta(days=7)}


@require_safe
def sources(request: HttpRequest) -> HttpResponseBase:
    """Every source that is kept, and when it last rang."""
    filters = Filters(request.GET, ())
    if filters.as_table:
        return as_table(request, "sources", schemas.SourceOut, Source.objects.kept(), schemas.SourceOut.of)
    newest = Event.objects.filter(source_slug=OuterRef("slug")).order_by("-pk").values("received_at")[:1]
    rows = list(
        Source.objects.kept().select_related("watch", "rhythm").annotate(last_at=Subquery(newest)).order_by("slug")
    )
    refused = Refusal.objects.standing().filter(source__in=rows)
    counted = dict(refused.values_list("source").annotate(n=Count("pk")).order_by())
    for row in rows:
        row.refused = counted.get(row.pk, 0)  # type: ignore[attr-defined]
        row.next_at = next_expected(row, getattr(row, "rhythm", None))  # type: ignore[attr-defined]
        row.wrong = wrong_with(row)  # type: ignore[attr-defined]
        row.look = KINDS.get(row.kind, ("inbox", row.kind, ""))  # type: ignore[attr-defined]
    unknown = Refusal.objects.filter(source=None).order_by("-pk")[:10]
    return list_page(request, "triggers/sources.html", filters, {"sources": rows, "unknown": unknown})


@require_http_methods(["GET", "HEAD", "POST"])
@needs("configure")
def source_new(request: HttpRequest) -> HttpResponse:
    """Pick a kind, then fill in its form."""
    kind = request.POST.get("kind") or request.GET.get("kind", "")
    if kind not in KINDS:
        return render(request, "triggers/source_kinds.html", {"kinds": KINDS})
    form = form_for(kind)(request.POST or None, kind=kind)
    found = {name: text for name, text in request.GET.items() if name in form.fields}  # by `source-fit`
    form.initial = {**form.initial, **found}
    if request.method == "POST" and "try" not in request.POST and form.is_valid():
        try:
            slug = form.cleaned_data["slug"]
            row = configure.make_source(by=who(request), slug=slug, kind=kind, **form.row_fields())
        except Problem as refused:
            form.refuse(refused)
        else:
            return after_making(request, row)
    if "try" in request.POST:
        form.errors.pop("slug", None)  # only the slots are asked for
        return source_page(request, form, None)
    return source_page(request, form, None, status=422 if form.is_bound else 200)


def after_making(request: HttpRequest, source: Source) -> HttpResponse:
    """A door needs a secret next; the clock needs nothing."""
    if source.needs_secret:
        what = "password" if source.kind in MODELS else "secret"
        messages.success(request, phrase("{slug} is saved. Next it needs a {what}.", slug=source.slug, what=what))
        return redirect("source-secret", slug=source.slug)
    messages.success(request, phrase("{slug} is saved.", slug=source.slug))
    return redirect("source-edit", slug=source.slug)


@require_http_methods(["GET", "HEAD", "POST"])
def source_edit(request: HttpRequest, slug: str) -> HttpResponseBase:
    """One source: everybody reads it, an admin changes it."""
    row = get_object_or_404(Source.objects.select_related("rhythm"), slug=slug)
    if request.method != "POST":
        return source_page(request, form_for(row.kind)(source=row), row)
    return save_source(request, row)


@needs("configure")
def save_source(request: HttpRequest, row: Source) -> HttpResponse:
    form = form_for(row.kind)(request.POST, source=row)
    if "try" in request.POST:
        return source_page(request, form, row)
    if not form.is_valid():
        return source_page(request, form, row, status=422)
    try:
        fields = form.row_fields()
        if configure.leads_elsewhere(row, fields.get("config")) and not doors.is_fresh(request):
            messages.error(request, "Its password would go elsewhere: confirm that it is you, then change the address.")
            return doors.to_step_up(reverse("source-edit", args=[row.slug]))
        configure.change_source(row, by=who(request), version=form.cleaned_data["version"] or 0, **fields)
    except Stale as stale:
        return source_page(request, form, row, status=409, stale=stale)
    except Problem as refused:
        form.refuse(refused)
        return source_page(request, form, row, status=422)
    messages.success(request, phrase("{slug} is saved.", slug=row.slug))
    return redirect("source-edit", slug=row.slug)


def source_page(
    request: HttpRequest, form: SourceForm, row: Source | None, *, status: int = 200, stale: Stale | None = None
) -> HttpResponse:
    kind = row.kind if row else form.kind
    context: dict[str, Any] = {
        "form": form,
        "wrong": form.wrong if status == 422 else [],
        "source": row,
        "kind": kind,
        "has_door": kind in Source.DOORS,
        "is_listened": kind in MODELS,
        "sends_test": kind != "schedule" and (kind != "database" or takes_rows(row)),  # the clock has a bell
        "look": KINDS.get(kind, ("inbox", kind, "")),
        "may_edit": can(request.user, "configure") and (row is None or row.archived_at is None),
        "stale": stale,
        "zones": sorted(zones()) if kind == "schedule" else [],
        "plan": plan_of(form) if kind == "schedule" else None,
    }
    if row is not None:
        context |= signs_of(row)
    return render(request, "triggers/source.html", context, status=status)


def takes_rows(row: Source | None) -> bool:
    """Whether a row can be made up for its table: an outbox says where type and data stand, others nobody knows."""
    return row is not None and row.config.get("mode") == "outbox" and bool(row.config.get("data_column"))


def plan_of(form: SourceForm) -> dict[str, Any] | None:
    """The schedule in words with its next slots, by the code that fires, or what is `wrong` with it; None while nothing
    is said yet."""
    assert isinstance(form, ScheduleForm)
    config: dict[str, Any] = {}
    try:
        config, row = form.as_it_stands(), form.source
        is_kept = row is not None and same_schedule(config, row.config)
        anchor = fire.next_slot(row, parse_schedule(config)) if row and is_kept else None
        return preview(config, NEXT, clock.now(), anchor)
    except KeyError:
        return None  # its field says what is wrong
    except NotValid as refused:
        return {"wrong": refused.detail} if any(config.get(name) for name in ("cron", "every", "at")) else None


def signs_of(source: Source) -> dict[str, Any]:
    """What a source did lately: events, refusals, slots, and who listens to it."""
    refused = source.refusals.defer("body", "credentials")
    address = f"{settings.BASE_URL}{hook_of(source)}"
    wrong = wrong_with(source)
    has_door = source.kind in Source.DOORS and not wrong
    return {
        "address": address,
        "wrong_with": wrong,
        "recipe": recipe_of(way_of(source), address, source.provider or source.kind) if has_door else "",
        "hints": source.secret_hints,
        "warning": "" if wrong else warning_of(source),
        "vitals": vitals_of(source),
        "deliveries": last_deliveries(source),
        "refusals": refused.turned_away().order_by("-pk")[:SHOWN_REFUSALS],
        "listeners": Trigger.objects.kept().filter(source__in=[source.slug, "*"]).order_by("slug"),
        "watch": Watch.objects.filter(source=source).first(),
        "skips": schemas.skips_of(source) if source.kind == "schedule" else 0,
        "off": None if source.enabled else turned_off(source),
        **(slots_of(source) if source.kind == "schedule" else {}),
    }


def slots_of(source: Source) -> dict[str, Any]:
    """The last slots of a schedule, each with its time on the schedule's own clock, and the zone of that."""
    zone = str(source.config.get("timezone") or "UTC")
    clock_of = ZoneInfo(zone) if zone in zones() else UTC
    slots = list(ScheduleFire.objects.filter(source=source).order_by("-fire_at")[:NEXT])
    for slot in slots:
        slot.local = shown(slot.fire_at.astimezone(clock_of))  # type: ignore[attr-defined]
    return {"slots": slots, "zone": zone}


def turned_off(source: Source) -> Audit | None:
    """Who turned it off last, and with which note."""
    return Audit.objects.filter(kind="source", ref=source.slug, verb="disable").select_related("by").last()


def hook_of(source: Source) -> str:
    return f"/hooks/{source.slug}"


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs("configure")
def source_secret(request: HttpRequest, slug: str) -> HttpResponse:
    """A new secret, asked for behind a fresh sign-in; what is saved is never shown again."""
    row = get_object_or_404(Source.objects.kept(), slug=slug)
    if not doors.is_fresh(request):
        return doors.to_step_up(reverse("source-secret", args=[slug]))
    given = request.POST or None
    form = PasswordForm(given) if row.kind in MODELS else SecretForm(given, row)
    if form.is_valid():
        keep = form.cleaned_data["keep"]
        until = clock.now() + HOLD[keep] if keep in HOLD else None
        value = form.cleaned_data["value"]
        try:
            upkeep.add_secret(row, value, by=who(request), keep_old=keep != "no", old_until=until)
        except Problem as refused:
            form.refuse(refused)
        else:
            messages.success(request, "It is saved, and not shown again.")
            return redirect("source-edit", slug=slug)
    context: dict[str, Any] = {"form": form, "source": row, "hints": row.secret_hints}
    context |= {"address": f"{settings.BASE_URL}{hook_of(row)}", "is_listened": row.kind in MODELS}
    return render(request, "triggers/source_secret.html", context, status=422 if form.is_bound else 200)


@require_POST
@needs("configure")
def source_secret_end(request: HttpRequest, slug: str) -> HttpResponse:
    """End one secret now."""
    row = get_object_or_404(Source.objects.kept(), slug=slug)
    if not doors.is_fresh(request):
        messages.error(request, "Confirm that it is you, then end the secret.")
        return doors.to_step_up(reverse("source-edit", args=[slug]))
    try:
        number = request.POST.get("number", "")
        at = int(number) if number.isascii() and number.isdigit() and len(number) < 9 else -1
        upkeep.end_secret(row, at, request.POST.get("hint", ""), by=who(request))
    except Problem as refused:
        messages.error(request, refused.detail)
    else:
        messages.success(request, "The secret is ended. What is signed with it is refused from now on.")
    return redirect("source-edit", slug=slug)


@require_POST
@needs("operate")
def ring_source(request: HttpRequest, slug: str) -> HttpResponse:
    """Ring a schedule once, now; its slots stay as they are."""
    row = get_object_or_404(Source.objects.open(), slug=slug, kind="schedule")
    seq = fire.fire(row, by=who(request))
    messages.success(request, phrase("{slug} rang: E-{seq}.", slug=slug, seq=seq))
    return redirect("event", seq=seq)


@require_POST
@needs("operate")
def admit_refusal(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Check a refused delivery again with the secrets of now, and take it in when it proves itself."""
    refusal = get_object_or_404(Refusal.objects.select_related("source"), pk=pk, source__slug=slug)
    try:
        outcomes = refusals.admit(refusal, by=who(request))
    except Problem as refused:
        messages.error(request, refused.detail)
        return redirect(f"{reverse('source-edit', args=[slug])}#refused")
    if not outcomes:
        messages.success(request, "It proves itself now; it carried no event.")
        return redirect("source-edit", slug=slug)
    messages.success(request, phrase("It proves itself now and is E-{seq}.", seq=outcomes[0].seq))
    return redirect("event", seq=outcomes[0].seq)
