"""Runs: the list, and one run told from its event to its actions."""

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from project.lib import clock
from project.lib.jsontext import difference
from project.lib.language import phrase
from project.lib.problem import Problem
from project.people.doors import needs, who
from project.people.models import User
from project.people.roles import can
from triggers import history, redrive, registry, schemas
from triggers.models import Audit, DeadLetter, Run, Step, Switch, Trigger, Wait
from triggers.models.run import CLAIMABLE, Status
from triggers.unblock import unblock
from triggers.views.holds import MOST_SHOWN, briefs_of, hold_of
from triggers.views.lists import Filters, as_table, list_page, listing
from triggers.views.steps import SMALL, chosen_of, log_of, orphans_of, rows_of
from triggers.views.story import Facts, now_of, summary, waited
from triggers.views.timeline import timeline

FILTERS = ("id", "handler", "trigger", "status", "event", "since", "until")
SORTS = {"ended": "finished_at"}
MOST_HISTORY = 50
MOST_STEPS = 500  # rows of a timeline, lines of a log: the newest
LIST_LEAVES_OUT = ("result_json", "data_json", "event__raw", "event__data_json", "event__headers", "event__credentials")


@require_safe
def runs(request: HttpRequest) -> HttpResponseBase:
    """The list, newest first, with work and waiting told apart."""
    filters = Filters(request.GET, FILTERS, SORTS)
    everything = Run.objects.select_related("event", "trigger").defer(*LIST_LEAVES_OUT)
    rows = filters.narrow(everything, schemas.RunFilters)
    if filters.as_table:
        return as_table(request, "runs", schemas.RunRow, rows, schemas.RunRow.facts)
    found = listing(rows, everything, filters)
    tell_times(found.rows, clock.of(request))
    kept = list(Trigger.objects.kept().order_by("slug").values_list("slug", "handler"))
    handlers = sorted({*registry.HANDLERS, *(handler for _, handler in kept)})
    picks = [
        filters.pick("handler", "Handler", handlers),
        filters.pick("trigger", "Trigger", [slug for slug, _ in kept]),
        filters.pick("status", "State", Status.values),
    ]
    return list_page(request, "triggers/runs.html", filters, {"list": found, "picks": picks, "verbs": ["cancel"]})


def tell_times(rows: list[Run], now: datetime) -> None:
    """Set `waited` and `worked` on every row, by one query for all of them, and `held` on those that are queued."""
    briefs = briefs_of(rows, now)
    waits: dict[int, list[Wait]] = {}
    for wait in Wait.objects.filter(run__in=rows):
        waits.setdefault(wait.run_id, []).append(wait)
    for run in rows:
        began, ended = run.started_at, run.finished_at or now
        run.waited = waited(waits.get(run.pk, []), now)  # type: ignore[attr-defined]
        run.worked = max(ended - began - run.waited, ended - ended) if began else None  # type: ignore[attr-defined]
        person = any(wait.status == "pending" and wait.type.startswith("approvals.") for wait in waits.get(run.pk, []))
        run.held = briefs.get(run.pk, "")  # type: ignore[attr-defined]
        run.shown_status = "awaiting" if person and run.status == Status.WAITING else run.status  # type: ignore[attr-defined]


@require_safe
def run(request: HttpRequest, pk: int) -> HttpResponse:
    """One run."""
    found = get_object_or_404(with_counts(), pk=pk)
    facts = facts_of(found, clock.of(request), reader=who(request))
    tab = request.GET.get("tab", "timeline")
    tab = tab if tab in TABS else "timeline"
    began = found.started_at or found.queued_at
    context = {
        "run": found,
        "tab": tab,
        "facts": facts,
        "box": now_of(facts),
        "summary": summary(facts),
        "whole": (found.finished_at or facts.now) - began,
        "waiting": waited(facts.waits, facts.now),
        "many_steps": found.remembered >= history.MANY_STEPS and history.MOST_STEPS,
        "edit": edit_of(found),
        "orphans": orphans_of(found),
        "undoing": next((told for ask in registry.undoing_of if (told := ask(found))), None),
        "used": next((told for ask in registry.used_by if (told := ask(found))), None),
        **TABS[tab](request, facts),
    }
    return render(request, "triggers/run.html", context)


def with_counts() -> QuerySet[Any]:
    """Runs with what their page says of them; `logged` and `told` are the numbers on its tabs."""
    lines = Step.objects.filter(run=OuterRef("pk"), kind="log").order_by().values("run").annotate(n=Count("pk"))
    same = Run.objects.filter(event=OuterRef("event"), handler=OuterRef("handler")).order_by()
    told = same.values("event").annotate(n=Count("pk"))
    steps = Step.objects.filter(run=OuterRef("pk")).order_by().values("run").annotate(n=Count("pk"))
    rows = Run.objects.select_related("event", "event__source", "trigger", "requester")
    return rows.annotate(
        logged=Coalesce(Subquery(lines.values("n")), 0),
        remembered=Coalesce(Subquery(steps.values("n")), 0),
        told=Subquery(told.values("n")),
    )


def edit_of(run: Run) -> Run | None:
    """The run in which a person gave this one its data: itself, or one it repeats; None when it has the event's own."""
    if run.data_json is None:
        return None
    same = Run.objects.filter(event_id=run.event_id, data_json=run.data_json).select_related("requester")
    edit = same.order_by("pk").first()
    if edit is not None:
        edit.why = why_of(edit)  # type: ignore[attr-defined]
    return edit


def why_of(run: Run) -> str:
    """What the person said who ran a dead letter again as this run; the letter may have been opened again since."""
    kin = redrive.kin_of(run).values("pk")
    letters = DeadLetter.objects.filter(Q(run__in=kin) | Q(redriven_as__in=kin)).values_list("pk", flat=True)
    deeds = Audit.objects.about([f"deadletter/{pk}" for pk in letters]).filter(verb="redrive")
    return next((str(deed.detail.get("reason", "")) for deed in deeds if deed.detail.get("as_run") == run.pk), "")


def timeline_tab(request: HttpRequest, facts: Facts) -> dict[str, Any]:
    steps = newest_steps(facts.run)
    rows = rows_of(facts, steps)
    problems = [row for row in rows if row.is_problem]
    only_problems, full = bool(request.GET.get("problems")), bool(request.GET.get("full"))
    shown, step = problems if only_problems else rows, chosen_of(facts.run, steps, request.GET.get("step", ""))
    return {
        "line": timeline(shown, shorten=not full),
        "beside": beside(step, [row.link for row in shown if row.link]),
        "problems": len(problems),
        "only_problems": only_problems,
        "full": full,
        "step": step,
        "step_status": next((row.status for row in rows if step and row.link == step.name), ""),
        "cut": len(steps) == MOST_STEPS,
    }


def beside(step: Step | None, names: list[str]) -> tuple[str, str]:
    """The steps before and after the one that is open; "" where there is none."""
    at = names.index(step.name) if step and step.name in names else None
    if at is None:
        return "", names[0] if names else ""
    return names[at - 1] if at else "", names[at + 1] if at + 1 < len(names) else ""


def log_tab(request: HttpRequest, facts: Facts) -> dict[str, Any]:
    return {"log": log_of(facts.run.steps.filter(kind="log").order_by("-seq")[:MOST_STEPS])}


def payload_tab(request: HttpRequest, facts: Facts) -> dict[str, Any]:
    """The data it works on; where a person edited it, the difference to the event's own."""
    run, own = facts.run, facts.run.event.data_text if facts.payloads else ""
    if not facts.payloads or run.data_json is None:
        return {"payload": own}
    return {"payload": run.data_json, "difference": difference(own, run.data_json)}


def history_tab(request: HttpRequest, facts: Facts) -> dict[str, Any]:
    """Every run of this handler for the same event, newest first; none is ever overwritten."""
    run = facts.run
    same = Run.objects.filter(event_id=run.event_id, handler=run.handler).select_related("requester", "trigger")
    return {"history": same.defer("result_json", "data_json").order_by("-pk")[:MOST_HISTORY]}


TABS = {"timeline": timeline_tab, "log": log_tab, "payload": payload_tab, "history": history_tab}


def newest_steps(run: Run) -> list[Step]:
    """What there is to look at, in order, without the results: a run may have thousands of steps."""
    shown = run.steps.exclude(kind__in=SMALL).defer("result_json")
    return list(shown.order_by("-seq")[:MOST_STEPS])[::-1]


def facts_of(run: Run, now: datetime, *, reader: User) -> Facts:
    waits = run.status == Status.WAITING
    return Facts(
        run=run,
        waits=list(run.waits.order_by("pk")),
        actions=[row.shown_to(reader) for row in run.actions.select_related("connection").order_by("pk")],
        letter=run.letters.order_by("-pk").first() if run.status == Status.DEAD else None,
        paused=Switch.objects.holding(handler=run.handler, source=run.event.source_slug).first()
        if run.status in CLAIMABLE
        else None,
        hold=hold_of(run, now) if run.status in CLAIMABLE else None,
        asked=next((asked for ask in registry.asked_of if (asked := ask(run))), None) if waits else None,
        gathered=list(run.gathered.order_by("-event").values_list("event", flat=True)[:MOST_SHOWN]),
        now=now,
        payloads=can(reader, "payloads"),
    )


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
    messages.success(request, phrase("Runs again as R-{id}, {where}.", id=new.pk, where=where))
    return redirect("run", pk=new.pk)


@require_POST
@needs("operate")
def unblock_run(request: HttpRequest, pk: int) -> HttpResponse:
    """A person's choice for a blocked run: continue, restart or cancel."""
    found = get_object_or_404(Run, pk=pk)
    try:
        result = unblock(found, by=who(request), choice=request.POST.get("choice", ""))
    except Problem as refused:
        messages.error(request, refused.detail)
        return redirect("run", pk=pk)
    return redirect("run", pk=result.pk)
