"""One page that reads "When … do …": it makes or changes a trigger, and the source with it."""

from collections import Counter
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from project.lib import clock
from project.lib.language import phrase, spoken
from project.lib.problem import Problem
from project.lib.text import made_storable, number
from project.people.doors import needs, who
from project.people.roles import can
from triggers import configure, overflow, picking, registry, trying
from triggers.errors import NotValid, Stale
from triggers.forms.editor import Editor
from triggers.forms.schedule import ScheduleForm
from triggers.forms.source import KINDS
from triggers.forms.trigger import MAKE
from triggers.limits import read_limits
from triggers.models import Breaker, Event, Run, Source, Trigger
from triggers.models.trigger import TOLD
from triggers.sources.schedule import zones
from triggers.views.beats import chart_of_runs
from triggers.views.bench import Bench, as_of, differences, versions_of
from triggers.views.handlers import lacks
from triggers.views.ranges import range_of
from triggers.views.sources import plan_of
from triggers.views.triggers import state_of

RECENT = 500  # newest events whose types are suggested
KNOWN_TYPES = 60
LAST_RUNS = 8
COUNTED = 10_000  # newest runs whose states are counted


@require_http_methods(["GET", "HEAD", "POST"])
@needs("configure")
def trigger_new(request: HttpRequest) -> HttpResponse:
    """A new trigger; it is saved off, unless the other button says otherwise."""
    initial = {name: request.GET[name] for name in ("source", "type_pattern", "handler") if name in request.GET}
    editor = Editor(typed_of(request) or None, initial=initial)
    if request.method != "POST":
        return page(request, editor)
    if editor.is_looking:
        return looked(request, editor)
    if not editor.is_valid():
        return page(request, editor, status=422)
    try:
        slug, enabled = editor.form.cleaned_data["slug"], request.POST.get("enabled") == "on"
        row = configure.make_trigger(by=who(request), slug=slug, enabled=enabled, **editor.row_fields())
    except Problem as refused:
        editor.refuse(refused)
        return page(request, editor, status=422)
    messages.success(
        request, phrase("{slug} is saved and {which}.", slug=row.slug, which=spoken("on" if enabled else "off"))
    )
    return onwards(request, editor, row)


@require_http_methods(["GET", "HEAD", "POST"])
def trigger_edit(request: HttpRequest, slug: str) -> HttpResponseBase:
    """One trigger: everybody reads it, an admin changes it."""
    row = get_object_or_404(Trigger.objects.select_related("owner", "changed_by"), slug=slug)
    if request.method == "POST":
        return save_trigger(request, row)
    before = as_of(row, number(request.GET.get("restore", "")))
    editor = Editor(trigger=before or row)
    editor.trigger = row  # what is in the form may be older
    return page(request, editor, restored=before is not None)


@needs("configure")
def save_trigger(request: HttpRequest, row: Trigger) -> HttpResponse:
    editor = Editor(typed_of(request), trigger=row)
    if editor.is_looking:
        return looked(request, editor)
    if not editor.is_valid():
        return page(request, editor, status=422)
    try:
        version = editor.form.cleaned_data["version"] or 0
        saved = configure.change_trigger(row, by=who(request), version=version, **editor.row_fields())
    except Stale as stale:
        return page(request, editor, status=409, stale=stale)
    except Problem as refused:
        editor.refuse(refused)
        return page(request, editor, status=422)
    messages.success(
        request,
        phrase(
            "{slug} is saved as version {version}; what changed stands under Versions.",
            slug=row.slug,
            version=saved.version,
        ),
    )
    return onwards(request, editor, row)


def onwards(request: HttpRequest, editor: Editor, row: Trigger) -> HttpResponse:
    """To the trigger; to the secret of a source that was made with it and lets nobody in before it has one."""
    made = Source.objects.get(slug=editor.made.cleaned_data["slug"]) if editor.made else None
    if made is not None and made.needs_secret:
        messages.info(request, phrase("Next: {slug} needs a secret.", slug=made.slug))
        return redirect("source-secret", slug=made.slug)
    return redirect("trigger-edit", slug=row.slug)


def typed_of(request: HttpRequest) -> QueryDict:
    """What was typed, and into the filter what was clicked of a real event."""
    if not (clause := request.POST.get("pick", "")):
        return request.POST
    data = request.POST.copy()
    data["filter"], data["try"] = picking.joined(data.get("filter", ""), clause), "past"
    return data


def looked(request: HttpRequest, editor: Editor) -> HttpResponse:
    """The page as it stands, with what it would say of events. Nothing is saved, nothing runs."""
    editor.is_valid()
    changes = changes_of(editor)
    if "try" not in editor.form.data and "capture" not in request.POST:
        editor.blame_only()
        return page(request, editor, changes=changes)
    editor.blame_only("source", "type_pattern", "filter")
    clean = editor.form.cleaned_data
    try:
        if editor.form.data.get("try") != "sample" and not can(request.user, "payloads"):
            raise NotValid("A filter may ask anything of payloads: trying it on events is for who may read them.")
        rule = trying.rule_of(clean.get("source", ""), clean.get("type_pattern", ""), clean.get("filter", ""))
        bench = Bench.of(editor.form.data, rule, editor.form.chosen_handler)
    except Problem as refused:
        editor.refuse(refused)
    if editor.form.errors:
        return page(request, editor, status=422)
    return page(request, editor, bench=bench, changes=changes)


def changes_of(editor: Editor) -> list[dict[str, Any]]:
    """What saving would change of a trigger that is there; nothing while something of it does not fit."""
    row = editor.trigger
    if row is None or not editor.is_valid():
        return []
    fields = {name: value for name, value in editor.row_fields().items() if name in TOLD}
    fields["limits"] = read_limits(fields["limits"])  # as it would be stored
    return differences(row.told, {**row.told, **fields})


def page(
    request: HttpRequest,
    editor: Editor,
    *,
    status: int = 200,
    stale: Stale | None = None,
    bench: Bench | None = None,
    changes: list[dict[str, Any]] | None = None,
    restored: bool = False,
) -> HttpResponse:
    row, chosen = editor.trigger, editor.form.chosen_source
    context: dict[str, Any] = {
        "form": editor.form,
        "config": editor.config,
        "wrong": editor.wrong,
        "trigger": row,
        "may_edit": can(request.user, "configure") and (row is None or row.archived_at is None),
        "stale": stale,
        "bench": bench,
        "samples": sorted(trying.samples()),
        "changes": changes,
        "restored": restored,
        "types": known_types(chosen),
        "chosen_is_clock": row is None and is_clock(chosen),
        "chosen": registry.HANDLERS.get(editor.form.chosen_handler),
        "lacks": lacks(editor.form.chosen_handler, editor.config_as_it_stands),
        "broken": sorted(registry.BROKEN.items()),
        "fresh": Trigger.objects.get(pk=row.pk) if row and stale else None,
        **made_of(editor),
        **(life_of(request, row) if row else {}),
    }
    return render(request, "triggers/trigger.html", context, status=status)


def made_of(editor: Editor) -> dict[str, Any]:
    """What the form of a source that is made here needs around it."""
    made = editor.made
    if made is None:
        return {}
    is_clock = isinstance(made, ScheduleForm)
    return {
        "made": made,
        "look": KINDS[made.kind],
        "zones": sorted(zones()) if is_clock else [],
        "plan": plan_of(made) if is_clock else None,
    }


def life_of(request: HttpRequest, row: Trigger) -> dict[str, Any]:
    """What it did lately."""
    runs = Run.objects.filter(trigger=row).order_by("-pk")
    shown = runs.select_related("event").defer("result_json", "data_json", "event__raw", "event__data_json")
    span, ranges = range_of(request)
    now = clock.of(request)
    counted = list(runs.values_list("queued_at", "status")[:COUNTED])
    return {
        **ranges,
        "chart": chart_of_runs(now, row, span, counted),
        "runs": shown[:LAST_RUNS],
        "counts_by": dict(Counter(status for _, status in counted)),
        "state": state_of(row, None),
        "health": overflow.health_of(row),
        "versions": versions_of(row),
        "breaker": Breaker.objects.open().filter(handler=row.handler).first(),
    }


def is_clock(source: str) -> bool:
    return source == f"{MAKE}schedule" or Source.objects.filter(slug=made_storable(source), kind="schedule").exists()


def known_types(source: str) -> list[str]:
    """Types that came lately, and the patterns they have in common, to pick from."""
    if source.startswith(MAKE):
        return []
    rows = Event.objects.order_by("-pk")
    if source and source != "*":
        rows = rows.filter(source_slug=made_storable(source))
    types = set(rows.values_list("type", flat=True)[:RECENT])
    stems = Counter(f"{type.rpartition('.')[0]}.*" for type in types if "." in type)
    shared = {stem for stem, count in stems.items() if count > 1}
    return sorted(types | shared)[:KNOWN_TYPES]
