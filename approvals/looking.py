"""How long a person had something on the screen before they decided: the form carries, signed, when it was drawn."""

from datetime import datetime

from django.core import signing

from approvals.models import Action
from project.people.models import User

SALT = "approvals.looking"


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
