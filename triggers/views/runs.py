"""Runs: the list, and one run told from its event to its actions."""

import difflib
import json
from typing import Any

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from project.lib import clock
from project.lib.problem import Problem
from project.people.doors import needs, who
from project.people.roles import can
from triggers import redrive
from triggers.models import Run, Step, Switch, Trigger, Wait
from triggers.models.run import RunQuerySet, Status
from triggers.views.lists import Filters, choices, found_by, listing
from triggers.views.steps import SMALL, chosen_of, log_of, rows_of
from triggers.views.story import Facts, now_of, summary, waited
from triggers.views.timeline import timeline

FILTERS = ("q", "handler", "trigger", "status", "event", "since", "until")
TABS = ("timeline", "log", "payload", "history")
MOST_HISTORY = 50
MOST_STEPS = 500  # rows of a timeline, lines of a log: the newest
LIST_LEAVES_OUT = ("result_json", "data_json", "event__raw", "event__data_json", "event__headers", "event__credentials")


@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """The list, newest first, with work and waiting told apart."""
    filters = Filters(request.GET, FILTERS)
    everything = Run.objects.select_related("event", "trigger").defer(*LIST_LEAVES_OUT)
    found = listing(wanted(everything, filters), everything, filters)
    tell_times(found.rows)
    handlers = Trigger.objects.kept().order_by("handler").values_list("handler", flat=True)
    context = {
        "list": found,
        "filters": filters,
        "handlers": choices(handlers, filters.one("handler")),
        "statuses": choices(Status.values, filters.one("status")),
    }
    return render(request, "triggers/runs.html", context)


def wanted(rows: RunQuerySet, filters: Filters) -> RunQuerySet:
    """The rows the filters ask for."""
    if handlers := filters.many("handler"):
        rows = rows.filter(handler__in=handlers)
    if triggers := filters.many("trigger"):
        rows = rows.filter(trigger__slug__in=triggers)
    if statuses := filters.many("status"):
        rows = rows.filter(status__in=statuses)
    if event := filters.number("event", prefix="E-"):
        rows = rows.filter(event_id=event)
    if since := filters.time("since"):
        rows = rows.filter(queued_at__gte=since)
    if until := filters.time("until"):
        rows = rows.filter(queued_at__lt=until)
    if words := filters.one("q"):
        about = Q(handler__icontains=words) | Q(event__type__icontains=words) | Q(event__subject__icontains=words)
        rows = found_by(about, rows, filters, prefix="R-")
    return rows


def tell_times(rows: list[Run]) -> None:
    """Set `waited` and `worked` on every row, by one query for all of them."""
    now = clock.now()
    waits: dict[int, list[Wait]] = {}
    for wait in Wait.objects.filter(run__in=rows):
        waits.setdefault(wait.run_id, []).append(wait)
    for run in rows:
        began, ended = run.started_at, run.finished_at or now
        run.waited = waited(waits.get(run.pk, []), now)  # type: ignore[attr-defined]
        run.worked = max(ended - began - run.waited, ended - ended) if began else None  # type: ignore[attr-defined]
        person = any(wait.status == "pending" and wait.type.startswith("approvals.") for wait in waits.get(run.pk, []))
        run.shown_status = "awaiting" if person and run.status == Status.WAITING else run.status  # type: ignore[attr-defined]


@require_safe
def run(request: HttpRequest, pk: int) -> HttpResponse:
    """One run."""
    found = get_object_or_404(Run.objects.select_related("event", "event__source", "trigger", "requester"), pk=pk)
    facts = facts_of(found, payloads=can(request.user, "payloads"))
    steps = newest_steps(found)
    tab = request.GET.get("tab", "timeline")
    tab = tab if tab in TABS else "timeline"
    rows = rows_of(facts, steps)
    problems = [row for row in rows if row.is_problem]
    only_problems = bool(request.GET.get("problems"))
    waiting = waited(facts.waits, facts.now)
    began = found.started_at or found.queued_at
    logged = found.steps.filter(kind="log")
    context = {
        "run": found,
        "tab": tab,
        "facts": facts,
        "box": now_of(facts),
        "summary": summary(facts),
        "whole": (found.finished_at or facts.now) - began,
        "waiting": waiting,
        "line": timeline(problems if only_problems else rows, shorten=not request.GET.get("full")),
        "problems": len(problems),
        "only_problems": only_problems,
        "full": bool(request.GET.get("full")),
        "step": chosen_of(found, steps, request.GET.get("step", "")),
        "cut": len(steps) == MOST_STEPS,
        "logged": logged.count(),
        "log": log_of(logged.order_by("-seq")[:MOST_STEPS]) if tab == "log" else [],
        "history": history_of(found),
        **(payload_of(found) if tab == "payload" and can(request.user, "payloads") else {}),
    }
    return render(request, "triggers/run.html", context)


def newest_steps(run: Run) -> list[Step]:
    """What there is to look at, in order, without the results: a run may have thousands of steps."""
    shown = run.steps.exclude(kind__in=SMALL).defer("result_json")
    return list(shown.order_by("-seq")[:MOST_STEPS])[::-1]


def facts_of(run: Run, *, payloads: bool) -> Facts:
    paused = Switch.objects.off().filter(
        Q(scope="all") | Q(scope="handler", name=run.handler) | Q(scope="source", name=run.event.source_slug)
    )
    return Facts(
        run=run,
        waits=list(run.waits.order_by("pk")),
        actions=list(run.actions.select_related("connection").order_by("pk")),
        letter=run.letters.order_by("-pk").first(),
        paused=paused.first(),
        now=clock.now(),
        payloads=payloads,
    )


def history_of(run: Run) -> list[Run]:
    """Every run of this handler for the same event, newest first; none is ever overwritten."""
    same = Run.objects.filter(event_id=run.event_id, handler=run.handler).select_related("requester", "trigger")
    return list(same.defer("result_json", "data_json").order_by("-pk")[:MOST_HISTORY])


def payload_of(run: Run) -> dict[str, Any]:
    """The data it works on and its result; where a person edited the data, the difference to the event's own."""
    event = run.event
    edited = run.data_json is not None
    return {
        "payload": run.data_json if edited else event.data_text,
        "edited": edited,
        "difference": difference(event.data_text, run.data_json or "") if edited else [],
    }


def difference(before: str, after: str) -> list[tuple[str, str]]:
    """Lines of a unified diff as (add | del | same, text); numbers stay as they were written."""
    lines = difflib.unified_diff(pretty(before), pretty(after), "the event", "this run", lineterm="", n=3)
    tones = {"+": "add", "-": "del"}
    return [(tones.get(line[:1], "same"), line) for line in lines if not line.startswith(("---", "+++"))]


def pretty(text: str) -> list[str]:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False).splitlines()
    except ValueError:
        return text.splitlines()


@require_POST
@needs("operate")
def cancel_run(request: HttpRequest, pk: int) -> HttpResponse:
    """End it: at once when it waits, at its next step when a worker is on it."""
    found = get_object_or_404(Run, pk=pk)
    try:
        at_once = redrive.cancel(found, by=who(request), reason=request.POST.get("reason", "")[:64])
    except Problem as refused:
        messages.error(request, refused.detail)
    else:
        messages.success(request, "Cancelled." if at_once else "It will end at its next step.")
    return redirect("run", pk=pk)


@require_POST
@needs("operate")
def run_again(request: HttpRequest, pk: int) -> HttpResponse:
    """A new run, linked to this one: from the start, or keeping what came before a step."""
    found = get_object_or_404(Run, pk=pk)
    step = request.POST.get("from_step") or None
    try:
        new = redrive.rerun(found, by=who(request), from_step=step, reason=request.POST.get("reason", "")[:2000])
    except Problem as refused:
        messages.error(request, refused.detail)
        return redirect("run", pk=pk)
    where = f"from “{step}”" if step else "from the start"
    messages.success(request, f"Runs again as R-{new.pk}, {where}.")
    return redirect("run", pk=new.pk)


@require_POST
@needs("operate")
def unblock_run(request: HttpRequest, pk: int) -> HttpResponse:
    """A person's choice for a blocked run: continue, restart or cancel."""
    found = get_object_or_404(Run, pk=pk)
    try:
        result = redrive.unblock(found, by=who(request), choice=request.POST.get("choice", ""))
    except Problem as refused:
        messages.error(request, refused.detail)
        return redirect("run", pk=pk)
    return redirect("run", pk=result.pk)
