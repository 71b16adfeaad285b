"""What cannot be sent is refused where it is asked for; and what is asked for waits neither for its neighbour nor for
new traffic."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from approvals.act import act
from approvals.errors import Refused
from approvals.models import Action
from tests import builders
from tests.handlers import fresh, work
from tests.nodding import handling, say, serving, settle
from triggers.models import Event, Run

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 11, 29, tzinfo=UTC),
        Decimal("1.5"),
        b"\xff",
        float("nan"),
        float("inf"),
        {1, 2},
        object(),
        "\ud800",
    ],
    ids=lambda value: type(value).__name__ + repr(value)[:4],
)
def test_what_cannot_be_written_down_is_an_error_of_its_step_and_leaves_no_effect_behind(value: Any):
    builders.connection("http")

    def story(run):
        act(run, "tell", kind="http.request", url="https://example.org/x", json={"deep": [value]})

    with handling(story):
        run = builders.run("story")
        work()
    held = fresh(run)
    assert (held.status, held.attempt) == ("dead", 1), "trying again would not mend it"
    assert held.error
    assert held.error["type"] == "Permanent"
    assert not Action.objects.exists()


def test_three_effects_asked_for_at_once_go_out_without_new_traffic_whatever_the_first_one_does(ben):
    builders.connection("shop", practice=False)

    def story(run):
        act(run, "buy", kind="shop.order", item=f"item-{run.row.pk}")

    with serving("medium") as shop, handling(story):
        runs = [builders.run("story") for _ in range(3)]
        work()
        for action in Action.objects.order_by("pk"):
            say(action, ben)
        events = Event.objects.filter(source_slug="github").count()
        first = Action.objects.order_by("pk").first()
        Action.objects.filter(pk=first.pk).update(canonical="no JSON any more")  # nothing can be read from it
        shop.faults = [None, Refused("no")]
        settle()
    assert [action.status for action in Action.objects.order_by("pk")[1:]] == ["delivered", "failed"]
    assert len(shop.sent) == 2, "the broken one was not sent"
    assert Event.objects.filter(source_slug="github").count() == events
    assert [Run.objects.get(pk=run.pk).status for run in runs[1:]] == ["succeeded", "dead"]
