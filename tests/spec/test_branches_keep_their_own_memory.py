"""Branches of a run wait side by side: each has its own memory, and the order they are written in means nothing."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from approvals.act import Rejected, act
from approvals.models import Action
from project.lib import clock, failpoints
from tests import builders
from tests.handlers import work
from tests.nodding import Shop, handling, now_of, say, serving, settle
from triggers import redrive, waking
from triggers.models import Run, Step, Wait

pytestmark = pytest.mark.django_db


@pytest.fixture
def shop(connection) -> Iterator[Shop]:
    with serving() as shop:
        yield shop


def start(story: Callable[[Any], Any], **fields: Any) -> Run:
    run = builders.run("story", **fields)
    work()
    return now_of(run)


def actions() -> dict[str, Action]:
    return {action.step: action for action in Action.objects.all()}


def woken(run: Run) -> Run:
    """As if a bell had rung for it: it is replayed from the top."""
    Run.objects.filter(pk=run.pk).update(status="queued", due_at=clock.now())
    work()
    return now_of(run)


class Calls(list[str]):
    """What the functions of steps were called for."""

    def of(self, name: str) -> str:
        self.append(name)
        return name


def test_each_is_asked_at_once_and_the_run_goes_on_when_the_last_has_ended(shop, ben):
    def story(run: Any) -> Any:
        done = run.parallel(
            {
                "tea": lambda: act(run, "order", kind="shop.order", item="tea"),
                "milk": lambda: act(run, "order", kind="shop.order", item="milk", cups=2),
            }
        )
        return {name: effect["cups"] for name, effect in done.items()}

    with handling(story):
        run = start(story)
        assert (run.status, sorted(actions())) == ("waiting", ["milk/order", "tea/order"])
        say(actions()["milk/order"], ben)
        settle()
        assert (now_of(run).status, len(shop.sent)) == ("waiting", 1)
        say(actions()["tea/order"], ben)
        settle()
    assert (now_of(run).status, now_of(run).result, len(shop.sent)) == ("succeeded", {"tea": 1, "milk": 2}, 2)


def test_what_a_branch_has_done_is_not_done_again_however_often_another_one_wakes(shop, ben):
    calls = Calls()

    def story(run: Any) -> Any:
        def branch(name: str) -> Any:
            run.step("look", calls.of, name)
            act(run, "order", kind="shop.order", item=name)
            return run.step("tell", calls.of, f"told {name}")

        return run.parallel({name: lambda name=name: branch(name) for name in "ab"})

    with handling(story):
        run = start(story)
        for step in ("b/order", "a/order"):
            say(actions()[step], ben)
            settle()
    assert now_of(run).result == {"a": "told a", "b": "told b"}
    assert calls == ["a", "b", "told b", "told a"]


def test_a_crash_in_the_middle_replays_each_branch(shop, ben):
    """The worker dies where the first branch has asked and the second has done one step."""
    calls = Calls()

    class Gone(BaseException):
        pass

    def die(place: str) -> None:
        if place == "after_step_call" and calls == ["first", "second"]:
            raise Gone

    def story(run: Any) -> Any:
        def first() -> Any:
            run.step("look", calls.of, "first")
            return act(run, "order", kind="shop.order")["cups"]

        return run.parallel({"first": first, "second": lambda: run.step("look", calls.of, "second")})

    with handling(story):
        run = builders.run("story")
        failpoints.reached = die
        try:
            with pytest.raises(Gone):
                work()
        finally:
            failpoints.reached = None
        run = woken(run)
        assert (run.status, calls) == ("waiting", ["first", "second", "second"]), "what was not kept is computed again"
        assert Action.objects.count() == 1
        say(Action.objects.get(), ben)
        settle()
    assert now_of(run).result == {"first": 1, "second": "second"}
    assert len(calls) == 3


def test_branches_may_be_reordered_while_the_run_waits(shop, ben):
    order = ["a", "b", "c"]

    def story(run: Any) -> Any:
        def branch(name: str) -> Any:
            run.step("look", str, name)
            return act(run, "order", kind="shop.order", item=name)["key"]

        return run.parallel({name: lambda name=name: branch(name) for name in order})

    with handling(story):
        run = start(story)
        before = {step: action.pk for step, action in actions().items()}
        order.reverse()
        run = woken(run)
        assert (run.status, {step: action.pk for step, action in actions().items()}) == ("waiting", before)
        for action in actions().values():
            say(action, ben)
        settle()
    assert now_of(run).result == {name: f"R-{run.pk}/{name}/order" for name in "abc"}


def test_a_branch_that_is_gone_from_the_code_blocks_the_run(shop):
    names = ["a", "b"]

    def story(run: Any) -> Any:
        def branch(name: str) -> None:
            run.step("look", str, name)
            run.sleep("rest", timedelta(hours=1))

        run.parallel({name: lambda name=name: branch(name) for name in names})

    with handling(story):
        run = start(story)
        names.remove("a")
        Wait.objects.filter(run=run).end("expire", clock.now())
        run = woken(run)
    assert (run.status, run.error["orphans"]) == ("blocked", ["a/look"])


def test_a_step_that_is_new_in_one_branch_blocks_only_over_that_branchs_own_past(shop):
    """The second branch goes on although the first one, replayed later, has steps it was not asked for yet."""
    order = ["a", "b"]

    def story(run: Any) -> Any:
        def branch(name: str) -> Any:
            run.step("look", str, name)
            run.sleep("rest", timedelta(hours=1 if name == "b" else 2))
            return run.step("tell", str, name)

        return run.parallel({name: lambda name=name: branch(name) for name in order})

    with handling(story):
        run = start(story)
        order.reverse()
        Wait.objects.filter(run=run, step="b/rest").end("expire", clock.now())
        assert woken(run).status == "waiting"
        Wait.objects.filter(run=run).end("expire", clock.now())
        run = woken(run)
    assert (run.status, run.result) == ("succeeded", {"a": "a", "b": "b"})


def test_a_wait_that_ends_while_another_branch_is_at_work_is_not_lost(shop):
    """Its event comes after the worker has read the waits: nobody can wake a run that runs."""
    heard: list[int] = []

    def story(run: Any) -> Any:
        def hears() -> Any:
            return run.wait_for("word", type="word.said", source="*").type

        def speaks() -> None:
            run.sleep("rest", timedelta(hours=1))
            if not heard:
                event = builders.event("word.said", received_at=clock.now())
                heard.append(event.pk)
                waking.wake_waits([event.pk])
            run.sleep("rest again", timedelta(hours=1))

        return run.parallel({"hears": hears, "speaks": speaks})

    with handling(story):
        run = start(story)
        Wait.objects.filter(run=run, step="speaks/rest").end("expire", clock.now())
        run = woken(run)
        assert (run.status, Wait.objects.get(step="hears/word").status) == ("waiting", "resolved")
        assert Step.objects.filter(run=run, name="hears/word", status="done").exists(), "it went on at once"
        Wait.objects.filter(run=run, status="pending").end("expire", clock.now())
        run = woken(run)
    assert run.result == {"hears": "word.said", "speaks": None}


def test_the_earliest_of_their_times_wakes_the_run(shop, later):
    def story(run: Any) -> Any:
        long, short = timedelta(hours=5), timedelta(hours=1)
        return run.parallel({"long": lambda: run.sleep("rest", long), "short": lambda: run.sleep("rest", short)})

    with handling(story):
        run = start(story)
        later(hours=1, minutes=1)
        settle()
        assert (now_of(run).status, Step.objects.get(run=run).name) == ("waiting", "short/rest")
        later(hours=4)
        settle()
        assert now_of(run).status == "succeeded"


def test_an_error_is_raised_when_all_have_ended(shop, ben):
    def story(run: Any) -> Any:
        def fails() -> None:
            raise ValueError("no luck")

        try:
            run.parallel({"fails": fails, "asks": lambda: act(run, "order", kind="shop.order")})
        except ValueError as error:
            return str(error)

    with handling(story):
        run = start(story)
        assert run.status == "waiting"
        say(Action.objects.get(), ben)
        settle()
    assert (now_of(run).result, len(shop.sent)) == ("no luck", 1)


def test_a_no_to_one_leaves_the_others_as_they_are(shop, ben):
    def story(run: Any) -> Any:
        def order(item: str) -> str:
            try:
                return str(act(run, "order", kind="shop.order", item=item)["cups"])
            except Rejected:
                return "no"

        return run.parallel({item: lambda item=item: order(item) for item in ("tea", "milk")})

    with handling(story):
        run = start(story)
        say(actions()["tea/order"], ben, "reject")
        settle()
        assert actions()["milk/order"].status == "awaiting"
        say(actions()["milk/order"], ben)
        settle()
    assert now_of(run).result == {"tea": "no", "milk": "1"}


def test_branches_may_branch_again_and_come_again_under_the_same_name():
    def story(run: Any) -> Any:
        def inner(name: str) -> Any:
            return run.parallel({part: lambda part=part: run.step("look", str, name + part) for part in "xy"})

        first = run.parallel({"a": lambda: inner("a")})
        return [first, run.parallel({"a": lambda: run.step("look", str, "second")})]

    with handling(story):
        run = start(story)
    assert run.result == [{"a": {"x": "ax", "y": "ay"}}, {"a": "second"}]
    assert [step.name for step in run.steps.order_by("seq")] == ["a/x/look", "a/y/look", "a#2/look"]


@pytest.mark.parametrize("name", ["", "a/b", "a#2"])
def test_a_branch_is_called_by_one_word(name):
    with handling(lambda run: run.parallel({name: lambda: None})):
        run = builders.run("story")
        work()
    assert (now_of(run).status, now_of(run).error["type"]) == ("dead", "Permanent")


def test_a_cancelled_run_closes_all_its_waits(shop, owner):
    with handling(lambda run: run.parallel({n: lambda: act(run, "order", kind="shop.order") for n in ("a", "b")})):
        run = builders.run("story")
        work()
        redrive.cancel(now_of(run), by=owner)
    assert {action.status for action in actions().values()} == {"cancelled"}
    assert not Wait.objects.filter(status="pending").exists()
