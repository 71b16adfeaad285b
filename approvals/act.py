"""The handlers' door: propose one effect, or ask a question, wait for whoever must nod, get the result."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NoReturn

from approvals import deliver, kinds, propose, undoing
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
from approvals.models import Act, Action, Compensation
from approvals.models.action import Status
from approvals.models.compensation import Owed
from approvals.propose import BeingUndone
from approvals.tiers import Tier
from approvals.wish import Undo, Wish, by_name
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.models import DeadLetter, Step

SETTLED = "approvals.action.settled"
UNDOING_ENDED = f"approvals.action.{undoing.ENDED}"
WAITED = {SETTLED: "settled", UNDOING_ENDED: "undone"}  # how the step of a wait is called
LONGEST_NAME = 180
ENDS: dict[str, type[ActionEnded | Undeliverable]] = {
    Status.REJECTED: Rejected,
    Status.EXPIRED: Expired,
    Status.CANCELLED: Cancelled,
    Status.SUPERSEDED: Cancelled,
    Status.FAILED: Undeliverable,
}
GIVEN_UP = "It was given up in doubt: it may have happened all the same."
ERRORS = {error.__name__: error for error in ENDS.values()}


class Effect(dict[str, Any]):
    """The result of a delivered action: a dict, with `.arguments` as they were delivered and the action's number."""

    def __init__(self, result: dict[str, Any], *, action: int, arguments: dict[str, Any]) -> None:
        super().__init__(result)
        self.action = action
        self.arguments = arguments


Compensate = Mapping[str, Any] | Callable[[Effect], Mapping[str, Any] | None] | None


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
    compensate: Compensate = None,
    **arguments: Any,
) -> Effect:
    """Have one effect on the world, and return its result once it was delivered.

    `name` is the act's name within its run; `key` names the effect in business words (else it is made from the first
    run and the name); `expires` is how long people may take, a day unless said, at most seven days.
    Arguments that are called like one of these (`reason` of a refund) stand in `arguments={…}`.
    `compensate` undoes it when the run fails or is cancelled: `{kind, connection?, key?, reason?, **arguments}`,
    or a function of the result that returns such a dict, or None for nothing: written down, never computed again.
    Raises Rejected, Expired, Cancelled, Undeliverable; NameTaken, NoConnection, KeyTaken before anybody is asked;
    Drifted when a replay asks for something else than people were shown."""

    def make(like: Action | None = None) -> Wish:
        given = by_name(kinds.named(kind), arguments)
        return Wish.of(kind, connection, key, reason, evidence, expires, given, like)

    result, number = told(settled(run, name, make, compensate))
    return effect_of(result, Action.objects.get(pk=number))


def effect_of(result: Any, action: Action) -> Effect:
    shown = result if isinstance(result, dict) else {"answer": result} if result is not None else {}
    return Effect(shown, action=action.pk, arguments=action.arguments)


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
    step = settled(run, name, partial(Wish.of, "human.question", None, key, reason, evidence, expires, arguments))
    return told(step)[0]


def settled(run: Durable, name: str, make: Callable[..., Wish], compensate: Compensate = None) -> Step:
    """The act's step once its action has ended: recalled on a replay, else proposed, waited for and remembered.

    `make(like=action)` says what is asked for; `action` is what stands for it already."""
    if name:
        name = run.beneath_branch(name)
    if not 0 < len(name) <= LONGEST_NAME:
        raise Permanent(f"the name of an act is 1 to {LONGEST_NAME} characters, not {len(name)}")
    step = run.take_name(name, alone=True)
    if step != name:
        raise NameTaken(f"two acts of this run are called “{name}”")
    if done := run.recall(step):
        return done
    try:
        act = propose.stand_for(run, step, make(like=propose.proposed_for(run, step)), noted(compensate))
    except Rejected as error:
        return remember(run, step, {"type": "Rejected", "message": str(error)})
    except BeingUndone as error:
        wait(run, step, error.action, UNDOING_ENDED)
    action = act.action
    if action.status == Status.APPROVED and not Tier(action.tier).waits:
        run.journal.look(trust=0)  # a worker that lost its run meanwhile leaves it to whoever has it now
        deliver.deliver(action.pk)
        action.refresh_from_db()
    if not action.is_settled:
        wait(run, step, action.pk, SETTLED)
    if action.status != Status.DELIVERED:
        return remember(run, step, how_it_failed(action), action)
    if callable(compensate):
        write_down(run, act, compensate(effect_of(action.result, action)))
    return remember(run, step, None, action)


def having_looked(run: Durable, name: str, wish: Wish) -> Wish:
    """The wish bound to its target, for who must know before `settled` whether it can be done; it looks no second time.

    Raises Permanent, Rejected, and whatever a far side that cannot be asked now raises."""
    return propose.having_looked(run.row, name, wish, propose.ruling_on(run.row, name, wish))


def noted(compensate: Compensate) -> Undo | None:
    """What is known of the undoing before anything is done. Raises as `act()` does for the act itself."""
    if compensate is None:
        return None
    return Undo() if callable(compensate) else Undo.of(compensate)


def write_down(run: Durable, act: Act, told: Mapping[str, Any] | None) -> None:
    """What the callable said of the result, once: from now on neither a crash nor other code changes it."""
    owed = Compensation.objects.filter(act=act, status=Owed.NOTED, sealed_wish="")
    undo = None if told is None else Undo.of(told, knows_result=True)

    def write(now: datetime) -> None:
        if undo is not None:
            owed.update(sealed_wish=undo.sealed)
        elif (nothing := owed.first()) is not None:
            nothing.move("drop")

    run.write(write)


def wait(run: Durable, step: str, action: int, type: str) -> NoReturn:
    """Leave the worker until the action is settled, or undone. The event only wakes us; the row is read again, and if
    it says otherwise, the wait is registered anew. Waits are counted as they were when this worker took the run up: one
    that ends right now is met again when the run parks."""
    begins = f"{step} · {WAITED[type]} "
    ended = [name for name, wait in run.journal.waits.items() if name.startswith(begins) and wait.status != "pending"]
    name = f"{begins}{len(ended) + 1}"
    run.suspend(name, run.pending(name), type=type, source="/approvals", subject=f"actions/{action}")


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
        error = ERRORS.get(step.error["type"], Undeliverable)(step.error["message"])
        error.is_buried = error.is_buried or step.error.get("buried", False)
        raise error
    memory = step.result or {}
    return memory["result"], memory["action"]


def how_it_failed(action: Action) -> dict[str, Any]:
    """`{type, message, buried}`: what the handler is told, in words that name the action, and whether there is a letter
    of it."""
    error = ENDS[action.status]
    last = action.decisions.filter(verdict="reject").order_by("-pk").first()
    why = last.reason if last and action.status == Status.REJECTED else (action.error or {}).get("message", "")
    why = why or action.cancel_reason or action.reason_code.replace("_", " ")
    sentence = GIVEN_UP if action.status == Status.FAILED and action.keeps_key else (error.__doc__ or "").strip()
    message = f"A-{action.pk} “{action.title}”: {sentence}{f' {why}' if why else ''}"
    buried = DeadLetter.objects.filter(kind="action", action_id=action.pk).exists()
    return {"type": error.__name__, "message": message, "buried": buried}


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
