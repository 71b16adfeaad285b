"""Who calls the API: a person in a browser, a person's token, or the token of a service."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest
from ninja.security import APIKeyCookie, HttpBearer
from ninja.utils import check_csrf

from project.lib import clock
from project.lib.problem import Problem
from project.people import doors
from project.people.models import PEOPLE_ONLY, ApiToken, User
from project.people.roles import can

# What a token must carry for each ability; a person's token also needs the person's role.
SCOPES = {
    "view": "read",
    "payloads": "operate",
    "operate": "operate",
    "decide": "decide",
    "configure": "configure",
    "ingest": "ingest",
    "propose": "propose",
}
ROLES = {"ingest": "operate", "propose": "operate"}  # abilities of machines, and what a person needs for them
NOTED_EVERY = timedelta(minutes=1)  # `last_used_at` is no finer than this
SAFE = ("GET", "HEAD", "OPTIONS")


class NotSignedIn(Problem):
    """Sign in, or send a token: `Authorization: Bearer nd_…`."""

    code = "not_signed_in"
    http = 401


class Forbidden(Problem):
    """You may not do that."""

    code = "forbidden"
    http = 403


class NotFresh(Problem):
    """Confirm that it is you: give your password again, then repeat the request."""

    code = "step_up_required"
    http = 403


class CsrfFailed(Problem):
    """A browser must send the CSRF token of its page."""

    code = "csrf_failed"
    http = 403


@dataclass(frozen=True, slots=True)
class Caller:
    """Exactly one of: a person (with or without a token), or a service's token."""

    user: User | None
    token: ApiToken | None = None

    def may(self, ability: str) -> bool:
        """Whether the role and, for a token, its scope allow `ability`; a service never decides or configures."""
        scope = SCOPES[ability]
        if self.token is not None and scope not in self.token.scopes:
            return False
        if self.user is None:
            return scope not in PEOPLE_ONLY
        return can(self.user, ROLES.get(ability, ability))

    def need(self, ability: str) -> None:
        if not self.may(ability):
            raise Forbidden(needs=SCOPES[ability] if self.token else ability)

    def need_scope(self, *scopes: str) -> None:
        """For doors that ask what the person may: a token must carry one of these scopes."""
        if self.token is not None and not set(scopes) & set(self.token.scopes):
            raise Forbidden(needs=scopes[0])

    def need_fresh_admin(self, request: HttpRequest) -> None:
        """For secrets and connections: an admin who signed in and proved it again; never a token."""
        if self.token is not None:
            raise Forbidden("A token cannot do that; an admin signs in and does it.")
        self.need("configure")
        if not doors.is_fresh(request):
            raise NotFresh


class Bearer(HttpBearer):
    """`Authorization: Bearer nd_…`."""

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        row = ApiToken.objects.all().named(token.strip())
        if row is None:
            return None
        if request.method not in SAFE:
            note_use(row)
        return Caller(row.user, row)


class Session(APIKeyCookie):
    """A signed-in browser; whatever changes something must carry the CSRF token."""

    param_name = settings.SESSION_COOKIE_NAME

    def __init__(self) -> None:
        super().__init__(csrf=False)  # looked at below, once it is known that somebody is signed in

    def authenticate(self, request: HttpRequest, key: str | None) -> Caller | None:
        if "Authorization" in request.headers or not isinstance(request.user, User):
            return None
        if check_csrf(request) is not None:
            raise CsrfFailed
        if request.user.must_change_password:
            raise Forbidden("Choose a password of your own first.", page="/password-change")
        return Caller(request.user)


SIGNED_IN: list[Any] = [Bearer(), Session()]


def caller(request: HttpRequest) -> Caller:
    """Who was let in; only for operations under `SIGNED_IN`."""
    found = getattr(request, "auth", None)
    if not isinstance(found, Caller):
        raise NotSignedIn
    return found


def note_use(token: ApiToken) -> None:
    """When a token was last used to change something, to the minute."""
    now = clock.now()
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - NOTED_EVERY)
    ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
