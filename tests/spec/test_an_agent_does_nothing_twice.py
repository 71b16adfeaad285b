"""A model that is run again may go another way; what it comes to once more is the same effect, and happens once."""

from collections.abc import Iterator
from typing import Any

import pytest

from approvals.act import act
from approvals.connectors.http import HTTP_REQUEST
from approvals.errors import Refused
from approvals.kinds import KINDS, Far, Now
from approvals.models import Action
from approvals.tiers import Tier
from project.agent import tools
from tests import builders
from tests.agent_runs import Playing, actions, again, stage, start
from tests.nodding import Order, Shop, changed_kind, now_of, say, serving, settle
from tests.scripted_model import calls, fails, says
from triggers import redrive
from triggers.models import DeadLetter, Run, Trigger

pytestmark = pytest.mark.django_db
TEA, MILK = ("shop_order", {"item": "tea", "cups": 2}), ("shop_order", {"item": "milk"})
LOOK = calls(("event_search", {"words": "tea"}))


@pytest.fixture
def shop(connection) -> Iterator[Shop]:
    with serving(tier="low") as shop:
        yield shop


@pytest.fixture
def playing(settings) -> Iterator[Playing]:
    with stage(settings) as play:
        yield play


def from_the_start(run: Run, by: Any, **given: Any) -> Run:
    new = redrive.rerun(run, by=by, **given)
    settle()
    return now_of(new)


def ordered(shop: Shop) -> list[str]:
    """What was sent to the far side, call by call."""
    return [shop.done[key].item for key in shop.sent]


def test_run_again_from_the_start_by_another_way_it_orders_nothing_a_second_time(shop, playing, owner):
    playing(calls(TEA, MILK), says("done"))
    run = start(tools=["shop.order", "event.search"])
    model = playing(LOOK, calls(MILK), calls(("shop_order", '{"cups": 2}')), says("done"))
    new = from_the_start(run, owner)
    assert (new.status, ordered(shop)) == ("succeeded", ["tea", "milk"])
    [tea, milk] = actions()
    assert [act.action_id for act in new.acts.order_by("pk")] == [milk.pk, tea.pk]
    assert model.results()["c1"]["action"] == f"A-{tea.pk}"


def test_nor_after_a_failure_run_again_from_its_letter(shop, playing, owner):
    model = playing(calls(TEA), fails(401, "no"))
    assert start().status == "dead"
    for from_ in ("failed_step", "start"):
        model.script[:] = [fails(401, "no")] if from_ == "failed_step" else [LOOK, calls(TEA), says("done")]
        redrive.redrive(DeadLetter.objects.get(status="open"), by=owner, from_=from_)
        settle()
    assert (Run.objects.latest("pk").status, ordered(shop)) == ("succeeded", ["tea"])


def test_another_order_is_another_effect(shop, playing, owner):
    playing(calls(TEA), says("done"))
    run = start()
    playing(calls(MILK), says("done"))
    assert (from_the_start(run, owner).status, ordered(shop)) == ("succeeded", ["tea", "milk"])


def test_the_same_twice_in_one_run_is_two_effects_and_both_are_known_again(shop, playing, owner):
    playing(calls(TEA, TEA), calls(TEA), says("done"))
    run = start()
    keys = shop.sent[:]
    assert (len(set(keys)), [key.partition("#")[2] for key in keys]) == (3, ["", "2", "3"])
    playing(calls(TEA), calls(TEA, TEA), calls(TEA), says("done"))
    from_the_start(run, owner)
    assert shop.sent[:3] == keys
    assert [key.partition("#")[2] for key in shop.sent[3:]] == ["4"]


def test_what_came_to_nothing_is_asked_for_under_the_same_key_and_after_three_noes_not_again(shop, playing, ben):
    changed_kind(tier=Tier.MEDIUM)
    model = playing(calls(TEA), calls(TEA), calls(TEA), calls(TEA), says("done"))
    run = start()
    for _ in range(3):
        say(Action.objects.latest("pk"), ben, "reject")
        settle()
    assert len({action.key for action in actions()}) == 1
    assert (now_of(run).status, len(actions()), shop.sent) == ("succeeded", 3, [])
    assert "asked_enough" in model.results()["c1"]["why"]


def test_what_the_far_side_refused_may_be_tried_again_in_the_same_run(shop, playing):
    shop.faults = [Refused("422 no tea"), None]
    model = playing(calls(TEA), calls(TEA), says("done"))
    assert start().status == "succeeded"
    assert (len(shop.done), model.results()["c1"]["done"]) == (1, True)
    assert len({action.key for action in actions()}) == 1


def test_a_person_who_ticks_it_has_that_effect_again_and_no_other(shop, playing, owner):
    playing(calls(TEA), calls(MILK), says("done"))
    run = start()
    playing(calls(MILK), calls(TEA), says("done"))
    new = from_the_start(run, owner, send_again=["turn 1 call 1/shop.order"])
    assert (new.status, ordered(shop)) == ("succeeded", ["tea", "milk", "tea"])
    again(new)
    assert ordered(shop) == ["tea", "milk", "tea"]


def test_the_same_at_two_connections_is_done_once_at_each_in_whatever_order(shop, playing, owner):
    for slug in ("north", "south"):
        builders.connection("shop", slug=slug, practice=False)
    north, south = (("shop_order_north", TEA[1]), ("shop_order_south", TEA[1]))
    playing(calls(north), calls(south), says("done"))
    run = start(tools=["shop.order@north", "shop.order@south"])
    playing(calls(south), calls(north), says("done"))
    assert from_the_start(run, owner).status == "succeeded"
    assert [action.connection.slug for action in actions()] == ["north", "south"]
    assert len({action.key for action in actions()}) == 2, "one account may stand behind both"


def test_it_is_known_at_its_connection_however_the_tool_is_called(shop, playing, owner):
    playing(calls(TEA), says("done"))
    run = start()
    Trigger.objects.update(config={**run.trigger.config, "tools": ["shop.order@practice-shop"]})
    playing(calls(("shop_order_practice-shop", TEA[1])), says("done"))
    assert (from_the_start(run, owner).status, ordered(shop)) == ("succeeded", ["tea"])


def test_how_it_is_done_makes_it_no_other_effect(shop, playing, owner):
    assert (HTTP_REQUEST.manner, KINDS["mcp.call"].manner) == (("timeout",), ("tier",))
    changed_kind(manner=("cups",))
    playing(calls(TEA), says("done"))
    run = start()
    playing(calls(("shop_order", {"item": "tea", "cups": 3})), says("done"))
    new = from_the_start(run, owner)
    again(new)
    assert (now_of(new).status, ordered(shop)) == ("succeeded", ["tea"])


def test_what_came_to_nothing_stands_for_none_that_was_done(shop, playing, owner, ben):
    """The first of two that are alike is rejected, the second happens: the next is a third, and is not that one."""
    changed_kind(tier=Tier.MEDIUM)
    model = playing(calls(TEA, TEA), calls(TEA), says("done"))
    run = start()
    first, second = actions()
    say(first, ben, "reject")
    say(second, ben)
    settle()
    *_, third = actions()
    say(third, ben)
    settle()
    assert (now_of(run).status, ordered(shop), model.results()["c1"]["action"]) == (
        "succeeded",
        ["tea", "tea"],
        f"A-{third.pk}",
    )
    playing(calls(TEA, TEA), says("done"))
    assert (from_the_start(run, owner).status, len(actions())) == ("succeeded", 3)


def test_what_an_older_desk_called_otherwise_is_known_all_the_same(shop, playing, owner):
    playing(calls(TEA), says("done"))
    run = start()
    Action.objects.update(key=f"R-{run.pk}/shop.order/{'0' * 32}")
    playing(LOOK, calls(TEA), says("done"))
    assert (from_the_start(run, owner).status, ordered(shop)) == ("succeeded", ["tea"])


def test_what_a_tool_of_your_own_asks_for_is_known_by_what_it_is(shop, playing, owner):
    @tools.tool()
    def supper(run: Any, guests: int) -> str:
        """Order what they need."""
        act(run, "the tea", kind="shop.order", cups=guests)
        act(run, "the milk", kind="shop.order", item="milk")
        return "ordered"

    try:
        playing(calls(("supper", {"guests": 2})), says("done"))
        run = start(tools=["supper"])
        playing(calls(("supper", {"guests": 3})), calls(("supper", {"guests": 2})), says("done"))
        assert from_the_start(run, owner).status == "succeeded"
    finally:
        tools.OWN.pop("supper")
    assert ordered(shop) == ["tea", "milk", "tea", "milk"]


def test_the_target_is_looked_at_once_for_each_action(shop, playing, ben):
    looked: list[str] = []

    def shelf(far: Far, order: Order) -> Now:
        looked.append(order.item)
        return Now(f"the {order.item} shelf", "v1", {})

    builders.connection("shop", slug="real", practice=False)
    changed_kind(tier=Tier.MEDIUM, current=shelf)
    playing(calls(("shop_order_real", TEA[1]), ("shop_order_real", MILK[1])), says("done"))
    run = start(tools=["shop.order@real"])
    assert (now_of(run).status, looked) == ("waiting", ["tea", "milk"])
    assert all(action.preconditions for action in actions())
    again(run)
    assert looked == ["tea", "milk"], "a replay looks at nothing"
