"""A headline is made of arguments: on every page, in every list, table and answer it is for those who may read them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from approvals import decide
from approvals.models import Action, PracticeItem, Review
from project.lib import clock
from project.people import roles
from project.people.models import User
from tests import builders
from tests.conftest import person
from tests.contract.test_who_may_open_a_page import PAGES, filled
from tests.contract.world import API, OPERATIONS, World
from tests.nodding import now_of, say
from triggers import sealing

SignIn = Callable[[User], Client]
SECRET = "DE02120300000000202051"
LISTS = ("/find?q=DE0212", "/find?q=A-1", "/actions?format=csv", "/audit?format=csv", "/approvals?tab=decided", "/done")


@pytest.fixture
def rows(world: World, ann: User, ben: User, connection: Any) -> World:
    """Actions in many states, each with an account number above its card."""
    run = builders.run("contract-test")
    files = [{"path": "a", "content": "b"}]
    given = {"repo": "acme/shop", "title": SECRET, "body": "", "base": "main", "files": files}
    told: dict[str, Any] = {"arguments": given, "by": ann}
    now = clock.now()
    waiting = builders.action(**told, run=run)
    Action.objects.filter(pk=world.keys["actions"]).update(title=f"Pay {SECRET}")
    for status in ("unknown", "delivered", "expired", "failed"):
        builders.action(**told, run=run, status=status, settled_at=now, decided_at=now, connection=connection)
    held = {"tier": "low", "status": "approved", "not_before": now + timedelta(hours=1)}
    builders.action(**told, **held)
    looked = builders.action(**told, tier="low", status="delivered", settled_at=now)
    Review.objects.create(action=looked, drawn_at=now)
    PracticeItem.objects.create(
        kind="github.create_pr", title=f"Pay {SECRET}", key="k", connection=connection, action_id=looked.pk, at=now
    )
    say(waiting, ben)
    decide.take_back(now_of(waiting), by=ben)
    say(builders.action(**told), ben, "reject")
    sealing.seal()
    return world


def text_of(response: Any) -> str:
    whole = b"".join(response.streaming_content) if response.streaming else response.content
    return str(whole.decode())


def addresses(world: World) -> list[str]:
    numbers = Action.objects.values_list("pk", flat=True)
    own = [f"/actions/{pk}" for pk in numbers] + [f"/find?q=A-{pk}" for pk in numbers]
    pages = [filled(path, world) for path, _ in PAGES]
    asked = [world.address(one) for one in OPERATIONS if one.method == "GET"]
    return [*pages, *own, *LISTS, *asked, *(f"{API}/actions/{pk}" for pk in numbers), f"{API}/actions?format=csv"]


def test_a_viewer_reads_it_nowhere(rows: World, sign_in: SignIn) -> None:
    vera = sign_in(person("vera", roles.VIEWER))
    seen = [address for address in addresses(rows) if SECRET in text_of(vera.get(address))]
    assert [address for address in seen if "/find?q=DE0212" not in address] == []
    assert "A-" not in text_of(vera.get("/find?q=DE0212")).partition("<main")[2].partition("</main")[0]


def test_a_token_that_only_reads_does_not_either(rows: World, with_token: Callable[..., Client]) -> None:
    client = with_token("watcher", "read")
    asked = [rows.address(one) for one in OPERATIONS if one.method == "GET"]
    assert [address for address in asked if SECRET in text_of(client.get(address))] == []


@pytest.mark.parametrize("role", [roles.OPERATOR, roles.REVIEWER])
def test_who_may_read_arguments_reads_it_in_the_lists(rows: World, sign_in: SignIn, role: str) -> None:
    client = sign_in(person("otto", role))
    for address in ("/actions", "/find?q=DE0212", f"{API}/actions", "/done", "/practice", "/audit?format=csv"):
        assert SECRET in text_of(client.get(address)), address
    assert SECRET in text_of(client.get("/audit/export"))


def test_who_asked_reads_what_he_asked_for(rows: World, ann: User, sign_in: SignIn) -> None:
    ann.groups.clear()
    roles.grant(ann, roles.VIEWER)
    assert SECRET in text_of(sign_in(ann).get("/actions"))


def test_the_log_as_it_was_sealed_is_for_those_who_may_read_it(rows: World, sign_in: SignIn) -> None:
    vera = sign_in(person("vera", roles.VIEWER))
    assert vera.get("/audit/export").status_code == 403
    assert "/audit/export" not in text_of(vera.get("/audit"))
