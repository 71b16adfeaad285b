"""People and far sides for the tests of approvals: short ways to say what a person or a connector does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from approvals import decide
from approvals.decide import Said
from approvals.errors import OutcomeUnknown
from approvals.kinds import KINDS, Arguments, Far, Kind
from approvals.models import Action
from approvals.tiers import Tier
from project import desk
from project.people.models import User
from tests import ruled
from tests.handlers import registered, work
from triggers import dispatch
from triggers.durable import Durable
from triggers.models import Run


class Order(Arguments):
    """What the test's own kind takes."""

    item: str = "tea"
    cups: int = 1


@dataclass
class Shop:
    """A far side in memory: counts what happened, and misbehaves on request."""

    done: dict[str, Order] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    looked: list[list[str]] = field(default_factory=list)
    faults: list[Exception | None] = field(default_factory=list)
    before_fault: bool = True  # does the work happen before an unclear outcome?

    def deliver(self, far: Far, order: Order, key: str) -> dict[str, Any]:
        self.sent.append(key)
        fault = self.faults.pop(0) if self.faults else None
        if fault is None or (isinstance(fault, OutcomeUnknown) and self.before_fault):
            self.done.setdefault(key, order)
        if fault is not None:
            raise fault
        return {"cups": order.cups, "key": key}

    def probe(self, far: Far, order: Order, keys: list[str]) -> dict[str, Any] | None:
        self.looked.append(keys)
        found = next((key for key in keys if key in self.done), None)
        return {"cups": self.done[found].cups, "key": found} if found else None


@contextmanager
def serving(tier: str = "medium", safety: Any = "keyed", **more: Any) -> Iterator[Shop]:
    """The kind `shop.order` exists while the block lasts, and its far side is given; what is high has its rule."""
    if tier == "high":
        ruled.first()
    shop = Shop()
    kind = Kind(
        name="shop.order",
        system="shop",
        tier=Tier(tier),
        safety=safety,
        arguments=Order,
        deliver=shop.deliver,
        probe=shop.probe if safety == "probe" else None,
        title=lambda order: f"Order {order.cups} {order.item}",
        preview=lambda order: [],
        pretend=lambda order, number: {"cups": order.cups},
        **{"take_back": timedelta(0), **more},
    )
    KINDS["shop.order"] = kind
    try:
        yield shop
    finally:
        KINDS.pop("shop.order", None)


def changed_kind(**fields: Any) -> None:
    """The code of `shop.order` is another one from now on."""
    KINDS["shop.order"] = replace(KINDS["shop.order"], **fields)


def say(action: Action, by: User, verdict: str = "approve", *, stepped_up: bool = False, **given: Any) -> Said:
    """Decide on what the row holds now, as a page just loaded would."""
    action = Action.objects.get(pk=action.pk)
    seen = {"digest": action.digest, "revision": action.revision, **given}
    reason = "no, thank you" if verdict == "reject" else ""
    return decide.decide(action, by=by, verdict=verdict, **{"reason": reason, "proof": lambda: stepped_up, **seen})


def carry_out() -> None:
    """The people's part of a round, to its end."""
    for stage in (desk.stages() | desk.messages()).values():
        stage()


def settle(rounds: int = 6) -> None:
    """Let the desk do everything it can do now: rows and ticks are enough, no message is heard."""
    for _ in range(rounds):
        carry_out()
        dispatch.tick()
        if not work():
            break


@contextmanager
def handling(story: Callable[[Durable], Any], name: str = "story") -> Iterator[str]:
    with registered(name, story):
        yield name


def the_action(**where: Any) -> Action:
    return Action.objects.get(**where)


def now_of(row: Action | Run) -> Any:
    """The row as the database has it now."""
    return type(row).objects.get(pk=row.pk)
