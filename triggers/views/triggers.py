"""Triggers: the list, and one editor that reads "When … do …"."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, cast

from django.contrib import messages
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from project.lib.problem import Problem
from project.people.doors import needs, who
from project.people.roles import can
from triggers import configure, registry
from triggers import schemas_config as schemas
from triggers.errors import Stale
from triggers.forms.trigger import TriggerForm
from triggers.matching import Readable, Rule, Verdict, compile_filter, compile_pattern, event_view, match, type_matches
from triggers.models import Event, Run, Source, Trigger
from triggers.views.lists import Filters, as_table, list_page

TRIED = 20  # stored events a filter is tried on
LARGEST_TRIED = 256 * 1024  # bytes; above it an event is left out of the trial
KNOWN_TYPES = 40
LAST_RUNS = 8
COUNTED = 10_000  # newest runs whose states are counted


@require_safe
def triggers(request: HttpRequest) -> HttpResponseBase:
    """Every trigger that is kept: what wakes what, and when it last did."""
    filters = Filters(request.GET, ())
    if filters.as_table:
        return as_table(request, "triggers", schemas.TriggerOut, Trigger.objects.kept(), schemas.TriggerOut.of)
    newest = Run.objects.filter(trigger=OuterRef("pk")).order_by("-pk").values("queued_at")[:1]
    rows = list(Trigger.objects.kept().annotate(last_run_at=Subquery(newest)).order_by("slug"))
    kinds = dict(Source.objects.values_list("slug", "kind"))
    for row in rows:
        row.source_kind = kinds.get(row.source, "desk")  # type: ignore[attr-defined]
        row.is_broken = row.handler not in registry.HANDLERS  # type: ignore[attr-defined]
        row.state = state_of(row)  # type: ignore[attr-defined]
    archived = Trigger.objects.exclude(archived_at=None).count()
    return list_page(request, "triggers/triggers.html", filters, {"triggers": rows, "archived": archived})


def state_of(row: Trigger) -> str:
    if not row.enabled:
        return "disabled"
    return "paused" if row.mode == "paused" else "live"


@require_http_methods(["GET", "HEAD", "POST"])
@needs("configure")
def trigger_new(request: HttpRequest) -> HttpResponse:
    """A new trigger; it starts enabled unless the box is left empty."""
    initial = {name: request.GET[name] for name in ("source", "type_pattern", "handler") if name in request.GET}
    form = TriggerForm(request.POST or None, initial=initial)
    if request.method != "POST":
        return editor(request, form, None)
    if "try" in request.POST:
        return tried(request, form, None)
    if form.is_valid():
        try:
            enabled = request.POST.get("enabled") == "on"
            slug = form.cleaned_data["slug"]
            row = configure.make_trigger(by=who(request), slug=slug, enabled=enabled, **form.row_fields())
        except Problem as refused:
            form.refuse(refused)
        else:
            messages.success(request, f"{row.slug} is saved and {'on' if enabled else 'off'}.")
            return redirect("trigger-edit", slug=row.slug)
    return editor(request, form, None, status=422)


@require_http_methods(["GET", "HEAD", "POST"])
def trigger_edit(request: HttpRequest, slug: str) -> HttpResponseBase:
    """One trigger: everybody reads it, an admin changes it."""
    row = get_object_or_404(Trigger.objects.select_related("owner", "changed_by"), slug=slug)
    if request.method != "POST":
        return editor(request, TriggerForm(trigger=row), row)
    return save_trigger(request, row)


@needs("configure")
def save_trigger(request: HttpRequest, row: Trigger) -> HttpResponse:
    form = TriggerForm(request.POST, trigger=row)
    if "try" in request.POST:
        return tried(request, form, row)
    if not form.is_valid():
        return editor(request, form, row, status=422)
    version = form.cleaned_data["version"] or 0
    try:
        configure.change_trigger(row, by=who(request), version=version, **form.row_fields())
    except Stale as stale:
        return editor(request, form, row, status=409, stale=stale)
    except Problem as refused:
        form.refuse(refused)
        return editor(request, form, row, status=422)
    messages.success(request, f"{row.slug} is saved.")
    return redirect("trigger-edit", slug=row.slug)


def tried(request: HttpRequest, form: TriggerForm, row: Trigger | None) -> HttpResponse:
    """The editor as it is, with what the filter would say of past events. Nothing is saved, nothing runs."""
    form.full_clean()
    for name in list(form.errors):
        if name not in ("source", "type_pattern", "filter"):
            del form.errors[name]
    try:
        trials = trials_of(form, values=can(request.user, "payloads"))
    except Problem as refused:
        field = str(refused.facts.get("field", "filter"))
        form.add_error(field if field in form.fields else "filter", refused.detail)
        return editor(request, form, row, status=422)
    return editor(request, form, row, trials=trials)


@dataclass(frozen=True)
class Trial:
    """What the edited filter says of one stored event."""

    event: Event
    verdict: Verdict
    shows_value: bool


def trials_of(form: TriggerForm, *, values: bool) -> list[Trial]:
    """The newest events of the source against the pattern and filter as they stand in the form."""
    clean = form.cleaned_data
    pattern = compile_pattern(clean.get("type_pattern") or "**")
    text = (clean.get("filter") or "").strip()
    plan = compile_filter(text) if text else None
    rule = Rule(0, "", clean.get("source", ""), pattern, plan, "")
    rows = Event.objects.filter(pruned_at=None).order_by("-pk")
    if rule.source != "*":
        rows = rows.filter(source_slug=rule.source)
    found = [Trial(event, judged(rule, event), values) for event in rows[:TRIED]]
    return found


def judged(rule: Rule, event: Event) -> Verdict:
    if not type_matches(rule.type_pattern, event.type):
        return Verdict("not_matched", "", f"the type is not {rule.type_pattern}")
    if len(event.raw or b"") > LARGEST_TRIED:
        return Verdict("could_not_evaluate", "", "too large to try here")
    return match(rule, event_view(cast(Readable, event)))


def editor(
    request: HttpRequest,
    form: TriggerForm,
    row: Trigger | None,
    *,
    status: int = 200,
    stale: Stale | None = None,
    trials: list[Trial] | None = None,
) -> HttpResponse:
    chosen = str(form["source"].value() or "")
    context: dict[str, Any] = {
        "form": form,
        "trigger": row,
        "may_edit": can(request.user, "configure") and (row is None or row.archived_at is None),
        "stale": stale,
        "trials": trials,
        "types": known_types(chosen),
        "handlers": sorted(registry.HANDLERS.values(), key=lambda code: code.name),
        "broken": sorted(registry.BROKEN.items()),
        "fresh": Trigger.objects.get(pk=row.pk) if row and stale else None,
    }
    if row is not None:
        runs = Run.objects.filter(trigger=row).select_related("event").order_by("-pk")
        context |= {
            "runs": runs.defer("result_json", "data_json", "event__raw", "event__data_json")[:LAST_RUNS],
            "counts_by": dict(Counter(runs.values_list("status", flat=True)[:COUNTED])),
            "state": state_of(row),
        }
    return render(request, "triggers/trigger.html", context, status=status)


def known_types(source: str) -> list[str]:
    """Types that came lately, to pick from."""
    rows = Event.objects.order_by("-pk")
    if source and source != "*":
        rows = rows.filter(source_slug=source)
    recent = rows.values_list("type", flat=True)[:500]
    return sorted(set(recent))[:KNOWN_TYPES]
