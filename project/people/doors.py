"""Who may pass: abilities on views, and the fresh sign-in that is good for five minutes and one decision."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from project.people.models import Proof, ProofQuerySet, User
from project.people.roles import can

ROLE_OF = {"payloads": "operator", "operate": "operator", "decide": "reviewer", "configure": "admin", "view": "viewer"}

View = Callable[..., HttpResponseBase]


def needs(ability: str, *others: str) -> Callable[[View], View]:
    """Only people with this ability, or one of the others, see the view; others read whom to ask (403)."""

    def wrap(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not any(can(request.user, one) for one in (ability, *others)):
                raise PermissionDenied(f"This needs the role {ROLE_OF[ability]}. An admin can give it to you.")
            return view(request, *args, **kwargs)

        return guarded

    return wrap


def origin_of(request: HttpRequest) -> dict[str, str]:
    """Whence it came, as it is kept beside a decision: the address, and what the browser called itself."""
    return {"remote": request.META.get("REMOTE_ADDR", "")[:45], "browser": request.headers.get("User-Agent", "")[:200]}


def who(request: HttpRequest) -> User:
    """The person behind a request that passed the gate; typed, for the doors that write it down."""
    assert isinstance(request.user, User)
    return request.user


def step_up(request: HttpRequest) -> None:
    """Note that the person has just proved again who they are."""
    if request.session.session_key is None:
        request.session.save()
    Proof.objects.all().give(who(request), str(request.session.session_key))


def is_fresh(request: HttpRequest) -> bool:
    """Whether the last proof is younger than five minutes and not used up."""
    return proofs(request).exists()


def use_up(request: HttpRequest) -> bool:
    """Take the proof, inside the transaction of what needs it; False when there is none, or somebody just took it."""
    return bool(proofs(request).delete()[0])


def proofs(request: HttpRequest) -> ProofQuerySet:
    key = request.session.session_key
    return Proof.objects.all().fresh(who(request), key) if key else Proof.objects.none()


def to_step_up(page: str) -> HttpResponseRedirect:
    """To the page that asks for the password, and back to `page`."""
    return HttpResponseRedirect(f"{reverse('step-up')}?{urlencode({'next': page})}")


def safe_next(request: HttpRequest, default: str) -> str:
    """The page to go back to, only within this desk."""
    wanted = str(request.POST.get("next") or request.GET.get("next") or "")
    return wanted if is_here(request, wanted) else default


def came_from(request: HttpRequest) -> str:
    """The page the person was on before the password was asked for, only within this desk; home when nobody knows."""
    page = str(request.POST.get("back") or request.headers.get("Referer") or "")
    path = page.removeprefix(f"{request.scheme}://{request.get_host()}")
    return path if is_here(request, path) and not path.startswith(reverse("step-up")) else "/"


def is_here(request: HttpRequest, page: str) -> bool:
    return page.startswith("/") and url_has_allowed_host_and_scheme(
        page, {request.get_host()}, require_https=request.is_secure()
    )
