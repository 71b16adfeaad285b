"""`/settings`: oneself, one's tokens, and what the desk thinks of its own state."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from project.checks import DEPLOY, Question
from project.checks_live import LIVE
from project.lib.language import phrase
from project.people import doors
from project.people.doors import who
from project.people.forms import MEANINGS, MeForm, TokenForm
from project.people.models import ApiToken, ApiTokenQuerySet, User
from project.people.roles import can
from triggers.models import Audit
from triggers.views.audit import seal

REVOKED_SHOWN = 10
OWN = (
    "email",
    "time_zone",
    "language",
    "theme",
    "density",
    "keys",
    "sound",
)  # what a person may set about himself, beside the name


@require_http_methods(["GET", "HEAD", "POST"])
def me(request: HttpRequest) -> HttpResponse:
    user = who(request)
    form = MeForm(
        request.POST or None, initial={"name": user.get_full_name(), **{one: getattr(user, one) for one in OWN}}
    )
    if form.is_valid():
        keep(user, form.cleaned_data)
        messages.success(request, "Saved.")
        return redirect("settings")
    facts = {"form": form, "roles": user.groups.order_by("name"), "tab": "me"}
    return render(request, "settings.html", facts, status=400 if form.is_bound else 200)


def keep(user: User, told: dict[str, Any]) -> None:
    """Write what changed, and which of it, into the audit log: a name stands beside decisions."""
    fields = {"first_name": told["name"], "last_name": ""} if told["name"] != user.get_full_name() else {}
    fields |= {name: told[name] for name in OWN if told[name] != getattr(user, name)}
    if fields:
        with transaction.atomic():
            user.change(**fields)
            Audit.write("change", user, by=user, fields=sorted(fields))


@require_POST
def zone(request: HttpRequest) -> HttpResponse:
    """Another time zone for the times of all pages, from the menu of the clock; back to the page one came from."""
    wanted = request.POST.get("time_zone", "")
    if wanted in dict(MeForm().fields["time_zone"].choices):  # type: ignore[attr-defined]
        user = who(request)
        keep(user, {**{one: getattr(user, one) for one in OWN}, "name": user.get_full_name(), "time_zone": wanted})
    else:
        messages.error(request, phrase("There is no time zone “{name}”.", name=wanted[:64]))
    return redirect(doors.safe_next(request, "/settings"))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """One's own tokens, and for an admin everybody's; a new one is shown once, in the answer to its form."""
    user = who(request)
    form = TokenForm(user, request.POST or None)
    if not form.is_valid():
        return token_page(request, form, status=400 if form.is_bound else 200)
    if not doors.is_fresh(request):
        form.add_error(None, "Confirm that it is you in another tab (the link is above), then make it again.")
        return token_page(request, form, status=403)
    with transaction.atomic():
        made, secret = form.make(user)
        Audit.write("create", made, by=user, scopes=made.scopes, name=made.name)
    return token_page(request, TokenForm(user), made=made, secret=secret, status=201)


def token_page(request: HttpRequest, form: TokenForm, *, status: int, **made: Any) -> HttpResponse:
    user = who(request)
    rows = visible_to(user).select_related("user").order_by("-pk")
    facts = {
        "form": form,
        "tokens": [as_shown(row) for row in rows.filter(revoked_at=None)],
        "revoked": [as_shown(row) for row in rows.exclude(revoked_at=None)[:REVOKED_SHOWN]],
        "fresh": doors.is_fresh(request),
        "tab": "tokens",
    }
    return render(request, "settings_tokens.html", {**facts, **made}, status=status)


def visible_to(user: User) -> ApiTokenQuerySet:
    """One's own; an admin sees and revokes everybody's, services' among them."""
    rows = ApiToken.objects.all()
    return rows if can(user, "configure") else rows.filter(user=user)


def as_shown(row: ApiToken) -> dict[str, Any]:
    return {
        "row": row,
        "owner": row.user or row.service,
        "scopes": [(one, MEANINGS.get(one, "")) for one in row.scopes],
    }


@require_POST
def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    """Out of use at once and for good; somebody else's is not there for who may not see it."""
    user = who(request)
    row = get_object_or_404(visible_to(user), pk=pk)
    with transaction.atomic():
        if row.revoke(by=user):
            Audit.write("revoke", row, by=user, name=row.name)
    messages.success(request, phrase("{name} is revoked: it opens nothing any more.", name=row.name))
    return redirect("tokens")


@never_cache
@require_safe
def checks(request: HttpRequest) -> HttpResponse:
    """Every question anew, the worst answers first; for who runs the desk: answers name hosts, folders and people."""
    if not (can(request.user, "configure") or can(request.user, "operate")):
        raise PermissionDenied("This needs the role operator or admin. An admin can give it to you.")
    live, deploy = asked(LIVE), asked(DEPLOY)
    wrong = sum(bool(one["wrong"]) for one in [*live, *deploy])
    facts = {"live": live, "deploy": deploy, "wrong": wrong, "tab": "checks", "seal": seal()}
    return render(request, "settings_checks.html", facts)


def asked(questions: list[Question]) -> list[dict[str, Any]]:
    order = ("error", "warning", "info", "ok")
    told = [
        {"question": one, "wrong": (wrong := one.answer()), "tone": one.tone if wrong else "ok"} for one in questions
    ]
    return sorted(told, key=lambda one: order.index(str(one["tone"])))
