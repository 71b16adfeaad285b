"""How much an agent may use: of a run, and of a trigger in a day. Asked before each request that is really made."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Sum

from project.agent.config import MOST_DOLLARS
from project.agent.models import MICRO, Reservation, Spending, Total
from project.lib import clock
from project.lib.retrying import retried
from triggers.errors import EndsRun, Permanent
from triggers.models import Run, Trigger

Plan = dict[str, Any]
SLACK = timedelta(seconds=60)  # beyond its patience, until a request whose worker is gone reserves nothing any more
MOST_TOKENS = 2**31 - 1  # of one request or answer: what a column takes
MOST_MICROS = MOST_DOLLARS * MICRO  # the same: SQLite adds up nine million rows of it, and no more
PAUSE = timedelta(seconds=10)  # before a request that found the rest of the day reserved looks again


class LimitReached(EndsRun):
    """An agent used what its limits allow. It ends the run; a person may raise the limit and run it again."""

    reason = "limit_reached"


class DayReserved(Exception):
    """All that is left of the day is reserved by requests under way. What they do not use is free again."""

    after = PAUSE


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

    def check(self) -> None:
        """Raises LimitReached before a request that would be one too many."""
        limits = self.limits
        refuse("requests of a run", self.requests, limits["max_requests"])
        refuse("tokens of a run", self.tokens, limits["max_tokens"])
        refuse("seconds of a run", self.seconds, limits["max_seconds"])
        refuse("dollars of a run", self.cost, limits["max_cost"])

    def check_calls(self, more: int) -> None:
        """Count the calls of one turn. Raises LimitReached before any of them when they are too many."""
        self.calls += more
        if self.calls > self.limits["max_calls"]:
            raise LimitReached(f"limit reached: {self.limits['max_calls']} calls of tools of a run")


def refuse(what: str, used: Any, most: Any) -> None:
    if most is not None and used >= Decimal(str(most)):
        raise LimitReached(f"limit reached: {most} {what}")


@contextmanager
def reserved(run: Run, limits: dict[str, Any], tokens: int, cost: str | None, patience: float) -> Iterator[None]:
    """While one request is under way; as `hold`."""
    is_held = hold(run, limits, tokens, cost, patience)
    try:
        yield
    finally:
        if is_held:
            release(run)


def hold(run: Run, limits: dict[str, Any], tokens: int, cost: str | None, patience: float) -> bool:
    """Hold back what the requests of this run that are under way may come to, `tokens` and `cost` (None: nobody knows,
    so to all of the rest), until `release` or for `patience` seconds: of several runs of a trigger at once none asks
    for what another one is about to use. False where no limit of a day is to be kept.

    Raises LimitReached when the day's share is used, DayReserved when it may be."""
    if run.trigger_id is None or (limits["day_tokens"] is None and limits["day_cost"] is None):
        return False
    most = Decimal(cost if cost is not None else str(limits["day_cost"] or 0))
    most_of_it = {"tokens": min(tokens, MOST_TOKENS), "micros": min(int(most * MICRO), MOST_MICROS)}
    reserve(run, run.trigger_id, limits, most_of_it, timedelta(seconds=patience) + SLACK)
    return True


@retried
def reserve(run: Run, trigger: int, limits: dict[str, Any], most_of_it: dict[str, int], lease: timedelta) -> None:
    with transaction.atomic():
        Trigger.objects.select_for_update(of=("self",), no_key=True).get(pk=trigger)
        now = clock.now()
        day = spent_today(trigger, limits, now)
        Reservation.objects.filter(trigger=trigger, until__lte=now).delete()
        others = Reservation.objects.filter(trigger=trigger).exclude(run=run)
        about = others.aggregate(tokens=Sum("tokens", default=0), micros=Sum("micros", default=0))
        try:
            refuse("tokens of a day", day.tokens + about["tokens"], limits["day_tokens"])
            refuse("dollars of a day", day.cost + Decimal(about["micros"]) / MICRO, limits["day_cost"])
        except LimitReached as error:
            raise DayReserved(f"{error}, with what requests under way may use") from None
        Reservation.objects.update_or_create(run=run, defaults={"trigger": trigger, "until": now + lease, **most_of_it})


def spent_today(trigger: int, limits: dict[str, Any], now: datetime) -> Total:
    """Raises LimitReached when that is the day's share."""
    day = Spending.objects.of_day(trigger, midnight(now)).total()
    refuse("tokens of a day", day.tokens, limits["day_tokens"])
    refuse("dollars of a day", day.cost, limits["day_cost"])
    return day


@retried
def release(run: Run) -> None:
    Reservation.objects.filter(run=run).delete()


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
    cost, now = answer["cost"], retried(clock.now)()
    row = Spending(
        run=run,
        trigger=run.trigger_id,
        step=step,
        model=model[:200],
        tokens_in=answer["tokens_in"],
        tokens_out=answer["tokens_out"],
        micros=None if cost is None else min(int(Decimal(cost) * MICRO), MOST_MICROS),
        at=now,
    )
    tries = itertools.count()

    @retried
    def book() -> None:
        known = next(tries) and Spending.objects.filter(run=run, step=step, at=now).exists()
        if not known:  # else the commit before this try went through unheard
            row.pk = None
            row.save(force_insert=True)

    book()


def check_priced(limits: dict[str, Any], cost: str | None) -> None:
    if cost is None and (limits["max_cost"] is not None or limits["day_cost"] is not None):
        raise NoPrice
