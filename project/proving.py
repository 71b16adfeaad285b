"""Proving again who one is, on the page and by the API: good for five minutes and one decision."""

from django.db import transaction
from django.http import HttpRequest

from project.lib.problem import Problem
from project.people import doors
from project.people.codes import is_proven
from project.people.doors import who
from project.people.models import Authenticator
from triggers.models import Audit

DIGITS = 6  # of the code of an app; whatever is longer is a recovery code


class NotConfirmed(Problem):
    """That is not your password."""

    code = "not_confirmed"
    http = 403


class NoSuchCode(NotConfirmed):
    """That is no code of now, or it was used already. Wait for the next one, or use a recovery code."""


def prove(request: HttpRequest, *, password: str = "", code: str = "") -> None:
    """Note that the person is who they say: by a code where an app is enrolled, else by the password.

    Raises NotConfirmed."""
    user = who(request)
    by_code = Authenticator.of(user) is not None
    with transaction.atomic():
        proven = is_proven(request, user, password=password, code=code)
        if proven:
            doors.step_up(request)
            if by_code and len("".join(code.split())) > DIGITS:
                Audit.write("use a recovery code", user, by=user)
    if not proven:
        raise NoSuchCode if by_code else NotConfirmed
