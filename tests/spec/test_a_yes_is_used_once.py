"""A program outside that does it itself takes up the yes before it does, and of many calls one gets it."""

import json
from typing import Any

import pytest
from django.test import Client

from approvals.models import Action
from project.lib import clock
from tests import builders
from tests.agents import agent
from triggers.models import Audit

API = "/api/v1"
pytestmark = pytest.mark.django_db


@pytest.fixture
def robot() -> Any:
    return agent("robot")


def granted(robot: Any, **fields: Any) -> Action:
    now, status = clock.now(), fields.get("status", "delivered")
    times = {"settled_at": None if status in ("awaiting", "approved", "unknown") else now, "decided_at": now}
    times |= {"decided_at": None} if status == "awaiting" else {}
    given = {"arguments": {"service": "shop"}, "tier": "high", "status": "delivered", "given": 1, **times, **fields}
    return builders.action("external.deploy", token=robot.token, **given)


def consume(client: Client, action: Action, *, under: str = "call-1", digest: str = "") -> Any:
    body = json.dumps({"digest": digest or action.digest, "under": under})
    return client.post(f"{API}/actions/{action.pk}/consume", body, content_type="application/json")


def test_the_first_call_gets_it_and_every_other_one_is_refused(robot: Any) -> None:
    action = granted(robot)
    first = consume(robot, action)
    assert (first.status_code, first.json()["digest"]) == (200, action.digest)
    again = consume(robot, action, under="call-2")
    assert (again.status_code, again.json()["code"]) == (409, "used_up")
    assert again.json()["at"] == first.json()["used_at"]
    assert Audit.objects.filter(verb="consume", ref=str(action.pk)).count() == 1


def test_the_same_call_that_asks_again_has_it_still(robot: Any) -> None:
    action = granted(robot)
    assert consume(robot, action).json() == consume(robot, action).json()


@pytest.mark.parametrize("status", ["awaiting", "approved", "rejected", "expired", "cancelled", "failed", "unknown"])
def test_what_nobody_said_yes_to_is_not_there_to_be_used(robot: Any, status: str) -> None:
    answer = consume(robot, granted(robot, status=status))
    assert (answer.status_code, answer.json()["code"], answer.json()["state"]) == (409, "not_granted", status)


def test_what_was_approved_must_be_what_is_used(robot: Any) -> None:
    action = granted(robot)
    answer = consume(robot, action, digest="sha256:other")
    assert (answer.status_code, answer.json()["code"]) == (412, "changed")
    assert Action.objects.get().used_at is None


def test_it_is_of_the_token_that_asked_and_of_nobody_else(robot: Any, owner: Any, sign_in: Any) -> None:
    action = granted(robot)
    assert consume(agent("another"), action).status_code == 404
    assert consume(sign_in(owner), action).status_code == 403
    assert Action.objects.get().used_at is None
