"""What pages say of agents: what a run used, what a handler costs, and what is missing."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, Sum

from project.agent.budget import midnight
from project.agent.models import MICRO, Spending
from project.agent.plan import BY_RULES, NO_MODEL, PLAN
from project.lib import clock
from triggers.models import Run

HANDLER = "agent"
LOOK_BACK = timedelta(days=30)  # over which the cost of an event is told


def used_by(run: Run) -> dict[str, Any] | None:
    """Turns, calls, tokens and dollars of one run; None when no model was asked. `plan` is empty but of an agent."""
    total = Spending.objects.filter(run=run).total()
    if not total.answers:
        return None
    steps = run.steps.filter(name__startswith="turn ", name__contains="/").values_list("name", flat=True)
    plan = PLAN if run.handler == HANDLER else ""
    return {"total": total, "calls": len({name.partition("/")[0] for name in steps}), "plan": plan}


def costs_of(handlers: Collection[str]) -> dict[str, dict[str, Any]]:
    """By handler: tokens and dollars of today (UTC), and dollars of an event over the last month."""
    now = clock.now()
    today = Q(at__gte=midnight(now))
    rows = (
        Spending.objects.filter(at__gte=now - LOOK_BACK)  # by handlers SQLite would begin with all runs they ever had
        .order_by()
        .values("run__handler")
        .annotate(
            events=Count("run__event", distinct=True),
            price=Sum("micros", default=0),
            price_today=Sum("micros", filter=today, default=0),
            went_in=Sum("tokens_in", filter=today, default=0),
            came_out=Sum("tokens_out", filter=today, default=0),
        )
    )
    return {
        row["run__handler"]: {
            "an_event": dollars(Decimal(row["price"]) / row["events"]),
            "today": dollars(Decimal(row["price_today"])),
            "tokens_today": row["went_in"] + row["came_out"],
        }
        for row in rows
        if row["run__handler"] in handlers
    }


def dollars(micros: Decimal) -> str:
    """As people read it: to a millionth, without idle zeros."""
    return f"{micros / MICRO:.6f}".rstrip("0").rstrip(".")


def lacking(handler: str, config: Mapping[str, Any] | None) -> str:
    """What must be set before it can work with this config of a trigger; empty when nothing is."""
    told = config or {}
    if handler != HANDLER or settings.LLM_MODEL or told.get("model"):
        return ""
    return BY_RULES if told.get("otherwise") else NO_MODEL
