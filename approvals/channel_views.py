"""`/settings/notifications`: how the desk reaches one, and when. And where a link of such a message leads."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from approvals import channels, clicks, links
from approvals.asking import still_asks
from approvals.carriers import CARRIERS
from approvals.errors import NotValid
from approvals.letters import outcome_of
from approvals.models import Channel, Connection, Hours, Notice
from approvals.models.channel import ChannelQuerySet
from approvals.policy_forms import WindowsField
from project.lib.crypto import Unreadable
from project.people.doors import who
from project.people.models import User
from triggers.door import PROBLEM_401
from triggers.forms.fields import MONO, DeskForm
from triggers.sources.verify import Forged


class ChannelForm(DeskForm):
    """A new way to be reached."""

    connection = forms.ChoiceField(label="By")
    address = forms.CharField(
        label="Address",
        max_length=254,
        required=False,
        help_text="Mail: your address. Slack: your member id (U…). Telegram: your chat's id. A group: nothing.",
        widget=forms.TextInput(attrs=MONO),
    )

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        self.ways = {row.slug: row for row in channels.open_ways()}
        named = [(slug, f"{CARRIERS[row.system].words}: {row.name or slug}") for slug, row in self.ways.items()]
        self.fields["connection"].choices = named  # type: ignore[attr-defined]

    @property
    def way(self) -> Connection:
        return self.ways[self.cleaned_data["connection"]]


class HoursForm(DeskForm):
    windows = WindowsField(
        label="Write to me only",
        required=False,
        help_text="One a line: mon-fri 09:00-17:00, in your own time zone. Empty: at any time.",
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def notifications(request: HttpRequest) -> HttpResponse:
    """Everything of oneself; a POST sets up one more channel."""
    form = ChannelForm(request.POST or None)
    if form.is_valid():
        try:
            made = channels.add(who(request), form.way, form.cleaned_data["address"])
        except NotValid as refused:
            form.refuse(refused)
        else:
            sent = (
                "A code is on its way to you. Type it below." if made.confirmed_at is None else "It is there already."
            )
            messages.success(request, sent)
            return redirect("notifications")
    return page(request, form)


def page(request: HttpRequest, form: ChannelForm | None = None, hours: HoursForm | None = None) -> HttpResponse:
    person = who(request)
    form, hours = form or ChannelForm(), hours or HoursForm(initial={"windows": Hours.of(person)})
    facts = {
        "form": form,
        "hours": hours,
        "zone": person.zone,
        "channels": [as_shown(row) for row in own(person).order_by("pk")],
        "tab": "notifications",
    }
    status = 422 if any(one.is_bound and one.errors for one in (form, hours)) else 200
    return render(request, "approvals/notifications.html", facts, status=status)


def own(person: User) -> ChannelQuerySet:
    return Channel.objects.kept().filter(person=person).select_related("connection", "person")


def as_shown(row: Channel) -> dict[str, Any]:
    last = Notice.objects.filter(channel=row).exclude(status="skipped").order_by("-pk").first()
    carrier = CARRIERS[row.connection.system]
    return {"row": row, "carrier": carrier, "last": last, "is_open": row.connection.archived_at is None}


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
    return told(request, "Your hours are saved.", channels.set_hours, who(request), form.cleaned_data["windows"])


def told(request: HttpRequest, words: str, door: Callable[..., None], *given: Any) -> HttpResponse:
    """Call a door, and say on the page how it went."""
    try:
        door(*given)
    except NotValid as refused:
        messages.error(request, refused.detail)
    else:
        messages.success(request, words)
    return redirect("notifications")


@never_cache
@require_safe
def go(request: HttpRequest, slug: str) -> HttpResponse:
    """Open what a message was about, or say that it is over. Nothing changes by it."""
    notice = links.read(slug, who(request))
    if notice is None:
        raise PermissionDenied("This link was made for somebody else, or it is not whole.")
    asking, action = notice.asking, notice.asking.action
    if still_asks(asking, action):
        return redirect("action", pk=action.pk)
    return render(request, "approvals/link.html", {"action": action, "outcome": outcome_of(asking, action)})


@csrf_exempt
@require_POST
def pressed(request: HttpRequest, slug: str) -> HttpResponse:
    """Slack's call-back for buttons. Whatever is wrong with the proof, the answer is the same."""
    connection = Connection.objects.kept().filter(slug=slug, system="slack").first()
    headers = {name.lower(): value for name, value in request.headers.items()}
    try:
        if connection is None:
            raise Forged("no_secret", "there is no such connection")
        clicks.hear(connection, request.body, headers, remote=request.META.get("REMOTE_ADDR", ""))
    except (Forged, Unreadable):
        return HttpResponse(PROBLEM_401, status=401, content_type="application/problem+json")
    return HttpResponse(status=200)
