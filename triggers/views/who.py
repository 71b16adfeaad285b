"""Who presses the button: typed, for the doors that write it down."""

from django.http import HttpRequest

from project.people.models import User


def who(request: HttpRequest) -> User:
    """The person behind a request that passed the gate."""
    assert isinstance(request.user, User)
    return request.user
