"""How long a person had something on the screen before they decided: the form carries, signed, when it was drawn."""

from datetime import datetime, timedelta

from django.core import signing

from approvals.errors import NotSeen
from approvals.models import Action, Decision
from project.people.models import User

SALT = "approvals.looking"
LEAST_SEEN = 1.0  # seconds a card is on the screen before a verdict about it counts, as for its keys
AFTER_DECISION = timedelta(seconds=10)  # a decision as old as that brought up no card that is younger than `LEAST_SEEN`


def drawn(action: Action, reader: User, now: datetime) -> str:
    """What the form carries."""
    return signing.dumps([action.pk, reader.pk, now.timestamp()], salt=SALT)


def looked_for(carried: str, action: Action, reader: User, now: datetime) -> float | None:
    """Seconds since then; None for a form of somebody else, or of none of ours."""
    try:
        pk, person, at = signing.loads(carried, salt=SALT)
    except (signing.BadSignature, ValueError):
        return None
    return max(0.0, now.timestamp() - at) if (pk, person) == (action.pk, reader.pk) else None


def check_seen(action: Action, by: User, browser: str, seconds: float | None, now: datetime) -> None:
    """The next card comes up where the last one was, under the same cursor: the second of two clicks was meant for the
    first. `seconds` that it was on the screen, None where nobody knows. Raises NotSeen."""
    if seconds is None or seconds >= LEAST_SEEN:
        return
    others = Decision.objects.filter(by=by, browser=browser, at__gt=now - AFTER_DECISION).exclude(action=action)
    if others.exists():
        raise NotSeen
