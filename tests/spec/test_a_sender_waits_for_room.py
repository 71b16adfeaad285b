"""Over a limit a delivery is kept with a named outcome, or refused with a time to come again: never 2xx and lost."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from project.people.models import User
from tests import builders
from tests.deliveries import deliver, github
from tests.handlers import registered, work
from triggers import dispatch, overflow
from triggers.envelope import Arrival
from triggers.ingest import ingest
from triggers.limits import read_limits
from triggers.models import Event, Refusal, Run, Source, Tally, Trigger
from triggers.tallies import known

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def source() -> Source:
    return builders.source(types=["github.**"], rate_limit=None)


def trigger(**limits: Any) -> Trigger:
    return builders.trigger("story", slug="issues", limits=read_limits(limits))


def issue(number: int, **given: Any) -> dict[str, Any]:
    return github({"action": "opened", "issue": {"number": number}}, id=f"d-{number}", **given)


def test_a_full_queue_that_blocks_answers_503_and_stores_nothing_of_it() -> None:
    """BP-02: the queue takes 3, six deliveries come at once, nobody works."""
    row = trigger(queue={"limit": 3, "when_full": "block"})
    answers = deliver(*[issue(number) for number in range(6)])
    assert sorted(answer.status for answer in answers) == [202, 202, 202, 503, 503, 503]
    refused = next(answer for answer in answers if answer.status == 503)
    assert refused.headers["retry-after"] == "5"
    assert (refused.json["code"], refused.json["trigger"]) == ("queue_full", "issues")
    assert Event.objects.count() == Run.objects.count() == 3
    assert not Refusal.objects.exists()
    assert known()["refused", ("github", "queue_full")] == 3
    assert overflow.health_of(row)["utilization"] == 1
    dispatch.tick()
    assert Event.objects.filter(type="nightdesk.queue.full").count() == 1


def test_who_comes_again_when_there_is_room_is_taken_in_and_repeats_are_still_repeats() -> None:
    trigger(queue={"limit": 1, "when_full": "block"})
    first, _ = (deliver(issue(1))[0], deliver(issue(2))[0])
    assert deliver(issue(1))[0].status == 200, "a repeat needs no room"
    with registered("story", lambda run: None):
        work()
    assert deliver(issue(2))[0].status == 202
    assert first.status == 202


def test_one_full_trigger_refuses_the_delivery_for_all_so_that_none_starts_it_twice() -> None:
    trigger(queue={"limit": 1, "when_full": "block"})
    builders.trigger("other", slug="other")
    deliver(issue(1))
    assert deliver(issue(2))[0].status == 503
    assert Run.objects.filter(trigger__slug="other").count() == 1


def test_others_of_the_same_commit_are_taken_in() -> None:
    trigger(queue={"limit": 1, "when_full": "block"})
    Trigger.objects.update(type_pattern="github.issues.*")
    pushes = [github({"ref": "main", "n": number}, id=f"p-{number}", event="push") for number in range(4)]
    answers = deliver(issue(1), issue(2), *pushes)
    assert sorted(answer.status for answer in answers) == [202, 202, 202, 202, 202, 503]


@pytest.mark.parametrize("when_full", ["drop_newest", "drop_oldest"])
def test_a_queue_that_drops_keeps_every_event_with_what_became_of_it(when_full: str) -> None:
    row = trigger(queue={"limit": 3, "when_full": when_full})
    answers = deliver(*[issue(number) for number in range(8)])
    assert {answer.status for answer in answers} == {202}
    dispatch.tick()
    assert Run.objects.filter(status="queued").count() == 3
    assert Tally.objects.get(name="dropped").value == 5
    outcomes = [event.outcomes[0]["outcome"] for event in Event.objects.filter(source_slug="github")]
    ended = Run.objects.filter(status="cancelled", reason="dropped").count()
    assert outcomes.count("dropped") + ended == 5
    health = overflow.health_of(row)
    assert (health["queue_size"], health["dropped"], health["max_size"]) == (3, 5, 3)


def test_debouncing_at_the_door_loses_no_event() -> None:
    trigger(debounce={"period": 30, "key": "event.data.action"})
    deliver(*[issue(number) for number in range(10)])
    run = Run.objects.get()
    assert run.gathered.count() == 10
    assert run.event_id == Event.objects.order_by("-pk").values_list("pk", flat=True).first()


def test_a_door_that_holds_nothing_back_asks_no_more_than_before() -> None:
    """A trigger without limits costs no further statement, whatever limits others have."""
    builders.trigger("story")
    statements_of_a_delivery("warm")  # what a process reads once is read
    statements = []
    for limits in ({}, {"timeout": 60, "retries": {"max": 1}}):
        Trigger.objects.update(enabled=False)
        builders.trigger("story", limits=read_limits(limits))
        builders.trigger("story", source="elsewhere", limits=read_limits({"queue": {"limit": 1}}))
        statements.append(statements_of_a_delivery(f"n-{len(statements)}"))
    assert statements[0] == statements[1]
    assert not any("triggers_slot" in sql or "FOR UPDATE" in sql for sql in statements[0])


def statements_of_a_delivery(id: str) -> list[str]:
    """As the API's door writes it: the other door has a connection of its own."""
    source = Source.objects.get()
    arrival = Arrival(
        source_id=source.pk,
        source=source.slug,
        ce_id=id,
        ce_source="/github",
        type="github.push",
        datacontenttype="application/json",
        raw=b"{}",
        keys=[(id, "duplicate")],
        window=60,
    )
    ingest([])  # the table is read
    with CaptureQueriesContext(connection) as caught:
        ingest([arrival])
    words = [query["sql"].replace("(", " ").split() for query in caught.captured_queries]
    return [" ".join(sql[:3]) + " FOR UPDATE" * (sql[-2:] == ["FOR", "UPDATE"]) for sql in words]


def test_the_api_says_how_a_trigger_is_doing_and_refuses_with_a_time(
    ann: User, with_token: Callable[..., Client]
) -> None:
    builders.source("api", kind="cloudevents", provider="")
    builders.trigger(
        "story", slug="jobs", source="api", limits=read_limits({"queue": {"when_full": "block", "limit": 1}})
    )
    client = with_token(ann, "ingest", "read")

    def publish(id: str) -> Any:
        body = {"specversion": "1.0", "id": id, "source": "/jobs", "type": "job"}
        return client.post("/api/v1/events", body, content_type="application/cloudevents+json")

    assert publish("1").status_code == 202
    full = publish("2")
    assert (full.status_code, full.headers["retry-after"], full.json()["code"]) == (503, "5", "queue_full")
    told = {"queue_size": 1, "max_size": 1, "utilization": 1.0, "dropped": 0, "processed": 0}
    assert client.get("/api/v1/triggers/jobs").json()["health"] == told
