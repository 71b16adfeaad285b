"""The switch: hold everything back, or one handler, kind or source. Nothing is lost meanwhile, decisions go on."""

from typing import TYPE_CHECKING

from django.db import transaction

from project.lib import clock, gate
from project.lib.live import changed
from triggers.errors import NotValid
from triggers.models import Audit, ConfigVersion, Switch

if TYPE_CHECKING:
    from project.people.models import User


def pause(scope: str, name: str = "", *, by: "User | None", reason: str = "") -> Switch:
    """From the commit on nothing starts that it holds back. Raises NotValid for a name that does not fit the scope."""
    return turn(scope, name, "pause", by=by, reason=reason)


def resume(scope: str, name: str = "", *, by: "User | None", reason: str = "") -> Switch:
    """Let it go on: what is due starts within a tick."""
    return turn(scope, name, "resume", by=by, reason=reason)


def turn(scope: str, name: str, verb: str, *, by: "User | None", reason: str) -> Switch:
    if scope not in Switch.SCOPES or (scope == "all") == bool(name):
        raise NotValid("`all` has no name; a handler, kind or source has one.", field="name")
    with transaction.atomic():
        gate.exclusive()
        fields = {"paused": verb == "pause", "reason": reason, "by": by, "at": clock.now()}
        row, _ = Switch.objects.update_or_create(scope=scope, name=name, defaults=fields)
        ConfigVersion.bump()
        Audit.write(verb, row, by=by, reason=reason)
        changed("home")
    return row
