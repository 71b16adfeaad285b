"""Signing in and out, and the first password."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import authenticate, login, logout, update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm, SetPasswordForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from project.people import doors
from project.people.models import User


def old_password(request: HttpRequest, password: str) -> str:
    """The password of whoever is signed in; throttled like the sign-in, since the same backends are asked."""
    if authenticate(request, username=request.user.get_username(), password=password) is None:
        raise forms.ValidationError("That is not your password.")
    return password


class PasswordForm(forms.Form):
    """The password of whoever is signed in."""

    password = forms.CharField(
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True}), strip=False
    )

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        self.request = request
        super().__init__(*args)

    def clean_password(self) -> str:
        return old_password(self.request, self.cleaned_data["password"])


class NewPasswordForm(SetPasswordForm):  # type: ignore[type-arg]
    """A new password. Who only found the browser open must not get one: the old one is asked for, throttled too,
    but right after the sign-in with a printed one."""

    field_order = ("password", "new_password1", "new_password2")

    def __init__(self, request: HttpRequest, user: User, *args: Any) -> None:
        self.request = request
        super().__init__(user, *args)
        if not user.must_change_password:
            self.fields["password"] = PasswordForm.base_fields["password"]
            self.order_fields(self.field_order)

    def clean_password(self) -> str:
        return old_password(self.request, self.cleaned_data["password"])


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Name and password; too many failures are answered by the throttle."""
    page = doors.safe_next(request, "/")
    if request.user.is_authenticated:
        return redirect(page)
    form = AuthenticationForm(request, request.POST or None)
    if form.is_valid():
        login(request, form.get_user())
        return redirect(page)
    status = 400 if form.is_bound else 200
    return render(request, "sign_in.html", {"form": form, "next": page}, status=status)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("sign-in")


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def password_change(request: HttpRequest) -> HttpResponse:
    """A new password; one that was printed is asked for before anything else."""
    form = NewPasswordForm(request, doors.who(request), request.POST or None)
    if form.is_valid():
        user = form.save()
        User.objects.filter(pk=user.pk).update(must_change_password=False)
        update_session_auth_hash(request, user)
        messages.success(request, "Your password is changed.")
        return redirect("home")
    status = 400 if form.is_bound else 200
    return render(request, "password_change.html", {"form": form}, status=status)


def too_many(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    """What the throttle answers after too many wrong passwords (AXES_LOCKOUT_CALLABLE)."""
    answer = render(request, "errors/locked.html", status=429)
    answer["Retry-After"] = "900"
    return answer
