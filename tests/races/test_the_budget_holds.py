"""The hourly budget of low actions is kept also by those that ask in the same moment."""

import pytest

from approvals.act import act
from approvals.budget import BUDGET
from approvals.models import Action
from tests import builders
from tests.handlers import work
from tests.nodding import handling, serving
from tests.races.together import together

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
