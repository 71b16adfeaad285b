"""A desk's own code sees every event from outside before a trigger is asked: it may change or stop it, and is named."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from project.people.models import User
from tests import builders
from tests.deliveries import deliver, github
from tests.handlers import registered, work
from triggers import dispatch, endings, ingest, registry, tallies
from triggers import middleware as passing
from triggers.filters import compile_filter
from triggers.models import DeadLetter, Event, Run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def middleware() -> Iterator[Callable[..., Any]]:
    """`@middleware(order=…)` for one test."""
    yield registry.middleware
    registry.MIDDLEWARE.clear()


@pytest.fixture
def story() -> Iterator[None]:
    builders.source()
    builders.trigger("story")
    with registered("story", lambda run: [run.event.data, run.event.subject, run.event.severity]):
        yield


def ring(**data: Any) -> Event:
    """A delivery at the real door; what became of it."""
    [answer] = deliver(github({"action": "opened", **data}, id=f"d-{Event.objects.count()}"))
    assert answer.status == 202, answer.body
    return Event.objects.get(pk=answer.json["seq"])


def test_it_changes_data_subject_and_severity_and_the_bytes_stay(story: None, middleware: Callable[..., Any]) -> None:
    @middleware(order=10)
    def enrich(event: Any) -> Any:
        event.data["team"] = "blue"
        event.subject, event.severity = "acme/shop", "warning"
        return event

    event = ring()
    assert (event.status, event.subject, event.severity) == ("routed", "acme/shop", "warning")
    assert b"blue" not in bytes(event.raw or b"")
    work()
    assert Run.objects.get().result == [{"action": "opened", "team": "blue"}, "acme/shop", "warning"]


def test_they_come_in_order_and_filters_see_what_they_made(story: None, middleware: Callable[..., Any]) -> None:
    seen = []

    @middleware(order=20)
    def second(event: Any) -> Any:
        seen.append(("second", event.data["step"]))
        event.data["step"] = 2
        return event

    @middleware(order=10)
    def first(event: Any) -> Any:
        seen.append(("first", event.type))
        event.data["step"] = 1
        return event

    builders.trigger("story", filter_plan=compile_filter("event.data.step == 2"))
    assert ring().status == "routed"
    assert seen == [("first", "github.issues.opened"), ("second", 1)]
    assert Run.objects.count() == 2


def test_none_stops_the_event_and_its_page_names_who_did_it(
    story: None, middleware: Callable[..., Any], ann: User, sign_in: Callable[[User], Client]
) -> None:
    @middleware()
    def drop_bots(event: Any) -> Any:
        """Nothing a bot did."""
        return None

    event = ring()
    assert (event.status, event.runs.count(), DeadLetter.objects.count()) == ("stopped", 0, 0)
    assert "middleware drop_bots" in sign_in(ann).get(f"/events/{event.pk}").text
    tallies.flush()
    page = sign_in(ann).get("/handlers").text
    row = page[page.index('id="middleware"') :]
    assert "drop_bots" in row
    assert "Nothing a bot did." in row
    assert "status=stopped" in row


def test_an_error_is_named_buried_and_runs_again_when_it_is_mended(
    story: None, middleware: Callable[..., Any], ann: User, sign_in: Callable[[User], Client]
) -> None:
    @middleware()
    def fragile(event: Any) -> Any:
        return event if event.data["user"] else None

    event = ring()
    assert event.status == "invalid"
    letter = DeadLetter.objects.get()
    assert (letter.kind, letter.event, letter.handler, letter.error_type) == (
        "event",
        event,
        "middleware fragile",
        "KeyError",
    )
    assert "test_middleware_sees_every_event.py" in letter.place
    registry.MIDDLEWARE.clear()
    sign_in(ann).post(f"/dead-letters/{letter.pk}/reruns", {"reason": "mended"})
    event.refresh_from_db()
    assert (event.status, event.runs.count()) == ("routed", 1)


def given_back(event: Any) -> Any:
    return {"data": 1}


def renames(event: Any) -> Any:
    event.type = "other"
    return event


def shouts(event: Any) -> Any:
    event.severity = "loud"
    return event


def unsayable(event: Any) -> Any:
    event.data = {"when": object()}
    return event


def endless(event: Any) -> Any:
    event.data["n"] = float("nan")
    return event


def half(event: Any) -> Any:
    event.data["text"] = "\ud800"
    return event


def leaves(event: Any) -> Any:
    sys.exit("enough")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (leaves, "enough"),
        (given_back, "gave back dict"),
        (renames, "may change data, subject, severity, not type"),
        (shouts, "severity is one of"),
        (unsayable, "not JSON serializable"),
        (endless, "not JSON compliant"),
        (half, "half a surrogate pair"),
    ],
)
def test_what_no_event_can_be_is_an_error_and_changes_nothing(
    story: None, middleware: Callable[..., Any], function: Any, words: str
) -> None:
    middleware()(function)
    event = ring()
    assert event.status == "invalid"
    assert event.data == {"action": "opened"}
    assert words in DeadLetter.objects.get().message


def test_what_is_slow_is_counted(story: None, middleware: Callable[..., Any]) -> None:
    @middleware()
    def slow(event: Any) -> Any:
        time.sleep(0.06)
        return event

    ring()
    assert tallies.known()["middleware", ("slow", "slow")] == 1
    assert tallies.known()["middleware", ("slow", "passed")] == 1


def test_one_that_hangs_is_left_behind_and_named(
    story: None, middleware: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    @middleware()
    def hangs(event: Any) -> Any:
        released.wait()
        return event

    monkeypatch.setattr(passing, "LONGEST", 0.05)
    assert ring().status == "invalid"
    released.set()
    assert DeadLetter.objects.get().message == "the middleware “hangs” took longer than 0.05 s"


def test_the_desks_own_events_and_suppressed_ones_pass_it_by(story: None, middleware: Callable[..., Any]) -> None:
    @middleware()
    def drop_all(event: Any) -> Any:
        return None

    ingest.store_internal(source="/nightdesk", type="nightdesk.test", data={})
    assert Event.objects.get(type="nightdesk.test").status == "ignored"
    builders.event(hops=9, status="accepted")
    dispatch.match_stored(None)
    assert Event.objects.get(hops=9).status == "suppressed"


def test_it_runs_in_no_transaction_and_a_process_that_died_before_it_is_made_up_for(
    story: None, middleware: Callable[..., Any]
) -> None:
    from_inside = []

    @middleware()
    def look(event: Any) -> Any:
        from_inside.append(ingest.connection.in_atomic_block)
        return event

    builders.event(status="accepted")
    dispatch.tick()
    assert from_inside == [False]
    assert Run.objects.count() == 1


def test_a_stopped_event_wakes_nobody(middleware: Callable[..., Any]) -> None:
    builders.source()
    with registered("waits", lambda run: run.wait_for("it", type="github.issues.opened", source="github").data):
        builders.run("waits", event=builders.event("github.push"))
        work()

        @middleware()
        def drop(event: Any) -> Any:
            return event if event.data.get("good") else None

        ring()
        dispatch.tick()
        work()
        assert Run.objects.get().status == "waiting"
        ring(good=True)
        work()
        assert Run.objects.get().result == {"action": "opened", "good": True}


def test_a_file_of_the_users_brings_it_and_a_second_one_of_its_name_is_refused(
    tmp_path: Path, settings: Any, middleware: Callable[..., Any]
) -> None:
    text = "from triggers.registry import middleware\n@middleware(order={})\ndef drop(event):\n    return event\n"
    (tmp_path / "a_mine.py").write_text(text.format(10))
    (tmp_path / "b_other.py").write_text(text.format(20))
    settings.HANDLERS_DIR = str(tmp_path)
    registry.load_user_handlers()
    assert [(one.name, one.order) for one in registry.in_order()] == [("drop", 10)]
    assert "registered by user_handlers.a_mine.drop already" in registry.BROKEN["b_other.py"].error
    registry.BROKEN.clear()


def test_whoever_opens_the_letter_is_known_to_every_process() -> None:
    assert endings.condemn in registry.at_refusal
