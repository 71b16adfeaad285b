"""Who may pass: abilities on views, and the fresh sign-in that is good for five minutes and one decision."""

import time
from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from project.people.models import User
from project.people.roles import can

FRESH_FOR = 300  # seconds a step-up is good for
MARK = "stepped_up_at"  # in the session: seconds since 1970 by this server's clock
ROLE_OF = {"payloads": "operator", "operate": "operator", "decide": "reviewer", "configure": "admin", "view": "viewer"}

View = Callable[..., HttpResponseBase]


def needs(ability: str) -> Callable[[View], View]:
    """Only people with this ability see the view; others read whom to ask (403)."""

    def wrap(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not can(request.user, ability):
                raise PermissionDenied(f"This needs the role {ROLE_OF[ability]}. An admin can give it to you.")
            return view(request, *args, **kwargs)

        return guarded

    return wrap


def who(request: HttpRequest) -> User:
    """The person behind a request that passed the gate; typed, for the doors that write it down."""
    assert isinstance(request.user, User)
    return request.user


def step_up(request: HttpRequest) -> None:
    """Note that the person has just proved again who they are."""
    request.session[MARK] = time.time()


def is_fresh(request: HttpRequest) -> bool:
    """Whether the last proof is younger than five minutes and not used up."""
    mark = request.session.get(MARK)
    return isinstance(mark, (int, float)) and 0 <= time.time() - mark < FRESH_FOR


def use_up(request: HttpRequest) -> None:
    """One decision, one proof."""
    request.session.pop(MARK, None)


def to_step_up(page: str) -> HttpResponseRedirect:
    """To the page that asks for the password, and back to `page`."""
    return HttpResponseRedirect(f"{reverse('step-up')}?{urlencode({'next': page})}")


def safe_next(request: HttpRequest, default: str) -> str:
    """The page to go back to, only within this desk."""
    wanted = str(request.POST.get("next") or request.GET.get("next") or "")
    ok = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if ok else default
