"""What a failed call means for the action behind it; shared by everything that speaks HTTP."""

from collections.abc import Callable
from typing import Any

from approvals.errors import NotSent, OutcomeUnknown, Refused
from project.lib.egress import Answer, Forbidden, Garbled, NoAnswer, Unreachable, Unsendable

BUSY = (408, 409, 425)  # try again, but the far side may be at work on the first try
TOO_MANY = 429


def attempt(call: Callable[[], Answer], *, harmless: bool = False) -> Answer:
    """Make the call and translate what went wrong: NotSent, Refused or OutcomeUnknown.

    `harmless` says that the call changes nothing people would see, so an unclear outcome may simply be repeated.
    """
    try:
        return call()
    except Unreachable as error:
        raise NotSent(str(error)) from None
    except (Forbidden, Unsendable) as error:
        raise Refused(str(error)) from None
    except (NoAnswer, Garbled) as error:
        raise (NotSent if harmless else OutcomeUnknown)(str(error)) from None


def parsed(answer: Answer, *, harmless: bool = False) -> Any:
    """The JSON of an answer whose status was good; without it, what happened is open."""
    try:
        return answer.json()
    except Garbled as error:
        raise (NotSent if harmless else OutcomeUnknown)(str(error)) from None


def object_of(answer: Answer, *, harmless: bool = False) -> dict[str, Any]:
    """The same, for a far side that answers with an object."""
    value = parsed(answer, harmless=harmless)
    if not isinstance(value, dict):
        told = f"{answer.method} {answer.host}: status {answer.status}, but no JSON object"
        raise (NotSent if harmless else OutcomeUnknown)(told)
    return value


def judge(answer: Answer, *, harmless: bool = False, note: str = "") -> Answer:
    """Pass an answer under 300 on, else raise what its status means (DURABLE: 4xx is final but 408, 409, 425, 429)."""
    if answer.status < 300:
        return answer
    told = f"{answer.method} {answer.host}: status {answer.status}{f' ({note})' if note else ''}"
    if answer.status == TOO_MANY:
        raise NotSent(told, retry_after=answer.retry_after)
    if answer.status < 500 and answer.status not in BUSY:
        raise Refused(told)
    if harmless:
        raise NotSent(told, retry_after=answer.retry_after)
    repeated = answer.headers.get("idempotent-replayed", "").lower() == "true"
    raise OutcomeUnknown(told, retry_after=answer.retry_after, key_used_up=repeated)
