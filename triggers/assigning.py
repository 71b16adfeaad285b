"""Who looks after a cause of dead letters: a person who may run its letters again, or nobody."""

from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import QuerySet

from project.lib.live import changed
from project.people.roles import OPERATOR
from triggers.errors import NotValid
from triggers.models import Audit, Cause, DeadLetter

if TYPE_CHECKING:
    from project.people.models import User


def able() -> "QuerySet[User]":
    """Those a cause can be given to, by name."""
    return get_user_model().objects.filter(is_active=True, groups__name=OPERATOR).order_by("username")


def named(username: str | None) -> "User | None":
    """The person of that name; nobody for None and "". Raises NotValid for one who may run nothing again."""
    if not username:
        return None
    person = able().filter(username=username).first()
    if person is None:
        raise NotValid(f"“{username}” is no active person with the role operator", field="to")
    return person


def assign(fingerprint: str, to: "User | None", *, by: "User | None") -> Cause:
    """Give all letters of a cause, those of tomorrow too, to one person; None takes them from whoever has them.

    `to` is one of `able()`. Raises NotValid when no letter has this cause."""
    with transaction.atomic():
        letter = DeadLetter.objects.filter(fingerprint=fingerprint).order_by("-pk").first()
        if letter is None:
            raise NotValid("There is no dead letter with this cause.")
        Cause.objects.get_or_create(pk=fingerprint)
        cause = Cause.objects.select_for_update(of=("self",), no_key=True).get(pk=fingerprint)
        if cause.assignee_id != (to and to.pk):
            cause.assignee = to
            cause.save(update_fields=["assignee"])
            Audit.write("assign", cause, by=by, to=to.username if to else "")
            changed("dead_letters", id=letter.pk)
    return cause
