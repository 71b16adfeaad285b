"""What holds for every page: who may see it, in which zone times are said, and what a browser may load."""

from collections.abc import Callable
from typing import Any

from csp.middleware import CSPMiddleware, PolicyParts
from django.contrib.auth.views import redirect_to_login
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.cache import patch_vary_headers

from project.lib.language import ENGLISH, language_of, spoken, words
from project.lib.text import is_storable, made_storable
from project.people.roles import can

# These answer for themselves: the API with its own sign-in, health for machines.
OWN_RULES = ("/api/", "/healthz", "/readyz", "/metrics", "/static/", "/hooks/")
ADMIN_PAGES = "/admin/"
OPEN_PAGES = ("sign-in",)
ROLELESS_PAGES = ("sign-out", "password-change", "settings")

SELF = "'self'"
NONE = "'none'"
STRICT: dict[str, list[str]] = {
    "default-src": [NONE],
    "script-src": [SELF],
    "style-src": [SELF],
    "img-src": [SELF, "data:"],
    "font-src": [SELF],
    "connect-src": [SELF],
    "form-action": [SELF],
    "base-uri": [NONE],
    "frame-ancestors": [NONE],
    "manifest-src": [SELF],
}
# Unfold's Alpine compiles expressions and sets inline styles; foreign text is never drawn as HTML there.
ADMIN = STRICT | {"script-src": [SELF, "'unsafe-eval'"], "style-src": [SELF, "'unsafe-inline'"]}
# The API's page of documentation starts itself by a script of its own.
DOCS = STRICT | {"script-src": [SELF, "'unsafe-inline'"], "style-src": [SELF, "'unsafe-inline'"]}
OTHER_POLICIES = {ADMIN_PAGES: ADMIN, "/api/v1/docs": DOCS}


class Policy(CSPMiddleware):
    """One strict policy for pages, one for the admin, one for the page of API documentation (django-csp 4)."""

    def get_policy_parts(
        self, request: HttpRequest, response: HttpResponseBase, report_only: bool = False
    ) -> PolicyParts:
        parts = super().get_policy_parts(request, response, report_only)
        if not report_only:
            others = (policy for prefix, policy in OTHER_POLICIES.items() if request.path_info.startswith(prefix))
            parts.config = next(others, STRICT)
        return parts


class Storable:
    """No database of ours keeps a NUL: an address with one is nobody's, and who sends one in a form is told so."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request.path_info = made_storable(request.path_info)
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponseBase | None:
        """What PostgreSQL refused where no field looked."""
        if request.path_info.startswith(OWN_RULES):
            return None
        sent = (text for told in (request.GET, request.POST) for _, texts in told.lists() for text in texts)
        if isinstance(error, DataError) and not all(map(is_storable, sent)):
            detail = words("It holds a NUL character, which no text has. Nothing was changed.")
            return render(request, "errors/400.html", {"detail": spoken(detail)}, status=400)
        return None


class Zone:
    """Times are said in the zone of the person who reads."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.user.is_authenticated:
            timezone.activate(request.user.zone)
        try:
            return self.get_response(request)
        finally:
            timezone.deactivate()


class Language:
    """Pages speak the language of the person who reads; what answers machines speaks English."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path_info.startswith(OWN_RULES):
            return self.get_response(request)
        with translation.override(language_of(request)):
            response = self.get_response(request)
            response.headers.setdefault("Content-Language", translation.get_language() or ENGLISH)
        patch_vary_headers(response, ("Accept-Language",))
        return response


class Gate:
    """Pages are for people who signed in, changed their first password and hold a role."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not request.path_info.startswith(OWN_RULES):
            response.headers.setdefault("X-Robots-Tag", "noindex")
            if request.user.is_authenticated:
                response.headers.setdefault("Cache-Control", "no-store")  # a stale card is worse than none
        return response

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponseBase | None:
        """The answer instead of the page; None lets the page answer."""
        name = request.resolver_match.url_name if request.resolver_match else ""
        if request.path_info.startswith(OWN_RULES) or name in OPEN_PAGES:
            return None
        user = request.user
        if not user.is_authenticated:
            return signed_out(request)
        if user.must_change_password and name not in ("password-change", "sign-out"):
            return redirect("password-change")
        if name not in ROLELESS_PAGES and not can(user, "view"):
            return render(request, "errors/no_role.html", status=403)
        if request.path_info.startswith(ADMIN_PAGES) and not can(user, "configure"):
            return render(request, "errors/403.html", {"detail": "The admin is for the role admin."}, status=403)
        return None


def signed_out(request: HttpRequest) -> HttpResponseBase:
    """To the sign-in page and back; a part that refreshes itself gets 401, so that the whole page goes there."""
    page = request.get_full_path() if request.method == "GET" else reverse("home")
    sign_in = redirect_to_login(page, reverse("sign-in"))
    if "X-Parts" not in request.headers and "HX-Request" not in request.headers:
        return sign_in
    headers = {"HX-Redirect": sign_in.url}
    return HttpResponse("Sign in first.", status=401, content_type="text/plain", headers=headers)
