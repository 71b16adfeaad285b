"""`/settings/notifications`: how the desk reaches one, and when."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from approvals import channels
from approvals.carriers import carrier_of
from approvals.channel_forms import ChannelForm, HoursForm
from approvals.errors import NotValid
from approvals.models import Channel, Hours, Notice
from approvals.models.channel import ChannelQuerySet
from project.people.doors import who
from project.people.models import User


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def notifications(request: HttpRequest) -> HttpResponse:
    """Everything of oneself; a POST sets up one more channel."""
    form = ChannelForm(request.POST or None)
    if form.is_valid():
        try:
            made = channels.add(who(request), form.way, form.cleaned_data["address"])
        except NotValid as refused:
            if "channel" in refused.facts:  # it is set up; only its code was not taken
                return page(request, refused=refused)
            form.refuse(refused)
        else:
            sent = (
                "A code is on its way to you. Type it below." if made.confirmed_at is None else "It is there already."
            )
            messages.success(request, sent)
            return redirect("notifications")
    return page(request, form)


def page(
    request: HttpRequest,
    form: ChannelForm | None = None,
    hours: HoursForm | None = None,
    *,
    refused: NotValid | None = None,
) -> HttpResponse:
    person = who(request)
    form, hours = form or ChannelForm(), hours or HoursForm(initial=Hours.shown(person))
    facts = {
        "form": form,
        "hours": hours,
        "zone": person.zone,
        "channels": [as_shown(row, refused) for row in own(person).order_by("pk")],
        "tab": "notifications",
    }
    status = 422 if refused or any(one.is_bound and one.errors for one in (form, hours)) else 200
    return render(request, "approvals/notifications.html", facts, status=status)


def own(person: User) -> ChannelQuerySet:
    return Channel.objects.kept().filter(person=person).select_related("connection", "person")


def as_shown(row: Channel, refused: NotValid | None = None) -> dict[str, Any]:
    last = Notice.objects.filter(channel=row).exclude(status="skipped").order_by("-pk").first()
    carrier = carrier_of(row.connection.system, row.address)
    why = refused.detail if refused and refused.facts["channel"] == row.pk else ""
    return {"row": row, "carrier": carrier, "last": last, "is_open": row.connection.archived_at is None, "why": why}


@require_POST
def channel_code(request: HttpRequest, pk: int) -> HttpResponse:
    """The code that was read, or, without one, another code."""
    row = get_object_or_404(own(who(request)), pk=pk)
    code = request.POST.get("code", "").strip()
    if code:
        return told(request, "It reaches you: from now on you are told there.", channels.confirm, row, code)
    return told(request, "A new code is on its way to you.", channels.send_code, row)


@require_POST
def channel_test(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(own(who(request)).filter(confirmed_at__isnull=False), pk=pk)
    return told(request, "The far side took the test message. Is it there?", channels.try_out, row)


@require_POST
def channel_remove(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(own(who(request)), pk=pk)
    return told(request, "Removed. Nothing is sent there any more.", channels.remove, row)


@require_POST
def hours_save(request: HttpRequest) -> HttpResponse:
    form = HoursForm(request.POST)
    if not form.is_valid():
        return page(request, hours=form)
    return told(request, "Your hours are saved.", channels.set_hours, who(request), **form.cleaned_data)


def told(request: HttpRequest, words: str, door: Callable[..., None], *given: Any, **named: Any) -> HttpResponse:
    """Call a door, and say on the page how it went."""
    try:
        door(*given, **named)
    except NotValid as refused:
        messages.error(request, refused.detail)
    else:
        messages.success(request, words)
    return redirect("notifications")
