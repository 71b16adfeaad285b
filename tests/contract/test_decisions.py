"""Decisions over the API: who, when and on what, and the order in which refusals are said."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from approvals.models import Action, Decision
from project.people.models import User
from tests import builders
from tests.conftest import PASSWORD
from tests.contract.world import API

SignIn = Callable[[User], Client]


def say(client: Client, action: Action, **body: Any) -> Any:
    seen = {"verdict": "approve", "digest": action.digest, "revision": action.revision, **body}
    return client.post(f"{API}/actions/{action.pk}/decisions", seen, content_type="application/json")


def refusal(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def test_a_yes_counts_once_and_saying_it_again_is_no_error(ann: User, ben: User, sign_in: SignIn) -> None:
    action = builders.action(by=ann)
    first = say(sign_in(ben), action)
    assert first.status_code == 201, first.content
    assert first.json()["status"] == "approved"
    assert (first.json()["needed"], first.json()["given"]) == (1, 1)
    assert say(sign_in(ben), action).status_code == 200


def test_refusals_come_in_their_order(ann: User, ben: User, eve: User, owner: User, sign_in: SignIn) -> None:
    action = builders.action(by=ann)
    wrong = {"digest": "sha256:other", "verdict": "maybe", "reason": ""}
    assert refusal(say(Client(), action, **wrong)) == (401, "not_signed_in")
    missing = builders.action(by=ann)
    missing.pk = 10**9
    assert refusal(say(sign_in(eve), missing, **wrong)) == (404, "not_found")
    assert refusal(say(sign_in(eve), action, **wrong)) == (403, "forbidden")
    assert refusal(say(sign_in(ann), action, **wrong)) == (403, "self_approval")
    assert refusal(say(sign_in(ben), action, **wrong)) == (412, "changed")
    assert refusal(say(sign_in(ben), action, verdict="maybe")) == (422, "not_valid")
    assert refusal(say(sign_in(ben), action, verdict="reject")) == (422, "reason_required")
    assert say(sign_in(ben), action).status_code == 201
    first = say(sign_in(owner), action, **wrong)
    assert refusal(first) == (409, "already_decided")
    assert (first.json()["status"], first.json()["row_status"], first.json()["by"]) == (409, "approved", "ben")
    assert refusal(say(sign_in(ben), action, **wrong)) == (409, "already_said")


def test_what_expired_is_gone(ann: User, ben: User, sign_in: SignIn, later: Callable[..., None]) -> None:
    action = builders.action(by=ann)
    later(days=2)
    gone = say(sign_in(ben), action, digest="sha256:other")
    assert refusal(gone) == (410, "expired")
    assert gone.json()["expired_at"].endswith("Z")


def test_changed_says_what_to_look_at(ann: User, ben: User, sign_in: SignIn) -> None:
    """I1: the revision counts too, so a late retry cannot approve what was taken back."""
    action = builders.action(by=ann)
    assert say(sign_in(ben), action).status_code == 201
    back = sign_in(ben).post(f"{API}/actions/{action.pk}/take-back")
    assert (back.status_code, back.json()["revision"]) == (200, 2)
    late = say(sign_in(ben), action)
    assert refusal(late) == (412, "changed")
    assert (late.json()["digest"], late.json()["revision"]) == (action.digest, 2)
    action.refresh_from_db()
    assert action.status == "awaiting"


@pytest.mark.parametrize("member", ["digest", "revision"])
def test_a_decision_without_what_was_seen_is_about_something_else(
    ann: User, ben: User, sign_in: SignIn, member: str
) -> None:
    action = builders.action(by=ann)
    body = {"verdict": "approve", "digest": action.digest, "revision": 1}
    del body[member]
    path = f"{API}/actions/{action.pk}/decisions"
    assert refusal(sign_in(ben).post(path, body, content_type="application/json")) == (412, "changed")


@pytest.mark.parametrize("odd", [{"verdikt": "approve"}, {"revision": True}, {"revision": "1"}, {"revision": 1.0}])
def test_what_a_decision_does_not_know_is_a_mistake_not_a_wish(ann: User, ben: User, sign_in: SignIn, odd: Any) -> None:
    action = builders.action(by=ann)
    answer = say(sign_in(ben), action, **odd)
    assert refusal(answer) == (422, "not_valid")
    assert answer.json()["field"] == next(iter(odd))
    action.refresh_from_db()
    assert (action.status, action.decisions.count()) == ("awaiting", 0)


def test_an_edit_answers_with_the_revision_it_made(ann: User, ben: User, sign_in: SignIn) -> None:
    given = {"repo": "acme/shop", "base": "main", "title": "Fix", "files": [{"path": "a.txt", "content": "a"}]}
    action = builders.action(by=ann, connection=builders.connection(), arguments=given)
    wrong = say(sign_in(ben), action, arguments={**given, "files": []})
    assert (refusal(wrong), wrong.json()["field"]) == ((422, "not_valid"), "files")
    said = say(sign_in(ben), action, arguments={**given, "title": "Mend"})
    assert (said.status_code, said.json()["revision"], said.json()["status"]) == (201, 2, "approved")
    assert said.json()["digest"] != action.digest
    assert say(sign_in(ben), action, arguments={**given, "title": "Mend"}).status_code == 200
    told = sign_in(ben).get(f"{API}/actions/{action.pk}").json()
    assert told["arguments"]["title"] == "Mend"
    assert [(each["verdict"], each["revision"]) for each in told["decisions"]] == [("edit", 1), ("approve", 2)]
    assert told["requester_chain"] == [ann.pk, ben.pk]


def test_high_needs_the_password_again_and_uses_it_up(ann: User, ben: User, sign_in: SignIn) -> None:
    client = sign_in(ben)
    first, second = builders.action(by=ann, tier="high"), builders.action(by=ann, tier="high")
    assert refusal(say(client, first, reason="seen")) == (403, "step_up_required")
    client.post(f"{API}/step-up", {"password": PASSWORD}, content_type="application/json")
    assert say(client, first, reason="seen").status_code == 201
    assert refusal(say(client, second, reason="seen")) == (403, "step_up_required")


def test_a_token_decides_medium_and_never_high(ann: User, ben: User, with_token: Any) -> None:
    """AP-05: whoever asked does not nod, by whichever way he comes."""
    client = with_token(ben, "decide")
    assert say(client, builders.action(by=ann)).status_code == 201
    assert Decision.objects.get().channel == "api", "that no page was open is kept with it"
    assert refusal(say(client, builders.action(by=ann, tier="high"), reason="seen")) == (403, "step_up_required")


def test_an_action_is_cancelled_by_who_asked_for_it(ann: User, ben: User, sign_in: SignIn) -> None:
    action = builders.action(by=ann)
    path = f"{API}/actions/{action.pk}/cancel"
    ended = sign_in(ann).post(path, {"reason": "not needed"}, content_type="application/json")
    assert (ended.status_code, ended.json()["status"]) == (200, "cancelled")
    again = sign_in(ben).post(path, {}, content_type="application/json")
    assert refusal(again) == (409, "already_decided")


def test_taking_back_is_for_who_approved_and_only_in_time(ann: User, ben: User, sign_in: SignIn) -> None:
    action = builders.action(by=ann)
    path = f"{API}/actions/{action.pk}/take-back"
    say(sign_in(ben), action)
    assert refusal(sign_in(ann).post(path)) == (403, "not_reviewer")
    assert sign_in(ben).post(path).status_code == 200
    assert refusal(sign_in(ben).post(path))[0] in (403, 409)


def test_an_unknown_outcome_is_settled_by_a_person(ann: User, sign_in: SignIn) -> None:
    action = builders.action(status="unknown")
    path = f"{API}/actions/{action.pk}/outcome"
    assert refusal(sign_in(ann).post(path, {"status": "perhaps"}, content_type="application/json")) == (
        422,
        "not_valid",
    )
    said = sign_in(ann).post(path, {"status": "delivered", "note": "seen it"}, content_type="application/json")
    assert (said.status_code, said.json()["status"]) == (200, "delivered")
    assert refusal(sign_in(ann).post(path, {"status": "failed"}, content_type="application/json"))[0] == 409


def test_waiting_ends_at_once_when_nobody_is_asked_and_in_time_when_somebody_is(
    ann: User, ben: User, sign_in: SignIn
) -> None:
    client = sign_in(ben)
    done, open_ = builders.action(status="approved"), builders.action(by=ann)
    assert client.get(f"{API}/actions/{done.pk}?wait=30").json()["status"] == "approved"
    assert client.get(f"{API}/actions/{open_.pk}?wait=0.2").json()["status"] == "awaiting"
    for wait in ("-1", "61", "long"):
        assert refusal(client.get(f"{API}/actions/{open_.pk}?wait={wait}")) == (400, "bad_value")
