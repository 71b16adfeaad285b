"""Handlers: the code that is loaded, what each does and wakes for, and the files that could not be loaded."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from project.lib.language import phrase
from project.lib.table import csv_answer, json_answer
from project.lib.text import made_storable
from project.people.doors import needs, who
from triggers import breakers, registry
from triggers.forms.config import members_of
from triggers.models import Breaker, Run, Tally, Trigger
from triggers.views.lists import Filters, list_page

LAST = 5  # outcomes shown of each handler
RUNS = 20  # runs on a handler's own page
HEAD = ("name", "version", "doc", "place", "triggers", "last_run", "last_status", "last_queued_at")


@dataclass
class Line:
    """One name: its code, if any is loaded, what wakes it, and how its newest runs went."""

    name: str
    code: registry.Handler | None
    triggers: list[Trigger] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    breaker: Breaker | None = None  # open: its runs wait
    cost: dict[str, Any] | None = None  # of asking models; None: it asks none
    lacks: str = ""  # what must be set before it can work

    @property
    def cells(self) -> list[Any]:
        code, last = self.code, self.runs[0] if self.runs else None
        facts = [code.version, code.doc, code.place] if code else ["", "", ""]
        told = [last.pk, last.status, last.queued_at] if last else [None, None, None]
        return [self.name, *facts, " ".join(row.slug for row in self.triggers), *told]


@require_safe
def handlers(request: HttpRequest) -> HttpResponseBase:
    """Every handler by name, and the names that triggers wait for."""
    rows, filters = lines(), Filters(request.GET, ())
    if filters.as_table and request.GET.get("format") == "json":
        return json_answer(request, "handlers", (dict(zip(HEAD, row.cells, strict=True)) for row in rows))
    if filters.as_table:
        return csv_answer(request, "handlers", HEAD, (row.cells for row in rows))
    context = {
        "handlers": [row for row in rows if row.code],
        "missing": [row for row in rows if not row.code],
        "broken": [file for _, file in sorted(registry.BROKEN.items())],
        "folder": settings.HANDLERS_DIR,
        "middleware": middleware_rows(),
        "own": any(Path(settings.HANDLERS_DIR).glob("*.py")),
    }
    return list_page(request, "triggers/handlers.html", filters, context)


def middleware_rows() -> list[dict[str, Any]]:
    """Every middleware in its order, with what it did so far."""
    rows = Tally.objects.filter(name="middleware").values_list("labels", "value")
    counts = {tuple(json.loads(labels)): int(value) for labels, value in rows}
    return [
        {"code": one, **{word: counts.get((one.name, word), 0) for word in ("passed", "stopped", "invalid", "slow")}}
        for one in registry.in_order()
    ]


def lines() -> list[Line]:
    found = {name: Line(name, code) for name, code in registry.HANDLERS.items()}
    for trigger in Trigger.objects.kept().order_by("slug"):
        found.setdefault(trigger.handler, Line(trigger.handler, None)).triggers.append(trigger)
    newest = Run.objects.newest_of(sorted(found), LAST).only("handler", "status", "queued_at")
    for run in newest:
        found[run.handler].runs.append(run)
    for breaker in Breaker.objects.open().filter(handler__in=found):
        found[breaker.handler].breaker = breaker
    for name, cost in costs_of(found).items():
        found[name].cost = cost
    for name, line in found.items():
        line.lacks = lacks(name)
    return [found[name] for name in sorted(found)]


def costs_of(names: Collection[str]) -> dict[str, dict[str, Any]]:
    return {name: cost for ask in registry.costs_of for name, cost in ask(names).items()}


def lacks(name: str, config: Mapping[str, Any] | None = None) -> str:
    return next((missing for ask in registry.lacking if (missing := ask(name, config))), "")


@require_safe
def handler(request: HttpRequest, name: str) -> HttpResponse:
    """One handler: what it does, what can be set, what wakes it, how its runs went."""
    name = made_storable(name)
    code = registry.HANDLERS.get(name)
    triggers = list(Trigger.objects.kept().filter(handler=name).order_by("slug"))
    rows = Run.objects.filter(handler=name).select_related("event", "trigger").order_by("-pk")
    runs = list(rows.defer("result_json", "data_json", "event__raw", "event__data_json", "event__headers")[:RUNS])
    if not (code or triggers or runs):
        raise Http404("There is no handler of this name.")
    context = {
        "name": name,
        "code": code,
        "members": members_of(code.config if code else None),
        "triggers": triggers,
        "runs": runs,
        "broken": len(registry.BROKEN),
        "breaker": Breaker.objects.open().filter(handler=name).first(),
        "cost": costs_of([name]).get(name),
        "lacks": lacks(name) if code else "",
    }
    return render(request, "triggers/handler.html", context)


@require_POST
@needs("operate")
def close_breaker(request: HttpRequest) -> HttpResponse:
    """What was wrong is mended: let the handler's runs start again."""
    name = made_storable(request.POST.get("handler", ""))
    if breakers.close(name, by=who(request)):
        messages.success(request, phrase("The breaker of {name} is closed; its runs start again.", name=name))
    else:
        messages.info(request, phrase("The breaker of {name} was closed already.", name=name))
    return redirect("handler", name=name) if name else redirect("handlers")
