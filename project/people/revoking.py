"""What follows when a token is revoked: who lets tokens ask for something adds what becomes of it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from project.people.models import ApiToken, User

at_revocation: list[Callable[["ApiToken", "User | None"], None]] = []  # called inside the transaction that revokes it
