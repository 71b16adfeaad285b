"""What is changed over the API is changed by the version that was read, validated like in the forms, and audited."""

import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from approvals.models import Connection
from project.people import roles
from project.people.models import Proof, User
from tests import builders
from tests.conftest import PASSWORD
from tests.contract.world import API, World
from triggers.models import Audit, DeadLetter, Refusal, Run, Source, Switch, Trigger


@pytest.fixture
def admin(owner: User, sign_in: Callable[[User], Client]) -> Client:
    """The owner, who has just given the password again."""
    client = sign_in(owner)
    assert send(client, "post", "/step-up", {"password": PASSWORD}).status_code == 204
    return client


def send(client: Client, method: str, path: str, body: Any = None) -> Any:
    return getattr(client, method)(f"{API}{path}", body, content_type="application/json")


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("/sources/github", {"name": "Ours"}),
        ("/triggers/watch", {"priority": 1}),
        ("/connections/practice-github", {"name": "Ours"}),
    ],
)
def test_who_read_an_older_version_changes_nothing(
    world: World, admin: Client, path: str, change: dict[str, Any]
) -> None:
    """AD-04: the second of two who change is told, and nothing else is switched by it."""
    first = send(admin, "patch", path, {**change, "version": 1})
    assert (first.status_code, first.json()["version"]) == (200, 2)
    stale = send(admin, "patch", path, {**change, "version": 1})
    assert (stale.status_code, stale.json()["code"], stale.json()["version"]) == (409, "stale", 2)
    assert send(admin, "patch", path, change).status_code == 422


@pytest.mark.parametrize("path", ["/sources/github", "/triggers/watch", "/connections/practice-github"])
def test_what_is_deleted_is_archived(world: World, admin: Client, path: str) -> None:
    assert send(admin, "delete", path).status_code == 204
    assert send(admin, "get", path).status_code == 404
    assert send(admin, "delete", path).status_code == 404
    models: dict[str, Any] = {"sources": Source, "triggers": Trigger, "connections": Connection}
    _, name, slug = path.split("/")
    assert models[name].objects.get(slug=slug).archived_at is not None
    assert Audit.objects.filter(verb="archive", ref=slug).exists()


def test_a_source_is_made_with_its_defaults(admin: Client) -> None:
    body = {"slug": "shop", "kind": "webhook", "provider": "github", "secrets": [{"value": "a sturdy secret"}]}
    made = send(admin, "post", "/sources", body)
    assert made.status_code == 201, made.content
    shown = made.json()
    assert shown["types"] == ["github.**"]
    assert shown["rate_limit"] == {"limit": 600, "period": 60}
    assert shown["name"] == "shop"
    assert Source.objects.get(slug="shop").secrets == [{"value": "a sturdy secret"}]
    again = send(admin, "post", "/sources", body)
    assert (again.status_code, again.json()["code"]) == (409, "slug_taken")


@pytest.mark.parametrize("values", [["short"], ["a sturdy secret", "short"], ["a sturdy secret"] * 3])
def test_a_weak_secret_or_a_third_one_is_refused_as_on_the_page(world: World, admin: Client, values: list[str]) -> None:
    secrets = [{"value": value} for value in values]
    made = send(admin, "post", "/sources", {"slug": "shop", "kind": "cloudevents", "secrets": secrets})
    changed = send(admin, "patch", "/sources/github", {"version": 1, "secrets": secrets})
    for answer in (made, changed):
        assert (answer.status_code, answer.json()["field"]) == (422, "secrets")
    assert Source.objects.get(slug="github").secrets == [{"value": builders.SECRET}]


def test_secrets_of_a_lost_key_are_named_and_can_be_entered_anew(world: World, admin: Client) -> None:
    Source.objects.update(sealed_secrets="sealed with a key that is gone")
    Connection.objects.update(sealed_secrets="sealed with a key that is gone")
    Refusal.objects.update(credentials="sealed with a key that is gone", body=b"{}")
    assert send(admin, "get", "/sources/github").json()["secrets"][0]["hint"] == "unreadable"
    assert send(admin, "get", "/sources").status_code == 200
    assert send(admin, "get", "/connections/practice-github").json()["secrets"] == ["unreadable"]
    assert send(admin, "get", "/connections").status_code == 200
    refused = send(admin, "post", f"/sources/github/refusals/{world.keys['refusals']}/admit")
    assert (refused.status_code, refused.json()["code"]) == (503, "unreadable")
    for page in ("/sources", "/sources/github", "/sources/github/secrets", "/connections/practice-github"):
        assert admin.get(page).status_code == 200, page
    body = {"version": 1, "secrets": [{"value": "a sturdy secret"}]}
    assert send(admin, "patch", "/sources/github", body).status_code == 200
    assert Source.objects.get(slug="github").secrets == [{"value": "a sturdy secret"}]


def test_a_token_makes_a_source_but_sets_no_secret(owner: User, with_token: Any) -> None:
    client = with_token(owner, "configure")
    plain = {"slug": "nightly", "kind": "schedule", "config": {"cron": "0 3 * * *"}}
    assert send(client, "post", "/sources", plain).status_code == 201
    assert send(client, "post", "/sources", {**plain, "slug": "b", "secrets": [{"value": "x"}]}).status_code == 403
    assert send(client, "patch", "/sources/nightly", {"version": 1, "secrets": []}).status_code == 403


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"config": {"cron": "0 0 30 2 *"}}, "cron"),
        ({"config": {"cron": "0 3 * * *", "timezone": "Mars/Base"}}, "timezone"),
        ({"config": {"at": "9999-12-31T23:59:59-12:00"}}, "at"),
        ({"kind": "telepathy"}, "kind"),
        ({"kind": "webhook", "provider": "nobody"}, "provider"),
        ({"kind": "webhook"}, "provider"),
        ({"types": ["a..b"]}, "types"),
        ({"idempotency_key": "event.data ="}, "idempotency_key"),
        ({"slug": "no spaces"}, "slug"),
        ({"colour": "red"}, "colour"),
        ({"dedupe_window": 1}, "dedupe_window"),
    ],
)
def test_a_source_that_makes_no_sense_is_refused_by_field(admin: Client, change: dict[str, Any], field: str) -> None:
    body = {"slug": "nightly", "kind": "schedule", "config": {"cron": "0 3 * * *"}, **change}
    refused = send(admin, "post", "/sources", body)
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert not Source.objects.exists()


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"source": "nowhere"}, "source", "not_valid"),
        ({"handler": "nobody"}, "handler", "not_valid"),
        ({"filter": "event.data.ref =="}, "filter", "bad_filter"),
        ({"filter": "event.a.exists(x, x.exists(y, y))"}, "filter", "bad_filter"),
        ({"type_pattern": "a..b"}, "type_pattern", "bad_filter"),
        ({"limits": {"debounce": {"period": 0}}}, "limits.debounce.period", "not_valid"),
        ({"limits": {"timeout": -1}}, "limits.timeout", "not_valid"),
        ({"priority": 10}, "priority", "not_valid"),
    ],
)
def test_a_trigger_that_makes_no_sense_is_refused_by_field(
    world: World, admin: Client, change: dict[str, Any], field: str, code: str
) -> None:
    body = {"slug": "fresh", "source": "github", "handler": "contract-test", **change}
    refused = send(admin, "post", "/triggers", body)
    assert (refused.status_code, refused.json()["field"], refused.json()["code"]) == (422, field, code)
    assert not Trigger.objects.filter(slug="fresh").exists()


def test_a_trigger_keeps_its_filter_cut_into_clauses(world: World, admin: Client) -> None:
    body = {
        "slug": "fresh",
        "source": "github",
        "handler": "contract-test",
        "filter": "event.hops == 0 && event.type != ''",
    }
    assert send(admin, "post", "/triggers", body).status_code == 201
    trigger = Trigger.objects.get(slug="fresh")
    assert trigger.filter_plan is not None
    assert [clause["text"] for clause in trigger.filter_plan["clauses"]] == ["event.hops == 0", "event.type != ''"]
    assert trigger.owner is not None
    assert send(admin, "patch", "/triggers/fresh", {"version": 1, "filter": ""}).status_code == 200
    trigger.refresh_from_db()
    assert trigger.filter_plan is None


def test_a_trigger_on_a_schedule_runs_one_at_a_time(world: World, admin: Client) -> None:
    send(admin, "post", "/sources", {"slug": "nightly", "kind": "schedule", "config": {"every": 60}})
    made = send(admin, "post", "/triggers", {"slug": "fresh", "source": "nightly", "handler": "contract-test"})
    busy = made.json()["limits"]["concurrency"]
    assert (busy["limit"], busy["when_busy"], busy["waiting_counts"]) == (1, "skip", True)


def test_the_health_of_a_trigger_is_on_its_page(world: World, admin: Client) -> None:
    health = send(admin, "get", "/triggers/watch").json()["health"]
    assert health == {"queue_size": 1, "max_size": None, "utilization": None, "dropped": 0, "processed": 0}


def test_a_connections_secrets_are_written_and_named(world: World, admin: Client) -> None:
    body = {"slug": "acme", "system": "github", "secrets": {"token": "ghp_very_secret"}}
    made = send(admin, "post", "/connections", body)
    assert made.status_code == 201, made.content
    assert made.json()["secrets"] == ["token"]
    assert "ghp_very_secret" not in made.content.decode()
    assert Connection.objects.get(slug="acme").secrets == {"token": "ghp_very_secret"}


def test_a_connection_that_would_fail_at_night_is_refused_also_here(world: World, admin: Client) -> None:
    body = {"slug": "crm", "system": "http", "secrets": {"X-Key": "abc"}, "config": {"hosts": ["crm.invalid"]}}
    refused = send(admin, "post", "/connections", {**body, "config": {}})
    assert (refused.status_code, refused.json()["field"]) == (422, "hosts")
    assert send(admin, "post", "/connections", body).status_code == 201
    refused = send(admin, "patch", "/connections/crm", {"version": 1, "config": {}})
    assert (refused.status_code, refused.json()["field"]) == (422, "hosts")
    assert send(admin, "patch", "/connections/crm", {"version": 1, "config": {}, "secrets": {}}).status_code == 200


def test_practice_ends_only_with_what_a_delivery_needs(world: World, admin: Client) -> None:
    refused = send(admin, "patch", "/connections/practice-github", {"version": 1, "practice": False})
    assert (refused.status_code, refused.json()["field"]) == (422, "token")
    real = {"version": 1, "practice": False, "secrets": {"token": "ghp_very_secret"}}
    assert send(admin, "patch", "/connections/practice-github", real).status_code == 200


# --- verbs ---


def test_a_run_is_cancelled_once(world: World, admin: Client) -> None:
    path = f"/runs/{world.keys['runs']}/cancel"
    ended = send(admin, "post", path)
    assert (ended.status_code, ended.json()["status"]) == (200, "cancelled")
    again = send(admin, "post", path)
    assert (again.status_code, again.json()["code"]) == (409, "ended")


def test_a_run_at_work_is_asked_to_stop(world: World, admin: Client) -> None:
    run = Run.objects.get(pk=world.keys["runs"])
    Run.objects.filter(pk=run.pk).update(status="running", leased_until=run.queued_at)
    asked = send(admin, "post", f"/runs/{run.pk}/cancel")
    assert (asked.status_code, asked.json()) == (202, {"cancel_requested": True})


def test_running_again_makes_a_linked_run(world: World, admin: Client) -> None:
    run_id = world.keys["runs"]
    early = send(admin, "post", f"/runs/{run_id}/rerun")
    assert (early.status_code, early.json()["code"]) == (409, "not_ended")
    send(admin, "post", f"/runs/{run_id}/cancel")
    again = send(admin, "post", f"/runs/{run_id}/rerun", {"reason": "to see"})
    assert (again.status_code, again.json()["rerun_of"]) == (201, run_id)


def test_a_dead_letter_is_run_again_once(world: World, admin: Client) -> None:
    path = f"/dead-letters/{world.keys['dead-letters']}"
    Run.objects.filter(pk=world.keys["runs"]).update(status="dead", finished_at="2026-01-01T00:00:00Z")
    assert send(admin, "post", f"{path}/redrive", {"from": "start", "data": {"n": 2**60}}).status_code == 201
    assert Run.objects.latest("pk").data_json == '{"n": 1152921504606846976}'
    again = send(admin, "post", f"{path}/redrive")
    assert (again.status_code, again.json()["code"]) == (409, "already_settled")
    assert send(admin, "get", path).json()["status"] == "redriven"


def test_a_dead_letter_is_dismissed_with_a_reason(world: World, admin: Client) -> None:
    path = f"/dead-letters/{world.keys['dead-letters']}/dismiss"
    assert send(admin, "post", path, {"reason": "  "}).status_code == 422
    assert send(admin, "post", path, {"reason": "known"}).json()["status"] == "dismissed"
    assert DeadLetter.objects.get().reason == "known"


def test_the_cause_of_a_dead_letter_is_given_to_who_may_run_it_again(world: World, admin: Client) -> None:
    letter = f"/dead-letters/{world.keys['dead-letters']}"
    roles.grant(User.objects.create_user("olga"), "operator")
    for nobody in ("eve", "", 7):
        assert send(admin, "post", f"{letter}/assign", {"to": nobody}).status_code == 422
    assert send(admin, "post", f"{letter}/assign", {"to": "olga"}).json()["assignee"] == "olga"
    assert [one["assignee"] for one in send(admin, "get", "/dead-letters?assignee=olga").json()["items"]] == ["olga"]
    assert send(admin, "get", "/dead-letters?assignee=/nobody").json()["items"] == []
    assert send(admin, "post", f"{letter}/assign", {"to": None}).json()["assignee"] is None
    assert len(send(admin, "get", "/dead-letters?assignee=/nobody").json()["items"]) == 1


def test_an_event_is_run_again_for_a_named_trigger(world: World, admin: Client) -> None:
    path = f"/events/{world.keys['events']}/run-again"
    assert send(admin, "post", path, {"trigger": "nobody"}).status_code == 422
    assert send(admin, "post", path, {"trigger": "watch"}).status_code == 409
    send(admin, "post", f"/runs/{world.keys['runs']}/cancel")
    assert send(admin, "post", path, {"trigger": "watch"}).status_code == 201


def test_the_switch_pauses_and_opens(world: World, admin: Client) -> None:
    body = {"scope": "handler", "name": "contract-test", "paused": True, "reason": "odd results"}
    assert send(admin, "post", "/switch", body).json()["paused"] is True
    assert Switch.objects.holding(handler="contract-test").exists()
    assert send(admin, "post", "/switch", {**body, "paused": False}).json()["paused"] is False
    assert send(admin, "post", "/switch", {"scope": "all", "name": "x", "paused": True}).status_code == 422
    assert send(admin, "post", "/switch", {"scope": "kind", "paused": True}).status_code == 422


def test_stepping_up_takes_the_password_of_who_is_signed_in(owner: User, sign_in: Any, with_token: Any) -> None:
    client = sign_in(owner)
    assert send(client, "post", "/step-up", {"password": "wrong"}).json()["code"] == "not_confirmed"
    assert not Proof.objects.exists()
    assert send(client, "post", "/step-up", {"password": PASSWORD}).status_code == 204
    assert Proof.objects.get().user == owner
    token = with_token(owner, "read", "configure")
    assert send(token, "post", "/step-up", {"password": PASSWORD}).status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b'{"scope": "all", "paused": NaN}', 400),
        (b'{"scope": "all", "paused": true, "reason": "\\u0000"}', 400),
        (b'{"scope": "all", "paused": true, "reason": "\\ud800"}', 400),
        (b"[" * 2000, 400),
        (b"[]", 422),
        (b'"text"', 422),
        (b"null", 422),
        (b"", 422),
        (b"\xff\xfe", 400),
    ],
)
def test_a_body_that_cannot_be_read_is_the_callers_fault(admin: Client, body: bytes, status: int) -> None:
    response = admin.post(f"{API}/switch", body, content_type="application/json")
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"


def test_a_refused_delivery_is_taken_in_when_it_proves_itself_after_all(world: World, admin: Client) -> None:
    """The secret was entered late: what came before is checked again, once."""
    body = json.dumps({"action": "opened", "issue": {"number": 7}}).encode()
    signature = hmac.new(builders.SECRET.encode(), body, "sha256").hexdigest()
    headers = {"content-type": "application/json", "x-github-event": "issues", "x-github-delivery": "d-1"}
    row = Refusal.objects.get(pk=world.keys["refusals"])
    path = f"/sources/github/refusals/{row.pk}"
    Refusal.objects.filter(pk=row.pk).update(body=body, digest=hashlib.sha256(body).hexdigest(), headers=headers)
    assert send(admin, "post", f"{path}/admit").status_code == 422
    Refusal.objects.filter(pk=row.pk).update(headers={**headers, "x-hub-signature-256": f"sha256={signature}"})
    taken = send(admin, "post", f"{path}/admit")
    assert taken.status_code == 200, taken.content
    assert [event["status"] for event in taken.json()["events"]] == ["accepted"]
    listed = send(admin, "get", "/sources/github/refusals").json()["items"][0]
    assert (listed["event"], listed["admitted_at"] is not None) == (taken.json()["events"][0]["seq"], True)
    assert send(admin, "post", f"{path}/admit").status_code == 422
