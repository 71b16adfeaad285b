"""Every operation of the API and everybody who might call it: 401, 403 or let in, and a refusal is always a problem."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from project.api import api
from project.lib import egress
from project.people import roles
from project.people.auth import ROLES, SCOPES
from project.people.models import SCOPES as ALL_SCOPES
from project.people.models import User
from tests.conftest import PASSWORD, person
from tests.contract.world import API, OPERATIONS, Operation, World, send
from tests.dump import differences, everything

ABLE = {role: {ability for ability, held in roles.ABILITIES.items() if role in held} for role in roles.ROLES}
SignIn = Callable[[User], Client]
WithToken = Callable[..., Client]

IN_PERSON = ("/step-up", "/actions/{id}/outcome")  # a service never does these, whatever its scopes


def wanted_by(operation: Operation) -> set[str]:
    """Any of these abilities opens it."""
    return {"operate" if ability in ROLES else ability for ability in operation.who.split()}


every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


def test_the_list_of_operations_is_complete() -> None:
    paths = api.get_openapi_schema(path_prefix=f"{API}/")["paths"]
    offered = {f"{method.upper()} {path.removeprefix(API)}" for path, item in paths.items() for method in item}
    assert offered == {operation.name for operation in OPERATIONS}


def is_problem(response: Any, status: int) -> bool:
    body = response.json()
    assert response.status_code == status, body
    assert response["Content-Type"] == "application/problem+json"
    assert body["status"] == status
    assert body["type"] == f"/problems/{body['code']}"
    assert body["title"]
    assert body["detail"]
    return True


@every_operation
def test_nobody_is_let_in_without_a_name(world: World, operation: Operation, client: Client) -> None:
    response = send(client, operation, world)
    assert is_problem(response, 401)
    assert response["WWW-Authenticate"].startswith("Bearer")
    assert is_problem(send(Client(headers={"authorization": "Bearer nd_wrong"}), operation, world), 401)


@every_operation
def test_a_person_without_a_role_is_known_but_not_allowed(
    world: World, operation: Operation, eve: User, sign_in: SignIn
) -> None:
    assert is_problem(send(sign_in(eve), operation, world), 403)


def test_what_the_desk_says_of_itself_to_tokens_is_for_those_who_may_read_in_the_api(
    ann: User, eve: User, with_token: WithToken
) -> None:
    def told(client: Client) -> tuple[int, bool]:
        far = {"REMOTE_ADDR": "203.0.113.9"}
        return client.get("/metrics", **far).status_code, "problems" in client.get("/readyz", **far).json()

    assert told(with_token(ann, "read")) == told(with_token("scraper", "read")) == (200, True)
    assert told(with_token(eve, "read")) == told(with_token(ann, "ingest")) == told(Client()) == (401, False)
    ann.is_active = False
    ann.save()
    assert told(with_token(ann, "read")) == (401, False)


@every_operation
@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_opens_what_it_should_and_nothing_else(
    world: World, operation: Operation, role: str, sign_in: SignIn
) -> None:
    client = sign_in(person(f"the-{role}", role))
    if operation.fresh:
        client.post(f"{API}/step-up", {"password": PASSWORD}, content_type="application/json")
    response = send(client, operation, world)
    if wanted_by(operation) & ABLE[role]:
        assert response.status_code != 401
        assert response.status_code != 403 or "needs" not in response.json()
        assert response.status_code < 500
    else:
        assert is_problem(response, 403)


@every_operation
def test_a_token_without_the_scope_is_refused(
    world: World, operation: Operation, owner: User, with_token: WithToken
) -> None:
    needed = {SCOPES[ability] for ability in operation.who.split()}
    others = [scope for scope in ALL_SCOPES if scope not in needed and scope != "propose"]
    if operation.path.startswith("/actions/") and operation.method == "GET":
        others.remove("decide")  # who decides reads what he decides
    assert is_problem(send(with_token(owner, *others), operation, world), 403)


@every_operation
def test_a_service_never_decides_and_never_configures(
    world: World, operation: Operation, with_token: WithToken
) -> None:
    response = send(with_token("robot", *ALL_SCOPES), operation, world)
    people_only = {"decide", "configure"} & set(operation.who.split()) or operation.path in IN_PERSON
    assert (response.status_code == 403) is bool(people_only)
    assert response.status_code != 401


def test_whoever_is_refused_changes_nothing_and_has_nobody_called(
    world: World, eve: User, sign_in: SignIn, with_token: WithToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every role, in person and by a token of all scopes, which never may more than its person."""
    people = {role: person(f"the-{role}", role) for role in roles.ROLES}
    callers = [
        (role, caller) for role, who in people.items() for caller in (sign_in(who), with_token(who, *ALL_SCOPES))
    ]
    callers += [("", sign_in(eve)), ("", with_token(eve, *ALL_SCOPES)), ("", Client())]
    called: list[Any] = []
    monkeypatch.setattr(egress.Session, "call", lambda *given, **more: called.append(given))
    before = everything()
    for role, caller in callers:
        for operation in OPERATIONS:
            if not wanted_by(operation) & ABLE.get(role, set()):
                assert send(caller, operation, world).status_code in (401, 403), (role, operation.name)
    noted = {"people.ApiToken", "axes.AccessAttempt"}  # when a token was used, and who guesses a password
    assert differences(before, everything()).keys() <= noted
    assert called == []


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.fresh], ids=lambda operation: operation.name)
def test_connections_are_changed_in_person_and_freshly_signed_in(
    world: World, operation: Operation, owner: User, sign_in: SignIn, with_token: WithToken
) -> None:
    assert send(with_token(owner, *ALL_SCOPES), operation, world).json()["code"] == "forbidden"
    assert send(sign_in(owner), operation, world).json()["code"] == "step_up_required"


def test_the_token_of_somebody_who_left_opens_nothing(ann: User, with_token: WithToken) -> None:
    client = with_token(ann, "read")
    assert client.get(f"{API}/events").status_code == 200
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert client.get(f"{API}/events").status_code == 401


def test_a_revoked_token_opens_nothing(ann: User, with_token: WithToken) -> None:
    client = with_token(ann, "read")
    token = ann.tokens.get()
    token.revoked_at = token.created_at
    token.save()
    assert client.get(f"{API}/events").status_code == 401


def test_a_browser_must_send_the_csrf_token_of_its_page(world: World, ann: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ann, backend="django.contrib.auth.backends.ModelBackend")
    assert client.get(f"{API}/runs").status_code == 200
    response = client.post(f"{API}/switch", {"scope": "all", "paused": True}, content_type="application/json")
    assert is_problem(response, 403)
    assert response.json()["code"] == "csrf_failed"


def test_the_first_password_is_changed_before_anything_else(ann: User, sign_in: SignIn) -> None:
    User.objects.filter(pk=ann.pk).update(must_change_password=True)
    assert sign_in(ann).get(f"{API}/events").status_code == 403


def test_an_unknown_address_is_a_problem_too(client: Client) -> None:
    assert is_problem(client.get(f"{API}/nothing/here"), 404)


def test_an_unknown_method_is_a_problem_too(client: Client) -> None:
    response = client.put(f"{API}/events")
    assert is_problem(response, 405)
    assert "GET" in response["Allow"]


@pytest.mark.django_db
def test_the_page_of_the_api_says_how_a_refusal_looks(client: Client) -> None:
    page = client.get(f"{API}/openapi.json").json()
    for item in page["paths"].values():
        for operation in item.values():
            assert "application/problem+json" in operation["responses"]["default"]["content"]
    assert client.get(f"{API}/docs").status_code == 200
