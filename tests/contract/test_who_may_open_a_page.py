"""Every page and form, every verb, every role, tokens too: who is let in. The tables are the promise."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from project.people import roles
from project.people.models import SCOPES, User
from tests.conftest import PASSWORD, person
from tests.contract.world import World
from tests.house.test_pages import ALL, FOR_EVERYBODY, OPEN

SignIn = Callable[[User], Client]
ABLE = {role: {ability for ability, held in roles.ABILITIES.items() if role in held} for role in roles.ROLES}

# To look: the abilities that open a page (any of them); what is not here any role may see.
LOOK = {
    "audit-export": "payloads decide",
    "bulk-new": "operate",
    "checks": "operate configure",
    "connection-new": "configure",
    "dead-letter-edit": "operate",
    "event-raw": "payloads",
    "habits": "configure",
    "policy-archive": "configure",
    "policy-new": "configure",
    "source-fit": "configure",
    "source-new": "configure",
    "source-secret": "configure",
    "trigger-new": "configure",
}
# To send its form: the abilities that open it; `own`: one's own account; `row`: the door asks who it is about, and its
# own tests say whom it lets in. What is not here takes no form.
SEND = {
    **dict.fromkeys(("authenticator", "settings", "zone", "sign-in", "sign-out", "step-up", "password-change"), "own"),
    **dict.fromkeys(("tokens", "token-revoke", "notifications", "hours"), "own"),
    **dict.fromkeys(("channel-code", "channel-remove", "channel-test"), "own"),
    **dict.fromkeys(("together", "action-edit", "cancel-action", "take-back", "review", "event-type"), "row"),
    "decide": "decide",
    **dict.fromkeys(("agents", "agent-archive"), "configure"),
    **dict.fromkeys(("bulk", "bulk-cancel", "bulk-pause", "bulk-resume"), "operate"),
    **dict.fromkeys(("breaker-close", "dead-letter-dismiss", "dead-letter-edit", "dead-letter-redrive"), "operate"),
    "cause-assign": "operate",
    **dict.fromkeys(("event-pin", "event-unpin", "event-run-again", "outcome", "refusal-admit"), "operate"),
    **dict.fromkeys(("run-again", "run-cancel", "run-unblock", "send-test", "source-ring", "source-test"), "operate"),
    **dict.fromkeys(("source-backfill", "switch", "switch-resume"), "operate"),
    "source-try": "configure",
    **dict.fromkeys(("connection-archive", "connection-edit", "connection-new", "freeze-lift", "freezes"), "configure"),
    **dict.fromkeys(("policy-archive", "policy-change", "policy-edit", "policy-new", "team", "teams"), "configure"),
    **dict.fromkeys(("source-archive", "source-edit", "source-fit", "source-new", "source-secret"), "configure"),
    "source-secret-end": "configure",
    **dict.fromkeys(("source-switch", "trigger-archive", "trigger-edit", "trigger-new", "trigger-switch"), "configure"),
}
BEYOND = ("sign-in", "sign-out", "metrics", "readyz", "go")  # have rules of their own
PAGES = [(path, name) for path, name in ALL if name not in BEYOND]


def filled(path: str, world: World) -> str:
    """With the rows of the world in place of the sample numbers and names."""
    parts = path.split("/")
    for at, part in enumerate(parts[1:], start=1):
        if part in ("1", "github") and parts[at - 1] in world.keys:
            parts[at] = str(world.keys[parts[at - 1]])
    return "/".join(parts)


def opens(wanted: str, role: str) -> bool:
    return wanted in ("own", "row") or bool(set(wanted.split()) & ABLE[role])


@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_sees_what_it_should_and_nothing_else(world: World, role: str, sign_in: SignIn) -> None:
    client = sign_in(person(f"the-{role}", role))
    for path, name in PAGES:
        status = client.get(filled(path, world)).status_code
        assert (status == 403) is not opens(LOOK.get(name, "view"), role), (name, status)
        assert status < 500, (name, status)


@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_sends_what_it_should_and_nothing_else(world: World, role: str, sign_in: SignIn) -> None:
    client = sign_in(person(f"the-{role}", role))
    client.post("/step-up", {"password": PASSWORD, "next": "/"})
    wrong = {}
    for path, name in PAGES:
        status, wanted = client.post(filled(path, world)).status_code, SEND.get(name)
        fits = status == 405 if wanted is None else wanted == "row" or (status == 403) is not opens(wanted, role)
        if not fits or status >= 500:
            wrong[name] = status
    assert wrong == {}


def test_the_tables_name_no_page_that_is_gone() -> None:
    assert {*LOOK, *SEND} <= {name for _, name in ALL}


def test_no_other_verb_does_anything(world: World, owner: User, sign_in: SignIn) -> None:
    client = sign_in(owner)
    for path, name in PAGES:
        for verb in ("PUT", "PATCH", "DELETE", "PROPFIND"):
            assert client.generic(verb, filled(path, world)).status_code == 405, (name, verb)


def test_a_token_opens_no_page_whatever_it_may(world: World, owner: User, with_token: Callable[..., Client]) -> None:
    for client in (with_token(owner, *SCOPES), with_token("robot", *SCOPES)):
        for path, name in PAGES:
            for answer in (client.get(filled(path, world)), client.post(filled(path, world))):
                closed = answer.status_code in (401, 403, 405) or answer["location"].startswith("/sign-in")
                assert closed or name in OPEN, (name, answer.status_code)


def test_who_has_no_role_sees_his_own_account_and_nothing_else(world: World, eve: User, sign_in: SignIn) -> None:
    client: Any = sign_in(eve)
    for path, name in PAGES:
        for answer in (client.get(filled(path, world)), client.post(filled(path, world))):
            assert answer.status_code in (403, 405) or name in FOR_EVERYBODY, (name, answer.status_code)
