"""Budgets are kept also by those that ask in the same moment: of low actions an hour, of an agent's trigger a day."""

from collections.abc import Callable
from typing import Any

import pytest

from approvals.act import act
from approvals.budget import BUDGET
from approvals.models import Action
from project.agent.models import Reservation, Spending
from tests import builders
from tests.agent_runs import stage, trigger_of
from tests.handlers import work
from tests.nodding import handling, serving, settle
from tests.races.together import together
from tests.scripted_model import says
from triggers.models import Run

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def test_four_who_ask_for_the_last_one_get_one(connection):
    with serving(tier="low") as shop, handling(lambda run: act(run, "tea", kind="shop.order")):
        for _ in range(BUDGET - 1):
            builders.run("story")
            work()
        for _ in range(4):
            builders.run("story")
        together(*[work] * 4)
        low = Action.objects.filter(tier="low", status="delivered").count()
        assert (low, Action.objects.filter(tier="medium", status="awaiting").count()) == (BUDGET, 3)
        assert len(shop.sent) == BUDGET


@pytest.mark.parametrize("limit", [{"day_tokens": 200}, {"day_cost": "0.0002", "price_in": 1, "price_out": 1}, {}])
def test_five_agents_at_once_ask_no_more_than_one_after_the_other(
    limit: dict[str, Any], settings, noon: None, later: Callable[..., None]
) -> None:
    """Each answer takes 120 tokens, so the second one passes the limit of the day, and no third is asked for."""
    with stage(settings) as playing:
        model = playing({**says("done"), "delay": 0.5})
        trigger = trigger_of(tools=[], **limit)
        runs = [builders.run("agent", trigger=trigger) for _ in range(5)]
        together(*[work] * 5)
        assert model.paid == (1 if limit else 5)
        for _ in range(6):
            later(minutes=1)
            settle()
        assert model.paid == (2 if limit else 5)
    ended = Run.objects.filter(pk__in=[run.pk for run in runs]).order_by("reason").values_list("reason", flat=True)
    assert list(ended) == (["", "", *["limit_reached"] * 3] if limit else [""] * 5)
    assert (Spending.objects.count(), Reservation.objects.count()) == (model.paid, 0)
