"""Pages of the fresh sign-in: the one that asks for it, and the app that one may enrol for it."""

from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from project.lib import qr
from project.lib.crypto import Unreadable
from project.people import doors
from project.people.doors import who
from project.people.models import Authenticator, User
from project.proving import NotConfirmed, prove
from triggers.models import Audit

WRONG = "That is no code of now. Look at the app again, and whether the clock of the phone is right."


class CodeField(forms.CharField):
    """Six digits of an app, or a recovery code."""

    def __init__(self) -> None:
        boxes = {"autocomplete": "one-time-code", "autocapitalize": "off", "spellcheck": "false", "autofocus": True}
        super().__init__(label="Code", max_length=40, widget=forms.TextInput(attrs=boxes))


class ProofForm(forms.Form):
    """A code where an app is enrolled, else the password."""

    password = forms.CharField(
        label="Your password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True}),
    )
    code = CodeField()

    def __init__(self, user: User, *args: Any) -> None:
        super().__init__(*args)
        del self.fields["password" if Authenticator.of(user) else "code"]

    @property
    def asked(self) -> forms.BoundField:
        return next(iter(self))


class CodeForm(forms.Form):
    """The first code of an app that has just read the picture."""

    code = CodeField()


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def step_up(request: HttpRequest) -> HttpResponse:
    """Ask again who it is; then back, where it is good for five minutes and one decision."""
    page = doors.safe_next(request, "/")
    form = ProofForm(who(request), request.POST or None)
    if form.is_valid():
        try:
            prove(request, **form.cleaned_data)
            return redirect(page)
        except NotConfirmed as wrong:
            form.add_error(form.asked.name, wrong.detail)
    context = {"form": form, "next": page, "back": doors.came_from(request)}
    return render(request, "step_up.html", context, status=400 if form.is_bound else 200)


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def authenticator(request: HttpRequest) -> HttpResponse:
    """One's own app: begun, confirmed by a code of it, given new recovery codes, taken away; each freshly signed in."""
    if request.method != "POST":
        return shown(request)
    if not doors.is_fresh(request):
        return doors.to_step_up(reverse("authenticator"))
    deeds = {"begin": begin, "confirm": confirm, "renew": renew, "remove": remove}
    deed = deeds.get(request.POST.get("do", ""))
    return deed(request, who(request)) if deed else shown(request, status=400)


def shown(
    request: HttpRequest, *, form: CodeForm | None = None, fresh_codes: list[str] | None = None, status: int = 200
) -> HttpResponse:
    """The picture is only for who has just proved who they are, since it is the secret."""
    app = Authenticator.objects.filter(user=who(request)).first()
    context: dict[str, Any] = {"app": app, "form": form or CodeForm(), "codes": fresh_codes, "tab": "authenticator"}
    context["fresh"] = doors.is_fresh(request)
    context["left"] = app.recovery_codes.count() if app else 0
    if app and app.confirmed_at is None and context["fresh"]:
        try:
            label = f"The picture for the app; the same as text is {app.key}"
            context |= {"picture": qr.picture(app.address(request.get_host()), label), "key": app.key}
        except Unreadable:
            context["app"] = None  # FIELD_KEY was lost since: it is begun anew
    return render(request, "settings_authenticator.html", context, status=status)


def begin(request: HttpRequest, user: User) -> HttpResponse:
    Authenticator.begin(user)
    return redirect("authenticator")


def confirm(request: HttpRequest, user: User) -> HttpResponse:
    """The app counts from its first code on; the recovery codes are shown in this answer and never again."""
    form = CodeForm(request.POST)
    app = Authenticator.objects.filter(user=user, confirmed_at=None).first()
    if app is None:
        return redirect("authenticator")
    with transaction.atomic():
        if form.is_valid() and app.confirm(form.cleaned_data["code"]):
            Audit.write("enrol an authenticator", user, by=user)
            return shown(request, fresh_codes=app.new_recovery_codes(), status=201)
    if form.is_valid():
        form.add_error("code", WRONG)
    return shown(request, form=form, status=400)


def renew(request: HttpRequest, user: User) -> HttpResponse:
    app = Authenticator.of(user)
    if app is None:
        return redirect("authenticator")
    with transaction.atomic():
        Audit.write("make recovery codes", user, by=user)
        return shown(request, fresh_codes=app.new_recovery_codes(), status=201)


def remove(request: HttpRequest, user: User) -> HttpResponse:
    """From now on the password is asked for again."""
    with transaction.atomic():
        if Authenticator.objects.filter(user=user).delete()[0]:
            Audit.write("remove the authenticator", user, by=user)
    messages.success(request, "Removed. A fresh sign-in asks for your password again.")
    return redirect("authenticator")
