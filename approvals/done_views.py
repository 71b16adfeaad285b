"""What was done without asking anybody: counted, and some of it to be looked at."""

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from approvals import reviewing
from approvals.done import done
from approvals.errors import ApprovalProblem
from approvals.models import Action, Review
from approvals.models.action import Status
from approvals.tiers import Tier
from project.lib import clock
from project.lib.language import phrase, spoken
from project.people.doors import needs, who

SPANS = {"day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30)}
SHOWN = 50  # of each list
DONE = {"fine": "Noted: it was fine.", "wrong": "Noted: it was wrong. It stands in the audit log and in the figures."}


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    now, span = clock.now(), request.GET.get("span", "day")
    span = span if span in SPANS else "day"
    held = Action.objects.for_lists().filter(tier=Tier.LOW, status=Status.APPROVED, not_before__gt=now)
    waiting, reader = Review.objects.waiting(), who(request)
    facts: dict[str, Any] = {
        "span": span,
        "spans": list(SPANS),
        "groups": done(now - SPANS[span], now),
        "soon": [row.shown_to(reader) for row in held.order_by("not_before")[:SHOWN]],
        "waiting": [(review, reviewing.may_look(review, reader)) for review in waiting.oldest_first()[:SHOWN]],
        "waiting_count": waiting.count(),
        "looked": list(Review.objects.exclude(verdict="").oldest_first().order_by("-at")[:10]),
    }
    for review in (*(row for row, _ in facts["waiting"]), *facts["looked"]):
        review.action.shown_to(reader)
    return render(request, "approvals/done.html", facts)


@require_POST
@needs("decide")
def look(request: HttpRequest, pk: int) -> HttpResponse:
    """What a person found of one action that was drawn."""
    review = get_object_or_404(Review.objects.select_related("action"), action=pk)
    verdict, note = request.POST.get("verdict", ""), request.POST.get("note", "")
    try:
        reviewing.say(review, by=who(request), verdict=verdict, note=note)
    except ApprovalProblem as problem:
        messages.error(request, phrase("{detail} Your click changed nothing.", detail=spoken(problem.detail)))
    else:
        messages.success(request, DONE[verdict])
    return redirect("done") if request.POST.get("from") == "done" else redirect("action", pk=pk)
