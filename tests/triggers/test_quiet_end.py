"""A run that succeeds while nobody waits for its end is ended by one statement, with the same row and for the same
readers as the long way; where anything else is to be done, the long way does it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from project.lib import clock
from tests import builders
from tests.handlers import fresh, registered, work
from triggers import execute, quiet_end
from triggers.durable import Durable
from triggers.matching import type_matches
from triggers.models import Breaker, Event, Run, Slot, Step, Trigger

pytestmark = pytest.mark.django_db(transaction=True)
UNLIKE = {"id", "event_id", "event", "queued_at", "due_at", "started_at", "finished_at"}  # of two runs of one handler


@pytest.fixture
def went(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each run that succeeded: did the one statement end it?"""
    seen: list[bool] = []

    def watched(*told: Any) -> bool:
        seen.append(ended(*told))
        return seen[-1]

    ended = quiet_end.ended
    monkeypatch.setattr(execute.quiet_end, "ended", watched)
    return seen


@pytest.fixture
def story() -> Iterator[None]:
    with registered("story", lambda run: run.step("one", lambda: {"of": "it"})):
        yield


def row(run: Run) -> dict[str, Any]:
    return {name: value for name, value in Run.objects.filter(pk=run.pk).values().get().items() if name not in UNLIKE}


def test_its_row_is_that_of_the_long_way(story: None, went: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = builders.run("story"), builders.run("story", reason="given back once")
    work(1)
    monkeypatch.setattr(quiet_end, "END", lambda **told: 0)
    work(1)
    assert went == [True, False]
    assert row(first) == row(second)
    assert fresh(first).result == {"of": "it"}
    assert first.queued_at < fresh(first).finished_at <= clock.now()
    assert Step.objects.filter(run=first).count() == 1


def in_memory_of_a_breaker(run: Run) -> Callable[[], bool]:
    Breaker.objects.create(handler="story", failures=2)
    return lambda: not Breaker.objects.exists()


def a_listener(run: Run) -> Callable[[], bool]:
    builders.trigger("other", source="/nightdesk", type_pattern="nightdesk.**.succeeded")
    return lambda: Event.objects.filter(type="nightdesk.run.succeeded", subject=f"runs/{run.pk}").exists()


def a_slot(run: Run) -> Callable[[], bool]:
    trigger = builders.trigger("story", limits={"concurrency": {"limit": 1}})
    Run.objects.filter(pk=run.pk).update(trigger=trigger, slot_key="")
    return lambda: not Slot.objects.exists()


def an_earlier_worker(run: Run) -> Callable[[], bool]:
    Run.objects.filter(pk=run.pk).update(fence=3)
    return lambda: fresh(run).fence == 4


def an_act(run: Run) -> Callable[[], bool]:
    asked = builders.action(status="awaiting")
    asked.acts.create(run=run, name="x", digest=asked.digest)
    return lambda: type(asked).objects.get(pk=asked.pk).status == "cancelled"


@pytest.mark.parametrize("there_is", [in_memory_of_a_breaker, a_listener, a_slot, an_earlier_worker, an_act])
def test_what_else_is_to_be_done_is_done(
    story: None, went: list[bool], there_is: Callable[[Run], Callable[[], bool]]
) -> None:
    run = builders.run("story")
    is_done = there_is(run)
    work()
    assert went[0] is False
    assert fresh(run).status == "succeeded"
    assert is_done()


def test_who_asked_for_its_end_meanwhile_is_heard(went: list[bool]) -> None:
    def story(run: Durable) -> None:
        Run.objects.filter(pk=run.row.pk).update(cancel_requested_at=clock.now(), cancel_reason="by_hand")

    with registered("story", story):
        run = builders.run("story")
        work()
    assert went == [False]
    assert (fresh(run).status, fresh(run).reason) == ("cancelled", "by_hand")


def test_a_worker_that_lost_it_writes_nothing(went: list[bool]) -> None:
    def story(run: Durable) -> None:
        Run.objects.filter(pk=run.row.pk).update(fence=2)

    with registered("story", story):
        run = builders.run("story")
        work()
    assert went == [False]
    assert (fresh(run).status, fresh(run).result_json) == ("running", None)


SEGMENTS = st.sampled_from(["nightdesk", "run", "succeeded", "*", "**", "dead", "*x"])


@example("nightdesk.run.succeeded.**")
@given(pattern=st.lists(SEGMENTS, min_size=1, max_size=5).map(".".join))
def test_no_pattern_that_fits_is_overlooked(pattern: str) -> None:
    trigger = builders.trigger(slug="listens", source="*", type_pattern=pattern)
    try:
        if type_matches(pattern, quiet_end.TYPE):
            assert Trigger.objects.filter(quiet_end.may_hear(quiet_end.TYPE)).exists()
    finally:
        trigger.delete()


@pytest.mark.parametrize("pattern", ["nightdesk.run.dead", "nightdesk.dead_letter.*", "github.**", "nightdesk.run"])
def test_who_listens_to_other_things_is_in_nobodys_way(story: None, went: list[bool], pattern: str) -> None:
    builders.trigger("other", source="*", type_pattern=pattern)
    builders.run("story")
    work()
    assert went == [True]
