"""The handlers' door: propose one effect, or ask a question, wait for whoever must nod, get the result."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from approvals import deliver, propose
from approvals.errors import (
    ActionEnded,
    Cancelled,
    Drifted,
    Expired,
    KeyTaken,
    NameTaken,
    NoConnection,
    Rejected,
    Undeliverable,
)
from approvals.models import Act, Action
from approvals.models.action import Status
from approvals.propose import Wish
from approvals.tiers import Tier
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.models import Step, Wait

SETTLED = "approvals.action.settled"
LONGEST_NAME = 180
ENDS: dict[str, type[Exception]] = {
    Status.REJECTED: Rejected,
    Status.EXPIRED: Expired,
    Status.CANCELLED: Cancelled,
    Status.SUPERSEDED: Cancelled,
    Status.FAILED: Undeliverable,
}
ERRORS = {error.__name__: error for error in ENDS.values()}


class Effect(dict[str, Any]):
    """The result of a delivered action: a dict, with `.arguments` as they were delivered and the action's number."""

    def __init__(self, result: dict[str, Any], *, action: int, arguments: dict[str, Any]) -> None:
        super().__init__(result)
        self.action = action
        self.arguments = arguments


def act(
    run: Durable,
    name: str,
    *,
    kind: str,
    connection: str | None = None,
    key: str | None = None,
    reason: str = "",
    evidence: Iterable[Any] = (),
    expires: timedelta | float | None = None,
    **arguments: Any,
) -> Effect:
    """Have one effect on the world, and return its result once it was delivered.

    `name` is the act's name within its run; `key` names the effect in business words (else it is made from the first
    run and the name); `expires` is how long people may take, a day unless said, at most seven days.
    Raises Rejected, Expired, Cancelled, Undeliverable; NameTaken, NoConnection, KeyTaken before anybody is asked;
    Drifted when a replay asks for something else than people were shown."""
    step = settled(run, name, lambda: Wish.of(kind, connection, key, reason, evidence, expires, arguments))
    result, number = told(step)
    shown = result if isinstance(result, dict) else {"answer": result} if result is not None else {}
    return Effect(shown, action=number, arguments=Action.objects.get(pk=number).arguments)


def ask(
    run: Durable,
    name: str,
    question: str,
    *,
    form: dict[str, Any] | None = None,
    key: str | None = None,
    reason: str = "",
    evidence: Iterable[Any] = (),
    expires: timedelta | float | None = None,
) -> Any:
    """Ask people, and return what one of them answered.

    `form` is the JSON schema of the answer; without one it is a text. It grants nothing: who rang may answer too.
    Raises Rejected when nobody wants to answer, Expired when nobody did; else as `act()`."""
    arguments: dict[str, Any] = {"question": question} | ({} if form is None else {"form": form})
    step = settled(run, name, lambda: Wish.of("human.question", None, key, reason, evidence, expires, arguments))
    return told(step)[0]


def settled(run: Durable, name: str, make: Callable[[], Wish]) -> Step:
    """The act's step once its action has ended: recalled on a replay, else proposed, waited for and remembered."""
    if not 0 < len(name) <= LONGEST_NAME:
        raise Permanent(f"the name of an act is 1 to {LONGEST_NAME} characters, not {len(name)}")
    step = run.take_name(name)
    if step != name:
        raise NameTaken(f"two acts of this run are called “{name}”")
    if done := run.recall(step):
        return done
    try:
        act = propose.stand_for(run, step, make())
    except Rejected as error:
        return remember(run, step, {"type": "Rejected", "message": str(error)})
    action = act.action
    if action.status == Status.APPROVED and not Tier(action.tier).waits:
        deliver.deliver(action.pk)
        action.refresh_from_db()
    if not action.is_settled:
        wait(run, act)
        action.refresh_from_db()
    return remember(run, step, None if action.status == Status.DELIVERED else how_it_failed(action), action)


def wait(run: Durable, act: Act) -> None:
    """Leave the worker until the action is settled. The event only wakes us; the row is read again, and if it is
    not settled after all, the wait is registered anew."""
    number = Wait.objects.filter(run=run.row, step__startswith=waiting(act.name)).exclude(status="pending").count()
    name = f"{waiting(act.name)}{number + 1}"
    pending = run.pending(name)
    run.suspend(name, pending, type=SETTLED, source="/approvals", subject=f"actions/{act.action_id}")


def waiting(name: str) -> str:
    return f"{name} · settled "


def remember(run: Durable, step: str, error: dict[str, Any] | None, action: Action | None = None) -> Step:
    """One step of the journal, written under the run's fence."""
    memory = {"action": action.pk if action else None, "result": action.result if action and not error else None}
    since = action.created_at if action else None
    done = run.write(lambda now: run.journal.remember(step, "act", memory, now=now, started_at=since, error=error))
    run.current_step = ""
    return done


def told(step: Step) -> tuple[Any, int]:
    """The result and the action's number; raises how it failed."""
    if step.error:
        raise ERRORS.get(step.error["type"], Undeliverable)(step.error["message"])
    memory = step.result or {}
    return memory["result"], memory["action"]


def how_it_failed(action: Action) -> dict[str, Any]:
    """`{type, message}`: what the handler is told, in words that name the action."""
    error = ENDS[action.status]
    last = action.decisions.filter(verdict="reject").order_by("-pk").first()
    why = last.reason if last and action.status == Status.REJECTED else (action.error or {}).get("message", "")
    why = why or action.reason_code.replace("_", " ")
    sentence = (error.__doc__ or "").strip()
    return {"type": error.__name__, "message": f"A-{action.pk} “{action.title}”: {sentence}{f' {why}' if why else ''}"}


__all__ = [
    "ActionEnded",
    "Cancelled",
    "Drifted",
    "Effect",
    "Expired",
    "KeyTaken",
    "NameTaken",
    "NoConnection",
    "Rejected",
    "Undeliverable",
    "act",
    "ask",
]
