"""The code of an authenticator app, beside the password: asked by the same `authenticate()`, throttled alike."""

from contextlib import suppress

from django.contrib.auth import authenticate
from django.contrib.auth.backends import BaseBackend
from django.http import HttpRequest

from project.lib.crypto import Unreadable
from project.people.models import Authenticator, User


class CodeBackend(BaseBackend):
    """Takes a code of somebody who signed in with the password before; the sign-in page never sends one."""

    def authenticate(self, request: HttpRequest | None, username: str, code: str) -> User | None:  # type: ignore[override]
        user = User.objects.filter(username=username, is_active=True).first()
        app = Authenticator.of(user) if user else None
        if app is None:
            return None
        with suppress(Unreadable):  # FIELD_KEY was lost; a recovery code needs none
            if app.take(code):
                return user
        return user if app.use_recovery_code(code) else None


def is_proven(request: HttpRequest, user: User, *, password: str, code: str) -> bool:
    """Whether `user` is who sits there: by a code where an app is enrolled, else by the password.

    Too many wrong ones rest the name, as at the sign-in."""
    given = {"code": code} if Authenticator.of(user) else {"password": password}
    return authenticate(request, username=user.get_username(), **given) == user
