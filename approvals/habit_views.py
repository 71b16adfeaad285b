"""For admins: who decides how often, how fast, and how often with a yes."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from approvals.habits import LOOKED_BACK, QUICK, habits
from project.lib import clock
from project.people.doors import needs


@require_safe
@needs("configure")
def people(request: HttpRequest) -> HttpResponse:
    facts = {"habits": habits(clock.now()), "days": LOOKED_BACK.days, "quick": QUICK}
    return render(request, "approvals/habits.html", facts)
