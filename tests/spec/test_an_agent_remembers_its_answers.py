"""An agent's every answer is remembered: nothing is paid for twice, and a run ends where its budget does."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.utils.module_loading import import_string

from approvals.models import Action
from approvals.tiers import Tier
from project.agent import budget
from project.agent.config import Config
from project.agent.models import Reservation, Spending
from project.lib import clock
from tests import builders
from tests.agent_runs import Playing, stage, start, trigger_of
from tests.chaos.faults import CAUSES
from tests.dying import dying_behind, to_its_end
from tests.nodding import Shop, changed_kind, now_of, say, serving, settle
from tests.scripted_model import calls, drips, fails, hangs_up, says
from triggers import redrive
from triggers.durable import Durable
from triggers.errors import GivenBack
from triggers.journal import Journal
from triggers.models import DeadLetter, Step

pytestmark = pytest.mark.django_db


@pytest.fixture
def shop(connection) -> Iterator[Shop]:
    with serving() as shop:
        yield shop


@pytest.fixture
def playing(settings) -> Iterator[Playing]:
    with stage(settings) as play:
        yield play


def test_it_answers_and_says_what_that_cost(shop, playing):
    model = playing(says("Two cups."))
    run = start(price_in=1, price_out=2)
    assert (run.status, run.result["answer"], run.result["tokens"]) == ("succeeded", "Two cups.", 120)
    assert (run.result["cost"], Spending.objects.get(run=run).micros) == ("0.00014", 140)
    assert model.asked[0]["model"] == "scripted"
    assert [tool["function"]["name"] for tool in model.asked[0]["tools"]] == ["shop_order"]


def test_each_answer_is_a_step_that_says_what_was_asked_and_what_it_cost(shop, playing):
    playing(says("Two cups."))
    step = Step.objects.get(run=start(), name="turn 1").result
    assert (step["tokens_in"], step["tokens_out"], step["cost"], step["model"]) == (100, 20, None, "scripted")
    assert len(step["request"]) == 64
    assert step["response"]["parts"][0]["content"] == "Two cups."


def test_no_answer_that_was_kept_is_paid_for_again_wherever_the_worker_dies(shop, playing):
    """Three requests, one order and one look between them; behind each single commit of the run its worker dies."""
    changed_kind(tier=Tier.LOW)
    deaths = 0
    for nth in range(1, 40):
        shop.done.clear()
        looks = calls(("event_search", {"words": "tea"}))
        model = playing(looks, calls(("shop_order", {"cups": 2})), says("done"))
        with dying_behind(nth) as passed:
            run = to_its_end(lambda: start(tools=["shop.order", "event.search"]))
        assert (run.status, model.paid) == ("succeeded", 3), f"it died at commit {nth}"
        assert [order.cups for order in shop.done.values()] == [2]
        if passed.commits < nth:
            break
        deaths += 1
    assert deaths >= 9, "each step, wait and end of the run is such a place"


def test_a_worker_without_time_for_a_whole_request_gives_the_run_back(shop, playing):
    """Its time would end in the middle, and the answer would be paid for again."""
    model = playing(says("done"))
    run = builders.run("agent", trigger=trigger_of())
    talk = import_string("project.agent.work.Talk")(Durable(run, Journal(run)), {"limits": {"context_tokens": 1000}})
    assert talk.patience() == 120
    talk.began -= run.flow.timeout - 60
    with pytest.raises(GivenBack):
        talk.patience()
    assert model.asked == []


class TestTheModelIsBusy:
    @pytest.mark.parametrize("line", [fails(429, after=40), fails(500), fails(503), hangs_up(), {"text": "no JSON"}])
    def test_only_that_request_is_made_again_and_no_worker_waits(self, shop, playing, later, line):
        model = playing(calls(("shop_order", "{}"[:1])), line, says("done"))
        run = start()
        assert (run.status, run.attempt, run.waiting_for) == ("waiting", 1, f"turn 2 pause 1 of R-{run.pk} attempt 1")
        later(minutes=1)
        settle()
        assert (now_of(run).status, model.paid - ("text" in line), len(model.asked)) == ("succeeded", 2, 3)

    def test_an_answer_that_only_drips_is_given_up(self, playing):
        model = playing(drips())
        plan = {"model": "openai:scripted", "tools": [], "instructions": "", "prompt": "tea?"}
        request, busy = map(import_string, ("project.agent.provider.request", "project.agent.provider.ModelBusy"))
        with pytest.raises(busy, match="timed out"):
            request(plan, [], answer_tokens=100, patience=0.5)
        assert len(model.asked) == 1

    def test_it_waits_as_long_as_the_far_side_says(self, shop, playing, later):
        model = playing(fails(429, after=600), says("done"))
        run = start()
        later(minutes=9)
        settle()
        assert (now_of(run).status, len(model.asked)) == ("waiting", 1)
        later(minutes=2)
        settle()
        assert now_of(run).status == "succeeded"

    def test_after_five_tries_it_is_a_failure_of_the_run_and_a_redrive_asks_again(self, shop, playing, later, owner):
        model = playing(calls(("shop_order", "not json")), fails(503))
        trigger = trigger_of()
        trigger.limits = {"retries": {"max": 0}}
        trigger.save()
        run = start(trigger=trigger)
        for _ in range(6):
            later(minutes=2)
            settle()
        assert (now_of(run).status, now_of(run).error["type"], len(model.asked)) == ("dead", "ModelBusy", 6)
        model.script[:] = [fails(503), says("done")]
        redriven = redrive.redrive(DeadLetter.objects.get(), by=owner)
        settle()
        assert now_of(redriven).status == "waiting", "it has pauses of its own"
        later(minutes=2)
        settle()
        assert (now_of(redriven).status, model.paid) == ("succeeded", 2), "the first turn is not paid for again"

    def test_what_the_provider_refuses_is_not_asked_again(self, shop, playing):
        model = playing(fails(401, "bad key sk-live-1234567890"))
        run = start()
        assert (run.status, run.error["type"], len(model.asked)) == ("dead", "ModelRefused", 1)
        assert "sk-live" not in run.error["message"]


class TestTooLong:
    def test_it_is_never_sent_again_unchanged(self, shop, playing):
        over = fails(400, "maximum context length", code="context_length_exceeded")
        wrong = [calls(("shop_order", {"cups": f"{n}"}), ids=(f"c{n}",)) for n in (1, 2)]
        model = playing(*wrong, over, says("done"))
        assert start().result["answer"] == "done"
        assert [len(asked["messages"]) for asked in model.asked] == [2, 4, 6, 4]
        kept = [one.get("tool_call_id") for one in model.last() if one["role"] == "tool"]
        assert kept == ["c2"], "the older turn is left out whole"

    def test_where_nothing_can_be_left_out_it_ends(self, shop, playing):
        model = playing(fails(400, "maximum context length", code="context_length_exceeded"))
        run = start()
        assert (run.status, run.error["type"], len(model.asked)) == ("dead", "TooLong", 1)

    def test_old_turns_are_left_out_whole_when_the_room_is_small(self, shop, playing):
        long = [calls(("shop_order", {"cups": 1, "note": "x" * 2000, "n": n}), ids=(f"c{n}",)) for n in (1, 2)]
        model = playing(*long, says("done"))
        start(context_tokens=1200)
        assert [one["tool_call_id"] for one in model.last() if one["role"] == "tool"] == ["c2"]
        assert "left out" in model.last()[1]["content"]


class TestBudgets:
    LOOP = calls(("event_search", {"words": "tea"}))

    @pytest.mark.parametrize(
        ("limit", "requests"),
        [
            ({"max_requests": 2}, 2),
            ({"max_tokens": 300}, 3),
            ({"max_calls": 2}, 3),
            ({"max_cost": "0.0002", "price_in": 1, "price_out": 1}, 2),
            ({"day_tokens": 200}, 2),
            ({"day_cost": "0.0002", "price_in": 1, "price_out": 1}, 2),
        ],
    )
    def test_a_run_that_used_its_share_ends_and_says_which(self, shop, playing, limit, requests):
        model = playing(self.LOOP)
        run = start(tools=["event.search"], **limit)
        assert (run.status, run.reason, len(model.asked)) == ("cancelled", "limit_reached", requests)
        assert run.error["message"].startswith(f"limit reached: {next(iter(limit.values()))}")
        assert not DeadLetter.objects.exists()

    def test_the_seconds_that_it_waited_for_its_model_are_bounded(self, shop, playing, monkeypatch):
        moments = iter(range(0, 10_000, 200))
        monkeypatch.setattr("project.agent.provider.time", SimpleNamespace(monotonic=lambda: float(next(moments))))
        model = playing(self.LOOP)
        run = start(tools=["event.search"], max_seconds=400)
        assert (run.reason, run.error["message"]) == ("limit_reached", "limit reached: 400 seconds of a run")
        assert len(model.asked) == 2

    def test_a_day_counts_all_runs_of_the_trigger_and_then_begins_anew(self, shop, playing, later):
        model = playing(says("done"))
        trigger = trigger_of(day_tokens=200)
        assert [start(trigger=trigger).reason for _ in range(3)] == ["", "", "limit_reached"]
        assert start(day_tokens=200).reason == "", "another trigger has its own"
        later(days=1)
        assert start(trigger=trigger).reason == ""
        assert model.paid == 4

    @pytest.mark.parametrize("name", ["price_in", "price_out", "max_cost", "day_cost"])
    def test_more_dollars_than_can_be_added_up_are_refused(self, name):
        with pytest.raises(ValueError, match="less than or equal to 1000000"):
            Config.model_validate({"instructions": "x", name: "1e400"})

    def test_answers_of_any_price_are_added_up(self):
        """A provider says the price itself; a graph its own."""
        run, limits = builders.run("agent", trigger=trigger_of()), {"day_tokens": 10**9, "day_cost": None}
        for number in range(3):
            budget.note(run, f"s{number}", "m", {"tokens_in": 1, "tokens_out": 1, "cost": "1e20"})
        budget.hold(run, limits, 100, "1", 60)
        assert sum(Spending.objects.values_list("micros", flat=True)) == 3 * budget.MOST_MICROS

    @pytest.mark.parametrize("gone_for", [{"minutes": 1}, {"minutes": 5}])
    def test_what_a_worker_that_is_gone_held_back_is_free_again_after_a_while(self, shop, playing, later, gone_for):
        playing(says("done"))
        trigger = trigger_of(day_tokens=200)
        held = {"tokens": 5000, "micros": 0, "until": clock.now() + timedelta(minutes=3)}
        Reservation.objects.create(
            run=builders.run("agent", status="dead", finished_at=clock.now()), trigger=trigger.pk, **held
        )
        later(**gone_for)
        assert start(trigger=trigger).status == ("waiting" if gone_for["minutes"] == 1 else "succeeded")

    def test_a_day_that_stays_held_back_ends_the_run_in_the_end(self, shop, playing, later):
        model = playing(says("done"))
        trigger = trigger_of(day_tokens=200)
        held = {"tokens": 200, "micros": 0, "until": clock.now() + timedelta(hours=3)}
        Reservation.objects.create(
            run=builders.run("agent", status="dead", finished_at=clock.now()), trigger=trigger.pk, **held
        )
        run = start(trigger=trigger)
        for _ in range(5):
            later(minutes=2)
            settle()
        assert (now_of(run).reason, model.asked) == ("limit_reached", [])
        assert "requests under way" in now_of(run).error["message"]

    def test_a_limit_in_dollars_needs_a_price(self, shop, playing):
        playing(says("done"))
        assert start(max_cost=1).error["type"] == "NoPrice"


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_busy_for_a_moment_costs_no_second_request(playing):
    model = playing(says("done"))
    refused: list[str] = []

    def busy(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if sql.startswith('INSERT INTO "agent_spending"') and len(refused) < 3:
            refused.append(sql)
            raise OperationalError("locked") from CAUSES["locked"]()
        return execute(sql, *rest)

    with connection.execute_wrapper(busy):
        run = start(tools=[], day_tokens=1000)
    assert (run.status, run.attempt, model.paid, len(refused)) == ("succeeded", 1, 1, 3)
    assert Spending.objects.count() == 1


class TestAServerThatDoesNotCount:
    """An answer that was paid for is kept, also one that says neither what it took nor which model it is."""

    @pytest.mark.parametrize("model", ["scripted", ""])
    def test_its_answer_is_kept_and_counted_by_its_length(self, shop, playing, model):
        line = says("Two cups.", tokens=None)
        line["body"]["model"] = model
        playing(line)
        run = start()
        assert (run.status, run.result["answer"], run.result["cost"]) == ("succeeded", "Two cups.", "0")
        booked = Spending.objects.get(run=run)
        assert booked.tokens_in > 200, "the rules alone are as many"
        assert booked.tokens_out > 0
        assert run.result["tokens"] == booked.tokens_in + booked.tokens_out

    def test_its_tokens_count_for_the_limits(self, shop, playing):
        playing(calls(("event_search", {"words": "tea"}), tokens=None))
        assert start(tools=["event.search"], max_tokens=10).reason == "limit_reached"
        assert start(tools=["event.search"], day_tokens=10).reason == "limit_reached"


class TestWhatChangesMeanwhile:
    def test_instructions_and_tools_count_for_the_next_run(self, shop, playing, ben):
        model = playing(calls(("shop_order", {})), says("done"))
        trigger = trigger_of()
        run = start(trigger=trigger)
        trigger.config = {"model": "openai:other", "instructions": "Do nothing.", "tools": []}
        trigger.save()
        say(Action.objects.get(), ben)
        settle()
        assert now_of(run).status == "succeeded"
        first, second = model.asked
        assert (second["model"], second["tools"]) == (first["model"], first["tools"])
        assert second["messages"][0] == first["messages"][0]
        assert start(trigger=trigger).result["version"] != now_of(run).result["version"]

    @pytest.mark.parametrize("lost", [{}, {"tools": ["gone.for.good"]}])
    def test_a_run_again_has_the_limits_of_now_and_keeps_what_was_answered(self, shop, playing, owner, lost):
        model = playing(calls(("shop_order", "not json")), says("done"))
        trigger = trigger_of(max_requests=1)
        run = start(trigger=trigger)
        assert (run.reason, model.paid) == ("limit_reached", 1)
        trigger.config |= {"max_requests": 2, "instructions": "Do nothing.", **lost}
        trigger.save()
        redriven = redrive.rerun(run, by=owner, from_step="turn 2")
        settle()
        redriven = now_of(redriven)
        if lost:
            assert (redriven.reason, model.paid) == ("limit_reached", 1), "what is not valid changes nothing"
        else:
            assert (redriven.result["answer"], model.paid) == ("done", 2)
            assert model.asked[0]["messages"][0] == model.asked[1]["messages"][0]

    def test_a_model_that_was_named_wrongly_is_mended_by_a_run_again(self, shop, playing, owner):
        model = playing(fails(404, "no such model"))
        trigger = trigger_of(model="openai:scriptd")
        start(trigger=trigger)
        trigger.config |= {"model": "openai:scripted"}
        trigger.save()
        model.script[:] = [says("done")]
        redriven = redrive.redrive(DeadLetter.objects.get(), by=owner)
        settle()
        assert now_of(redriven).result["by"] == "openai:scripted"
        assert [asked["model"] for asked in model.asked] == ["scriptd", "scripted"]

    def test_a_config_that_is_not_valid_any_more_does_not_hold_a_run_up(self, shop, playing, ben):
        playing(calls(("shop_order", {})), says("done"))
        trigger = trigger_of()
        run = start(trigger=trigger)
        trigger.config = {"tools": ["gone.for.good"]}
        trigger.save()
        say(Action.objects.get(), ben)
        settle()
        assert now_of(run).status == "succeeded"


class TestWithoutAModel:
    def test_it_says_what_to_set(self, shop):
        run = start(model="")
        assert (run.status, run.error["type"]) == ("dead", "NoModel")
        assert "LLM_MODEL" in run.error["message"]

    def test_once_one_is_set_it_goes_on_from_where_it_failed(self, shop, playing, owner):
        playing(says("done"))
        trigger = trigger_of(model="")
        start(trigger=trigger)
        trigger.config |= {"model": "openai:scripted"}
        trigger.save()
        redriven = redrive.redrive(DeadLetter.objects.get(), by=owner)
        settle()
        assert now_of(redriven).result["answer"] == "done"

    def test_rules_are_used_where_some_are_named(self, shop):
        run = start(model="", otherwise="review-push", data={"ref": "refs/tags/v1", "after": "0", "repository": {}})
        assert (run.status, run.result["by"]) == ("succeeded", "rules")
        assert Step.objects.filter(run=run, kind="log").exists()
