"""The switch in the browser: an operator stops everything, one kind, handler or source, at once, and lets it go on."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from approvals import deliver
from approvals.act import act
from approvals.kinds import KINDS
from approvals.models import Action, Connection
from project.lib import clock
from project.people.models import User
from tests import builders
from tests.approvals.test_pages import text_of
from tests.contract.world import API
from tests.handlers import work
from tests.nodding import Shop, handling, say, serving, settle
from triggers import pausing
from triggers.durable import Durable
from triggers.models import Audit, Run, Switch
from triggers.registry import HANDLERS

pytestmark = pytest.mark.django_db


@pytest.fixture
def shop(connection: Connection) -> Iterator[Shop]:
    with serving() as shop, handling(lambda run: act(run, "order", kind="shop.order")):
        yield shop


@pytest.fixture
def approved(shop: Shop, ben: User) -> Action:
    builders.source("github")
    builders.run("story")
    work()
    say(Action.objects.get(), ben)
    return Action.objects.get()


SWITCHES = {"all": "all", "kind": "kind shop.order", "handler": "handler story", "source": "source github"}


@pytest.mark.parametrize("scope", Switch.SCOPES)
def test_what_is_approved_does_not_begin_until_it_goes_on(
    scope: str, approved: Action, shop: Shop, ann: User, sign_in: Callable[[User], Client]
) -> None:
    what = SWITCHES[scope]
    operator = sign_in(ann)
    told = operator.post("/switch", {"what": what, "reason": "wrong prices"}, follow=True)
    assert f"{what} stopped by ann" in text_of(told)
    assert "wrong prices" in text_of(told)
    settle()
    assert shop.sent == []
    assert deliver.deliver(approved.pk), "also where it is asked for by a message"
    assert shop.sent == []
    assert f"The switch “{what}” holds it back" in text_of(operator.get(f"/actions/{approved.pk}"))
    assert Audit.objects.filter(verb="pause", by=ann).count() == 1
    operator.post(f"/switch/{Switch.objects.get().pk}/resume")
    settle()
    assert len(shop.sent) == 1
    assert "Nothing is stopped" in text_of(operator.get("/freezes"))


@pytest.mark.parametrize("scope", Switch.SCOPES)
def test_what_a_switch_does_not_name_goes_on(scope: str, approved: Action, shop: Shop) -> None:
    name = {"kind": "external.deploy", "handler": "notify", "source": "/approvals"}.get(scope)
    if name:
        Switch.objects.create(scope=scope, name=name, paused=True, at=clock.now())
    settle()
    assert len(shop.sent) == 1


@pytest.mark.parametrize("scope", [scope for scope in Switch.SCOPES if scope != "kind"])  # a run is of no kind
def test_a_run_at_work_begins_no_further_step(scope: str, connection: Connection) -> None:
    scope, _, name = SWITCHES[scope].partition(" ")
    done: list[str] = []

    def story(run: Durable) -> None:
        run.step("one", lambda: pausing.pause(scope, name, by=None).pk)
        run.step("two", done.append, "two")

    with handling(story):
        builders.source("github")
        builders.run("story")
        work()
        assert (Run.objects.get().status, done) == ("queued", [])
        pausing.resume(scope, name, by=None)
        work()
    assert (Run.objects.get().status, done) == ("succeeded", ["two"])


def test_a_name_that_is_none_stops_nothing_and_says_so(
    shop: Shop, ann: User, sign_in: Callable[[User], Client]
) -> None:
    told = sign_in(ann).post("/switch", {"what": "kind shop.oder"}, follow=True)
    assert "Nothing was stopped" in text_of(told)
    assert not Switch.objects.exists()


@pytest.mark.parametrize("what", ["kind shop.oder", "kind external.", "handler stroy", "source githbu"])
def test_a_misspelt_name_is_refused_by_the_api_and_the_command_too(
    what: str, shop: Shop, ann: User, with_token: Any
) -> None:
    scope, _, name = what.partition(" ")
    for paused in (True, False):
        body = {"scope": scope, "name": name, "paused": paused}
        answer = with_token(ann, "operate").post(f"{API}/switch", body, content_type="application/json")
        assert (answer.status_code, answer.json().get("field")) == (422, "name")
    with pytest.raises(CommandError, match="There is no"):
        call_command("switch", scope, name, "--pause")
    assert not Switch.objects.exists()


def test_what_has_no_code_any_more_can_still_be_stopped(approved: Action, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as gone:  # and there again before their fixtures end
        gone.delitem(HANDLERS, "story")
        gone.delitem(KINDS, "shop.order")
        for what in ("handler story", "kind shop.order", "kind external.deploy", "source /approvals"):
            assert pausing.pause(*what.split(" "), by=None).paused
        assert pausing.resume("handler", "story", by=None).paused is False


@pytest.mark.parametrize(("status", "is_offered"), [("awaiting", True), ("rejected", False)])
def test_what_only_a_program_outside_does_is_offered_while_it_waits(
    ann: User, sign_in: Callable[[User], Client], status: str, is_offered: bool
) -> None:
    given = {"decided_at": clock.now(), "settled_at": clock.now()} if status == "rejected" else {}
    builders.action("external.deploy", by=ann, tier="high", status=status, **given)
    page = sign_in(ann).get("/freezes").content.decode()
    assert ('value="kind external.deploy"' in page) == is_offered


def test_a_handler_without_code_is_offered_while_a_run_of_it_waits(
    ann: User, sign_in: Callable[[User], Client]
) -> None:
    builders.run("gone")
    assert 'value="handler gone"' in sign_in(ann).get("/freezes").content.decode()


def test_every_page_leads_to_where_everything_goes_on_again(ann: User, sign_in: Callable[[User], Client]) -> None:
    operator = sign_in(ann)
    operator.post("/switch", {"what": "all"})
    assert 'href="/freezes">Let it go on' in operator.get("/approvals").content.decode()


def test_who_may_not_operate_reads_it_and_stops_nothing(ben: User, sign_in: Callable[[User], Client]) -> None:
    assert "Operators stop things" in text_of(sign_in(ben).get("/freezes"))
    assert sign_in(ben).post("/switch", {"what": "all"}).status_code == 403
