"""Payloads, arguments and what quotes them are for those who may see them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from approvals.models import Action
from project.lib import clock
from project.people import roles
from project.people.models import User
from tests import builders
from tests.conftest import person
from tests.contract.world import API, World
from triggers.models import DeadLetter, Event

SignIn = Callable[[User], Client]


def read(client: Client, path: str) -> Any:
    response = client.get(f"{API}{path}")
    assert response.status_code == 200, response.content
    return response.json()


def test_a_viewer_reads_facts_and_an_operator_the_payload(world: World, sign_in: SignIn) -> None:
    seq = world.keys["events"]
    Event.objects.filter(pk=seq).update(
        outcomes=[{"trigger": "watch", "outcome": "not_matched", "clause": "event.data.a == 1", "detail": "was 'x'"}]
    )
    plain = read(sign_in(person("vera", roles.VIEWER)), f"/events/{seq}")
    assert (plain["data"], plain["raw"], plain["headers"]) == (None, None, None)
    assert "detail" not in plain["outcomes"][0]
    full = read(sign_in(person("otto", roles.OPERATOR)), f"/events/{seq}")
    assert full["data"] == {"secret": "of the payload"}
    assert full["outcomes"][0]["detail"] == "was 'x'"


def test_results_of_steps_are_payload_too(world: World, sign_in: SignIn) -> None:
    run = builders.run(result_json='{"told": "secret"}')
    assert read(sign_in(person("vera", roles.VIEWER)), f"/runs/{run.pk}")["result"] is None
    assert read(sign_in(person("otto", roles.OPERATOR)), f"/runs/{run.pk}")["result"] == {"told": "secret"}


def test_what_errors_quote_is_payload_too(world: World, sign_in: SignIn) -> None:
    error = {"type": "KeyError", "message": "secret", "traceback": "secret"}
    run = builders.run(error=error)
    builders.step(run, 1, status="failed", error=error)
    DeadLetter.objects.update(message="secret", place="shop.py in order", step="order")
    letter = f"/dead-letters/{world.keys['dead-letters']}"
    vera, otto = sign_in(person("vera", roles.VIEWER)), sign_in(person("otto", roles.OPERATOR))
    plain = read(vera, f"/runs/{run.pk}")
    assert plain["error"] == plain["steps"][0]["error"] == {"type": "KeyError"}
    places = {"type": "Boom", "place": "shop.py in order", "step": "order"}
    assert read(vera, letter)["error"] == read(vera, "/dead-letters")["items"][0]["error"] == places
    full = read(otto, f"/runs/{run.pk}")
    assert full["error"] == full["steps"][0]["error"] == error
    assert (
        read(otto, letter)["error"]
        == read(otto, "/dead-letters")["items"][0]["error"]
        == {**places, "message": "secret"}
    )


def test_of_a_long_run_the_newest_steps_are_shown_and_large_results_left_out(world: World, sign_in: SignIn) -> None:
    run = builders.run()
    for seq in range(503):
        builders.step(run, seq)
    large, just = json.dumps("x" * 65536), json.dumps("x" * 65534)
    run.steps.filter(seq=501).update(result_json=large)
    run.steps.filter(seq=502).update(result_json=just)
    shown = read(sign_in(person("otto", roles.OPERATOR)), f"/runs/{run.pk}")
    assert (shown["steps_total"], len(shown["steps"])) == (503, 500)
    assert [shown["steps"][at]["name"] for at in (0, -1)] == ["step 3", "step 502"]
    assert (shown["steps"][-2]["result"], shown["steps"][-2]["result_size"]) == (None, 65538)
    assert (shown["steps"][-1]["result"], shown["steps"][-1]["result_size"]) == (json.loads(just), 65536)


@pytest.mark.parametrize(
    ("role", "sees"), [(roles.VIEWER, False), (roles.ADMIN, False), (roles.OPERATOR, True), (roles.REVIEWER, True)]
)
def test_arguments_are_for_operators_and_for_who_decides(world: World, sign_in: SignIn, role: str, sees: bool) -> None:
    shown = read(sign_in(person("somebody", role)), f"/actions/{world.keys['actions']}")
    assert (shown["arguments"] is not None) is sees
    assert (shown["canonical"] is not None) is sees
    assert shown["title"] == Action.objects.get(pk=world.keys["actions"]).title
    assert shown["reviewers"] == ["reviewer"]


def test_a_read_token_of_an_operator_sees_facts_only(world: World, ann: User, with_token: Any) -> None:
    seq = world.keys["events"]
    assert read(with_token(ann, "read"), f"/events/{seq}")["data"] is None
    assert read(with_token(ann, "read", "operate"), f"/events/{seq}")["data"] is not None


def test_who_may_only_propose_sees_nothing_of_others(world: World, ben: User, with_token: Any) -> None:
    client = with_token(ben, "propose")
    assert client.get(f"{API}/actions/{world.keys['actions']}").status_code in (403, 404)
    assert client.get(f"{API}/events").status_code == 403


def test_secrets_are_never_read_back(world: World, owner: User, sign_in: SignIn) -> None:
    shown = read(sign_in(owner), "/sources/github")
    assert builders.SECRET not in str(shown)
    assert shown["secrets"][0]["hint"].startswith("…")
    assert read(sign_in(owner), "/connections/practice-github")["secrets"] == []


def test_reading_changes_nothing(world: World, owner: User, sign_in: SignIn, with_token: Any) -> None:
    """Every GET, before and after: the same rows, the same version, nothing noted on the token."""
    keys = world.keys
    token = with_token(owner, "read", "operate")
    before = (Action.objects.values().get(), Event.objects.values().get(), owner.tokens.values().get())
    for path in (
        f"/actions/{keys['actions']}",
        f"/events/{keys['events']}",
        f"/runs/{keys['runs']}",
        "/live",
        "/sources/github",
    ):
        read(token, path)
        read(sign_in(owner), path)
    assert before == (Action.objects.values().get(), Event.objects.values().get(), owner.tokens.values().get())


def test_what_a_far_side_said_is_for_operators_and_reviewers(db: None, sign_in: SignIn) -> None:
    error = {"type": "Refused", "message": "422 for secret@example.org"}
    action = builders.action(tier="low", status="failed", run=builders.run(), error=error, settled_at=clock.now())
    action.attempts.create(number=1, key_sent="k", outcome="failed", started_at=clock.now(), error=error)
    vera = sign_in(person("vera", roles.VIEWER))
    plain = read(vera, f"/actions/{action.pk}")
    assert plain["error"] == plain["attempts"][0]["error"] == {"type": "Refused"}
    page = vera.get(f"/actions/{action.pk}").content.decode()
    assert "Refused" in page
    assert "secret@" not in page
    for reader in (person("otto", roles.OPERATOR), person("rita", roles.VIEWER, roles.REVIEWER)):
        full = read(sign_in(reader), f"/actions/{action.pk}")
        assert full["error"] == full["attempts"][0]["error"] == error
        assert "secret@example.org" in sign_in(reader).get(f"/actions/{action.pk}").content.decode()
