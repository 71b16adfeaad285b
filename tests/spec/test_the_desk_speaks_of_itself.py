"""The desk says what died, once an hour for each cause, and never calls itself."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from project import desk, tour
from project.people.models import User
from tests import builders
from tests.handlers import registered, work
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.ingest import store_internal
from triggers.models import DeadLetter, Event, Run

pytestmark = pytest.mark.django_db(transaction=True)
OPENED, SUCCEEDED = "nightdesk.dead_letter.opened", "nightdesk.run.succeeded"


def fails(run: Durable) -> None:
    raise Permanent("no such customer")


@pytest.fixture
def story() -> Iterator[None]:
    with registered("story", fails):
        yield


def said(type: str) -> list[Any]:
    return [event.data for event in Event.objects.filter(type=type).order_by("pk")]


def test_the_first_of_a_cause_is_told_and_then_once_an_hour_with_a_count(
    story: None, later: Callable[..., None]
) -> None:
    for _ in range(3):
        builders.run("story")
    work()
    assert DeadLetter.objects.open().count() == 3
    [first] = said(OPENED)
    assert (first["handler"], first["error"]["message"], first["open"]) == ("story", "no such customer", 1)
    later(minutes=61)
    builders.run("story")
    work()
    assert [letter["open"] for letter in said(OPENED)] == [1, 4]
    assert [letter["since"] for letter in said(OPENED)] == [1, 3], "the two that were not told, and this one"


def test_another_cause_is_told_at_once(story: None) -> None:
    builders.run("story")
    work()
    with registered("other", fails):
        builders.run("other")
        work()
    assert [letter["handler"] for letter in said(OPENED)] == ["story", "other"]


def test_an_alarm_that_itself_dies_tells_nobody() -> None:
    with registered("alarm", fails):
        builders.trigger("alarm", source="/nightdesk", type_pattern="nightdesk.dead_letter.*")
        with registered("story", fails):
            builders.run("story")
            for _ in range(5):
                work()
        assert Run.objects.filter(handler="alarm").count() == 1
    assert len(said(OPENED)) == 1
    assert DeadLetter.objects.filter(handler="alarm").count() == 1, "it is on the page all the same"


def test_a_sender_cannot_silence_the_alarm_by_a_name(story: None) -> None:
    run = builders.run("story")
    Event.objects.filter(pk=run.event_id).update(type="nightdesk.order.paid")
    work()
    assert [letter["handler"] for letter in said(OPENED)] == ["story"]


def test_ends_of_runs_are_told_only_while_somebody_listens_and_never_in_a_circle() -> None:
    with registered("quiet", lambda run: "done"), registered("listener", lambda run: "heard"):
        builders.run("quiet")
        work()
        assert said(SUCCEEDED) == []
        builders.trigger("listener", source="/nightdesk", type_pattern="nightdesk.run.*")
        builders.run("quiet")
        for _ in range(5):
            work()
        assert len(said(SUCCEEDED)) == 1
        assert Run.objects.filter(handler="listener", status="succeeded").count() == 1


def test_an_event_handed_on_too_often_starts_nothing_but_still_wakes() -> None:
    with registered("story", lambda run: run.wait_for("it", type="echo", source="/nightdesk").data):
        run = builders.run("story")
        work()
        builders.trigger("story", source="/nightdesk", type_pattern="echo")
        store_internal(source="/nightdesk", type="echo", data="ninth", hops=9)
        work()
        assert Event.objects.get(type="echo").status == "suppressed"
        assert Run.objects.get(pk=run.pk).result == "ninth"
        assert Run.objects.count() == 1


@pytest.mark.usefixtures("noon")  # the morning's letter comes at another hour
def test_the_alarm_reaches_our_people_through_apprise_with_the_count(
    story: None, later: Callable[..., None], owner: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[str, str]] = []

    def hear(self: Any, body: str, title: str = "", **_: Any) -> bool:
        heard.append((title, body))
        return True

    monkeypatch.setattr("apprise.plugins.custom_json.NotifyJSON.send", hear)  # the far side, not our code
    settings.NOTIFY_URLS = ["json://127.0.0.1:9/alarm"]
    tour.seed(owner)
    for hours in (0, 0, 0, 2):
        later(hours=hours)
        builders.run("story")
        desk.tick()
        work()
    assert [title for title, _ in heard] == ["Dead letter: story: Permanent"] * 2
    assert "no such customer" in heard[0][1]
    assert "3 since the last alarm" in heard[1][1]
