"""How much an agent may use: of a run, and of a trigger in a day. Asked before each request that is really made."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from project.agent.models import MICRO, Spending
from project.lib import clock
from triggers.errors import EndsRun, Permanent
from triggers.models import Run

Plan = dict[str, Any]


class LimitReached(EndsRun):
    """An agent used what its limits allow. It ends the run; a person may raise the limit and run it again."""

    reason = "limit_reached"


class NoPrice(Permanent):
    """A limit in dollars cannot be kept: nobody knows what this model costs. Say `price_in` and `price_out`."""


class Used:
    """What a run has used so far, counted from what it remembers."""

    def __init__(self, plan: Plan) -> None:
        self.limits: dict[str, Any] = plan["limits"]
        self.requests = 0
        self.calls = 0
        self.tokens = 0
        self.seconds = 0.0
        self.cost = Decimal(0)

    def add(self, answer: dict[str, Any]) -> None:
        self.requests += 1
        self.tokens += answer["tokens_in"] + answer["tokens_out"]
        self.seconds += answer["took"]
        self.cost += Decimal(answer["cost"] or 0)

    def check(self, run: Run) -> None:
        """Raises LimitReached before a request that would be one too many."""
        limits = self.limits
        refuse("requests of a run", self.requests, limits["max_requests"])
        refuse("tokens of a run", self.tokens, limits["max_tokens"])
        refuse("seconds of a run", self.seconds, limits["max_seconds"])
        refuse("dollars of a run", self.cost, limits["max_cost"])
        if limits["day_tokens"] is None and limits["day_cost"] is None:
            return
        day = Spending.objects.of_day(run.trigger_id, midnight(clock.now())).total()
        refuse("tokens of a day", day.tokens, limits["day_tokens"])
        refuse("dollars of a day", day.cost, limits["day_cost"])

    def check_calls(self, more: int) -> None:
        """Count the calls of one turn. Raises LimitReached before any of them when they are too many."""
        self.calls += more
        if self.calls > self.limits["max_calls"]:
            raise LimitReached(f"limit reached: {self.limits['max_calls']} calls of tools of a run")


def refuse(what: str, used: Any, most: Any) -> None:
    if most is not None and used >= Decimal(str(most)):
        raise LimitReached(f"limit reached: {most} {what}")


def midnight(now: datetime) -> datetime:
    """The days of a budget begin at midnight UTC."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def price(limits: dict[str, Any], answer: dict[str, Any]) -> str | None:
    """Dollars of one answer: what the team says that it costs, else what is known; None when nobody knows."""
    if limits["price_in"] is None or limits["price_out"] is None:
        known: str | None = answer["cost"]
        return known
    own = Decimal(limits["price_in"]) * answer["tokens_in"] + Decimal(limits["price_out"]) * answer["tokens_out"]
    return str(own / MICRO)


def note(run: Run, step: str, model: str, answer: dict[str, Any]) -> None:
    """Write down what an answer cost, whatever becomes of it."""
    cost = answer["cost"]
    Spending.objects.create(
        run=run,
        trigger=run.trigger_id,
        step=step,
        model=model[:200],
        tokens_in=answer["tokens_in"],
        tokens_out=answer["tokens_out"],
        micros=None if cost is None else int(Decimal(cost) * MICRO),
        at=clock.now(),
    )


def check_priced(limits: dict[str, Any], cost: str | None) -> None:
    if cost is None and (limits["max_cost"] is not None or limits["day_cost"] is not None):
        raise NoPrice
