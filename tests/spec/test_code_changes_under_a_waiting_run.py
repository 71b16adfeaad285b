"""A run that wakes in other code than it fell asleep in goes on where that is safe; else it stops and asks a person."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse

from project.people.models import User
from tests import builders
from tests.handlers import fresh, registered, work
from triggers import dispatch
from triggers.durable import Durable
from triggers.errors import NotBlocked
from triggers.execute import execute
from triggers.models import Audit, Run, Step, Wait
from triggers.unblock import unblock

pytestmark = pytest.mark.django_db(transaction=True)
Story = Callable[[Durable], Any]


def story_of(*steps: str) -> Story:
    """A handler that takes these steps; `nap` and `rest` sleep, what stands behind a colon is the argument."""

    def story(run: Durable) -> list[str]:
        told = []
        for step in steps:
            name, _, argument = step.partition(":")
            if name in ("nap", "rest"):
                run.sleep(name, timedelta(hours=1))
            else:
                told.append(run.step(name, lambda given, name=name: f"{name} of {given}", argument or "the order"))
        return told

    return story


OLD = ("one", "two", "nap", "three")


@pytest.fixture
def asleep(later: Callable[..., None]) -> Callable[..., Run]:
    """A run that fell asleep in the code `OLD` and woke in this one."""

    def wake_in(*steps: str) -> Run:
        with registered("story", story_of(*OLD)):
            run = builders.run("story")
            work()
            assert fresh(run).status == "waiting"
        later(hours=1, seconds=1)
        with registered("story", story_of(*steps)):
            dispatch.tick()
            work()
        return fresh(run)

    return wake_in


SAFE = {
    "nothing changed": OLD,
    "a step after the wait renamed": ("one", "two", "nap", "drei"),
    "a step inserted after the wait": ("one", "two", "nap", "more", "three"),
    "a step after the wait deleted": ("one", "two", "nap"),
    "two steps that are done in another order": ("two", "one", "nap", "three"),
    "other arguments after the wait": ("one", "two", "nap", "three:a cup"),
}
UNSAFE = {
    "a step that is done renamed": (("uno", "two", "nap", "three"), "steps_changed", "one"),
    "the wait renamed": (("one", "two", "rest", "three"), "steps_changed", "nap"),
    "a step inserted before one that is done": (("one", "more", "two", "nap", "three"), "steps_changed", "two"),
    "a step that is done deleted": (("two", "nap", "three"), "steps_changed", "one"),
    "a step inserted before the wait": (("one", "two", "more", "nap", "three"), "steps_changed", "nap"),
    "the wait deleted": (("one", "two", "three"), "steps_changed", "nap"),
    "the last step and the wait deleted": (("one", "two"), "steps_changed", "nap"),
    "a step that is done moved behind the wait": (("one", "nap", "two", "three"), "steps_changed", "two"),
    "the step after the wait moved before it": (("one", "two", "three", "nap"), "steps_changed", "nap"),
    "other arguments for a step that is done": (("one", "two:a cup", "nap", "three"), "input_changed", None),
    "a wait where a step was": (("one", "nap", "two", "three"), "steps_changed", "two"),
}


def test_it_goes_on_where_what_is_done_still_fits(asleep: Callable[..., Run]) -> None:
    for change, steps in SAFE.items():
        run = asleep(*steps)
        assert (run.status, run.attempt) == ("succeeded", 1), change
        assert len(run.result) == len([step for step in steps if step != "nap"])


def test_it_stops_and_says_what_differs_where_it_does_not(asleep: Callable[..., Run]) -> None:
    for change, (steps, reason, went_on_with) in UNSAFE.items():
        run = asleep(*steps)
        assert (run.status, run.reason, run.attempt, run.crashes) == ("blocked", reason, 1, 0), change
        assert run.error["type"] == "Blocked"
        assert run.error.get("orphans", [None])[0] == went_on_with, change
        assert f"“{went_on_with or 'two'}”" in run.error["message"], change


@pytest.mark.parametrize("choice", ["continue", "restart", "cancel"])
def test_each_choice_leads_on(asleep: Callable[..., Run], owner: User, later: Callable[..., None], choice: str) -> None:
    for change, (steps, *_) in UNSAFE.items():
        run = asleep(*steps)
        with registered("story", story_of(*steps)):
            onward = unblock(run, by=owner, choice=choice)
            for _ in range(2):
                work()
                later(hours=1, seconds=1)
                dispatch.tick()
            work()
        assert (onward.pk == run.pk) is (choice != "restart")
        assert fresh(onward).status == ("cancelled" if choice == "cancel" else "succeeded"), change
        assert fresh(run).status == ("succeeded" if choice == "continue" else "cancelled"), change
        deed = Audit.objects.get(kind="run", ref=str(run.pk), verb=f"unblock: {choice}")
        assert (deed.by, deed.detail["difference"]) == (owner, run.error["message"])


def test_after_continue_what_was_done_is_not_done_again(asleep: Callable[..., Run], owner: User) -> None:
    run = asleep("one", "two:a cup", "nap", "three")
    assert run.error["inputs"] == [{"argument": "argument 1", "before": '"the order"', "now": '"a cup"'}]
    with registered("story", story_of("one", "two:a cup", "nap", "three")):
        unblock(run, by=owner, choice="continue")
        work()
    run = fresh(run)
    assert run.result == ["one of the order", "two of the order", "three of the order"]
    assert (run.reason, run.error) == ("", None)


def test_a_step_that_became_a_wait_is_told_and_asked_for_anew_after_continue(
    owner: User, later: Callable[..., None]
) -> None:
    def sleeps(run: Durable) -> str:
        run.sleep("one", timedelta(minutes=1))
        run.sleep("nap", timedelta(hours=1))
        return "done"

    with registered("story", story_of("one", "nap")):
        run = builders.run("story")
        work()
    later(hours=1, seconds=1)
    with registered("story", sleeps):
        dispatch.tick()
        work()
        blocked = fresh(run)
        assert (blocked.status, blocked.reason) == ("blocked", "kind_changed")
        assert blocked.error["message"] == "step “one” was a call, the code now asks for a sleep"
        unblock(blocked, by=owner, choice="continue")
        work()
        later(minutes=2)
        dispatch.tick()
        work()
    assert fresh(run).result == "done"
    assert Step.objects.get(run=run, name="one").kind == "sleep"


def test_only_a_blocked_run_asks_for_a_choice(owner: User) -> None:
    with pytest.raises(NotBlocked):
        unblock(builders.run("story"), by=owner, choice="continue")


def test_a_long_argument_is_told_by_its_beginning_its_length_and_its_mark(later: Callable[..., None]) -> None:
    order = {"lines": ["tea"] * 200}

    def story(run: Durable) -> None:
        run.step("pack", lambda order, box: None, order, box="small")
        run.sleep("nap", timedelta(hours=1))

    with registered("story", story):
        run = builders.run("story")
        work()
        later(hours=1, seconds=1)
        order["lines"][199] = "milk"
        dispatch.tick()
        work()
    run = fresh(run)
    assert run.error["message"].endswith("than those it was computed from: argument 1")
    (told,) = run.error["inputs"]
    assert told["before"] != told["now"]
    assert "1,411 characters" in told["before"]


def test_log_lines_and_remembered_values_may_come_and_go(later: Callable[..., None]) -> None:
    def old(run: Durable) -> None:
        run.log("begins")
        run.now()
        run.step("one", lambda: 1)
        run.sleep("nap", timedelta(hours=1))

    def new(run: Durable) -> int:
        run.log("begins", with_more="words")
        run.uuid()
        one = run.step("one", lambda: 2)
        run.log("has one")
        run.sleep("nap", timedelta(hours=1))
        return one

    with registered("story", old):
        run = builders.run("story")
        work()
    later(hours=1, seconds=1)
    with registered("story", new):
        dispatch.tick()
        work()
    assert (fresh(run).status, fresh(run).result) == ("succeeded", 1)


def test_a_patch_holds_for_new_runs_and_not_for_those_that_went_past_it(later: Callable[..., None]) -> None:
    def code(run: Durable, *, is_new: bool) -> list[Any]:
        said = [run.step("one", lambda: 1)]
        if is_new and run.patched("look twice"):
            said.append(run.step("look again", lambda: "looked"))
        said.append(run.step("two", lambda: 2))
        run.sleep("nap", timedelta(hours=1))
        return [*said, is_new and run.patched("look twice")]

    with registered("story", lambda run: code(run, is_new=False)):
        past = builders.run("story")
        work()
    with registered("story", lambda run: code(run, is_new=True)):
        newer = builders.run("story")
        work()
        later(hours=1, seconds=1)
        dispatch.tick()
        work()
    assert fresh(past).result == [1, 2, False]
    assert fresh(newer).result == [1, "looked", 2, True]
    assert Step.objects.filter(run=newer, kind="patch").count() == 1


def test_a_run_that_failed_before_the_patch_gets_it_at_its_next_try(later: Callable[..., None]) -> None:
    def new(run: Durable) -> list[Any]:
        said: list[Any] = [run.step("one", lambda: 1)]
        if run.patched("look first"):
            said.append(run.step("look", lambda: "looked"))
        return [*said, run.step("two", lambda: 2)]

    def old(run: Durable) -> None:
        run.step("one", lambda: 1)
        run.step("two", lambda: 1 // 0)

    with registered("story", old):
        run = builders.run("story")
        work()
    assert fresh(run).status == "retrying"
    later(minutes=1)
    with registered("story", new):
        work()
    assert fresh(run).result == [1, "looked", 2]


def test_a_patch_may_be_taken_out_again_when_every_run_has_it(later: Callable[..., None]) -> None:
    def with_mark(run: Durable) -> None:
        assert run.patched("look twice")
        run.sleep("nap", timedelta(hours=1))

    with registered("story", with_mark):
        run = builders.run("story")
        work()
    later(hours=1, seconds=1)
    with registered("story", story_of("nap")):
        dispatch.tick()
        work()
    assert fresh(run).status == "succeeded"


def test_a_run_whose_handler_is_gone_says_so_and_goes_on_when_it_is_back(
    later: Callable[..., None], sign_in: Callable[..., Any], owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    with registered("story", story_of(*OLD)):
        run = builders.run("story")
        work()
    later(hours=1, seconds=1)
    dispatch.tick()
    work()
    gone = fresh(run)
    assert (gone.status, gone.reason, gone.attempt) == ("queued", "handler_missing", 1)
    assert Wait.objects.get(run=run).status == "expired"
    page = sign_in(owner).get(reverse("run", args=[run.pk])).content.decode()
    assert "No code is loaded under the name “story”" in page
    with registered("story", story_of(*OLD)):
        rung: list[int] = []
        monkeypatch.setattr("triggers.bells.ring", lambda ids: rung.extend(ids) or len(ids))
        for _ in range(dispatch.ASK_MISSING):
            later(seconds=6)
            dispatch.tick()
        assert rung == [run.pk]
        assert execute(run.pk), "what a worker does that hears the bell"
    assert (fresh(run).status, fresh(run).reason) == ("succeeded", "")
