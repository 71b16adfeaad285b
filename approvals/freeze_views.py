"""The freeze calendar on its page: what is on, what is to come, what was; an admin adds to it and lifts. Above it
stands the switch, for what must stop at once."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from approvals import freezing
from approvals.kinds import KINDS
from approvals.models import Action, Freeze
from approvals.switch_views import SwitchForm
from approvals.tiers import Tier
from project.lib import clock
from project.lib.language import phrase
from project.lib.problem import Problem
from project.people import doors
from project.people.doors import needs, who
from project.people.roles import can
from triggers.forms.fields import DeskForm, LinesField
from triggers.models import Switch

PAST = 20  # freezes that are over and still shown


class FreezeForm(DeskForm):
    """A new entry of the calendar."""

    name = forms.CharField(label="What is it for?", max_length=200, help_text="People read it on what waits.")
    starts_at = forms.DateTimeField(
        label="From", widget=forms.DateTimeInput({"type": "datetime-local"}, "%Y-%m-%dT%H:%M")
    )
    ends_at = forms.DateTimeField(
        label="Until", widget=forms.DateTimeInput({"type": "datetime-local"}, "%Y-%m-%dT%H:%M")
    )
    tiers = forms.MultipleChoiceField(
        label="Only these tiers",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        choices=[(tier.value, tier.label) for tier in Tier if tier is not Tier.READ],
        help_text="None ticked: all of them.",
    )
    kinds = LinesField(
        label="Only these kinds", required=False, help_text="One a line: stripe.refund, or github.* Empty: all of them."
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def freezes(request: HttpRequest) -> HttpResponseBase:
    """Everybody reads it; the POST of an admin adds one."""
    return added(request) if request.method == "POST" else page(request, FreezeForm())


@needs("configure")
def added(request: HttpRequest) -> HttpResponse:
    form = FreezeForm(request.POST)
    if not form.is_valid():
        return page(request, form, status=422)
    if not doors.is_fresh(request):
        form.add_error(None, "Confirm that it is you in another tab (the link is above), then save again.")
        return page(request, form, status=403)
    try:
        row = freezing.freeze(**form.cleaned_data, by=who(request))
    except Problem as refused:
        form.refuse(refused)
        return page(request, form, status=422)
    messages.success(request, phrase("“{name}” is in the calendar.", name=row.name))
    return redirect("freezes")


def page(request: HttpRequest, form: FreezeForm, *, status: int = 200) -> HttpResponse:
    now = clock.now()
    rows = Freeze.objects.select_related("by", "lifted_by")
    ahead = list(rows.ahead(now).order_by("starts_at"))
    context: dict[str, Any] = {
        "form": form,
        "on": [row for row in ahead if row.is_on(now)],
        "coming": [row for row in ahead if not row.is_on(now)],
        "past": rows.exclude(pk__in=[row.pk for row in ahead]).order_by("-ends_at")[:PAST],
        "waiting": Action.objects.filter(status="approved", frozen_until__gt=now).count(),
        "stopped": Switch.objects.off().select_related("by").order_by("scope", "name"),
        "switch": SwitchForm(),
        "may_edit": can(request.user, "configure"),
        "fresh": doors.is_fresh(request),
        "kinds": sorted(KINDS),
        "zone_here": timezone.get_current_timezone_name(),
    }
    return render(request, "approvals/freezes.html", context, status=status)


@require_POST
@needs("configure")
def lift(request: HttpRequest, pk: int) -> HttpResponse:
    """It is over at once."""
    row = get_object_or_404(Freeze, pk=pk)
    if not doors.is_fresh(request):
        return doors.to_step_up("/freezes")
    try:
        freezing.lift(row, by=who(request))
    except Problem as refused:
        messages.warning(request, refused.detail)
    else:
        messages.success(request, phrase("“{name}” is lifted. What waited for it starts now.", name=row.name))
    return redirect("freezes")
