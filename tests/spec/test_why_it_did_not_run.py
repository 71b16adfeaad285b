"""Every event keeps, for each trigger that was asked, whether it woke it, and in words why not."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from project.people.models import User
from tests import builders
from triggers import configure, dispatch, registry
from triggers.models import Event, Trigger

API = "/api/v1"


@pytest.fixture
def _handler() -> Any:
    registry.HANDLERS["deploy"] = registry.Handler(name="deploy", function=lambda run: None)
    yield
    del registry.HANDLERS["deploy"]


@pytest.fixture
def send(_handler: None, ann: User, with_token: Callable[..., Client]) -> Callable[..., Event]:
    """`send(data)`: a CloudEvent by token; gives the stored event."""
    builders.source("api", kind="cloudevents", provider="", types=["**"])
    client = with_token(ann, "ingest")

    def post(data: Any, type: str = "shop.push") -> Event:
        event = {
            "specversion": "1.0",
            "id": f"e-{Event.objects.count()}",
            "source": "/shop",
            "type": type,
            "data": data,
        }
        answer = client.post(f"{API}/events", json.dumps(event), content_type="application/cloudevents+json")
        assert answer.status_code == 202, answer.content
        return Event.objects.get(pk=answer.json()["events"][0]["seq"])

    return post


def watch(slug: str, filter: str, **fields: Any) -> Trigger:
    return configure.make_trigger(by=None, slug=slug, source="api", handler="deploy", filter=filter, **fields)


def said(event: Event) -> dict[str, tuple[str, str]]:
    return {told["trigger"]: (told["outcome"], told.get("detail", "")) for told in event.outcomes}


def test_each_trigger_says_why(send: Callable[..., Event]) -> None:
    watch("main-only", 'event.data.ref == "main"')
    watch("large", "event.data.size > 10")
    watch("odd", "event.data.ref > 10")
    watch("elsewhere", "", type_pattern="shop.pull")
    watch("every", "")
    event = send({"ref": "dev"})
    assert event.status == "routed"
    assert said(event) == {
        "main-only": ("not_matched", "`event.data.ref` was 'dev', wanted 'main'"),
        "large": ("not_matched", "`event.data.size` is missing"),
        "odd": ("could_not_evaluate", "the types do not fit: `event.data.ref` was 'dev'"),
        "every": ("matched", ""),
    }
    assert [run.trigger.slug for run in event.runs.all() if run.trigger] == ["every"]


def test_an_event_nobody_wanted_is_kept_with_its_reasons(send: Callable[..., Event]) -> None:
    watch("main-only", 'event.source == "api" && event.data.ref == "main"')
    event = send({"ref": "dev"})
    assert event.status == "ignored"
    assert event.outcomes[0]["clause"] == 'event.data.ref == "main"'


def test_a_payload_too_large_for_the_door_is_matched_a_moment_later(send: Callable[..., Event]) -> None:
    watch("large", "event.data.list.exists(item, item == 7)")
    event = send({"list": [7] * 2000})
    assert event.status == "accepted"
    dispatch.match_stored([event.pk])
    event.refresh_from_db()
    assert (event.status, event.runs.count()) == ("routed", 1)


def test_a_filter_reads_the_headers_of_a_delivery(send: Callable[..., Event]) -> None:
    watch("typed", 'headers["Content-Type"] == "application/cloudevents+json"')
    assert send({"ref": "dev"}).status == "routed"
