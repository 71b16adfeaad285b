"""The switch: hold everything back, or one handler, kind or source. Nothing is lost meanwhile, decisions go on."""

from typing import TYPE_CHECKING

from django.db import transaction

from project.lib import clock, gate
from project.lib.live import changed
from triggers import registry
from triggers.envelope import INNER
from triggers.errors import NotValid
from triggers.models import Audit, ConfigVersion, Run, Source, Switch, Trigger

if TYPE_CHECKING:
    from project.people.models import User


def pause(scope: str, name: str = "", *, by: "User | None", reason: str = "") -> Switch:
    """From the commit on nothing starts that it holds back. Raises NotValid for a name that is none of the scope."""
    return turn(scope, name, "pause", by=by, reason=reason)


def resume(scope: str, name: str = "", *, by: "User | None", reason: str = "") -> Switch:
    """Let it go on: what is due starts within a tick."""
    return turn(scope, name, "resume", by=by, reason=reason)


def turn(scope: str, name: str, verb: str, *, by: "User | None", reason: str) -> Switch:
    if scope not in Switch.SCOPES or (scope == "all") == bool(name):
        raise NotValid("`all` has no name; a handler, kind or source has one.", field="name")
    if not is_there(scope, name):
        raise NotValid(f"There is no {scope} `{name}`: nothing was changed.", field="name")
    with transaction.atomic():
        gate.exclusive()
        fields = {"paused": verb == "pause", "reason": reason, "by": by, "at": clock.now()}
        row, _ = Switch.objects.update_or_create(scope=scope, name=name, defaults=fields)
        ConfigVersion.bump()
        Audit.write(verb, row, by=by, reason=reason)
        changed("home")
    return row


def is_there(scope: str, name: str) -> bool:
    """Whether the switch holds something of this name: a misspelt one would stop nothing, and say that it did.

    What has no code or row any more may have runs and actions that wait, or a switch of its own."""
    if scope == "all" or Switch.objects.filter(scope=scope, name=name).exists():
        return True
    if scope == "kind":
        return any(knows(name) for knows in registry.knows_kind)
    if scope == "source":
        return name in INNER or Source.objects.filter(slug=name).exists()
    return name in registry.HANDLERS or any(
        rows.filter(handler=name).exists() for rows in (Trigger.objects.all(), Run.objects.all())
    )
