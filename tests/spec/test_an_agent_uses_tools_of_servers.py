"""Tools of an MCP server: what looks runs, what changes something waits for its nod with these very arguments."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from approvals.clearing import settle_unknown
from approvals.errors import NotValid
from approvals.kinds import KINDS
from approvals.models import Action, Connection
from approvals.reach import check_connection
from project import env
from project.lib import crypto
from tests import builders, scripted_mcp
from tests.agent_runs import Playing, actions, stage, start, trigger_of
from tests.agents import agent, ask
from tests.nodding import now_of, say, settle
from tests.scripted_mcp import Tools
from tests.scripted_model import calls, fails, says
from triggers.models import Run, Step

pytestmark = pytest.mark.django_db
TIERS = ["find: read", "order: medium"]
ORDER = ("mcp_order_shop", {"item": "tea", "cups": 2})
Serving = Callable[..., Tools]


@pytest.fixture
def playing(settings) -> Iterator[Playing]:
    with stage(settings) as play:
        yield play


@pytest.fixture
def server(settings) -> Iterator[Tools]:
    settings.EGRESS_ALLOW = ["127.0.0.1"]
    with scripted_mcp.serving() as tools:
        connect(url=tools.url)
        yield tools


def connect(**config: Any) -> Connection:
    secrets = {"Authorization": "Bearer only-for-tests"} if "url" in config else None
    return builders.connection(
        "mcp", slug="shop", practice=False, config={"tools": TIERS, **config}, sealed_secrets=crypto.seal(secrets)
    )


@pytest.fixture
def nod(later: Callable[..., None]) -> Callable[..., None]:
    """A yes, and what comes of it once it can be taken back no more."""

    def say_yes(action: Action, by: Any) -> None:
        say(action, by)
        later(seconds=11)
        settle()

    return say_yes


def begin(**config: Any) -> Run:
    return start(tools=["mcp@shop"], **config)


def test_all_its_tools_are_offered_with_their_schemas_and_a_look_needs_no_nod(server, playing):
    model = playing(calls(("mcp_find_shop", {"word": "tea"})), says("3 left"))
    run = begin()
    assert (run.status, server.called, actions()) == ("succeeded", [("find", "tea")], [])
    offered = {tool["function"]["name"]: tool["function"] for tool in model.asked[0]["tools"]}
    assert sorted(offered) == ["mcp_close_shop_shop", "mcp_find_shop", "mcp_order_shop"]
    assert offered["mcp_order_shop"]["parameters"]["required"] == ["item"]
    assert model.results()["c1"] == {
        "done": True,
        "result": {"text": "tea: 3 left", "data": {"result": "tea: 3 left"}},
    }
    assert server.headers[0]["authorization"] == "Bearer only-for-tests"
    assert "only-for-tests" not in str(list(Step.objects.values_list("result_json", flat=True)))


def test_what_changes_something_waits_with_these_arguments(server, playing, ben, nod):
    model = playing(calls(ORDER), says("done"))
    run = begin()
    [action] = actions()
    assert (run.status, action.kind, action.tier, action.title) == ("waiting", "mcp.call", "medium", "Call order")
    asked = {"tool": "order", "arguments": {"item": "tea", "cups": 2}, "tier": "medium"}
    assert (action.arguments, server.called) == (asked, [])
    nod(action, ben)
    assert (now_of(run).status, server.called) == ("succeeded", [("order", ("tea", 2))])
    assert model.results()["c1"]["result"]["text"] == "ordered 2 tea"


def test_what_nobody_judged_is_high(server, playing, ben):
    playing(calls(("mcp_close_shop_shop", {})), says("done"))
    begin()
    [action] = actions()
    assert (action.tier, server.called) == ("high", [])


def test_a_low_one_happens_at_once(server, playing):
    Connection.objects.update(config={"url": server.url, "tools": ["order: low"]})
    playing(calls(ORDER), says("done"))
    assert (begin().status, len(server.called), actions()[0].tier) == ("succeeded", 1, "low")


def test_one_that_is_riskier_by_now_is_asked_as_such(server, playing, later):
    Connection.objects.update(config={"url": server.url, "tools": ["order: read"]})

    playing(fails(503), calls(ORDER), says("done"))
    begin()
    Connection.objects.update(config={"url": server.url, "tools": ["order: high"]})
    later(minutes=1)
    settle()
    assert ([action.tier for action in actions()], server.called) == (["high"], [])


def test_one_alone_may_be_chosen_and_what_is_not_offered_is_no_tool(server, playing):
    model = playing(calls(ORDER), says("done"))
    start(tools=["mcp.find@shop"])
    assert [tool["function"]["name"] for tool in model.asked[0]["tools"]] == ["mcp_find_shop"]
    assert (actions(), server.called) == ([], [])


def test_its_list_is_a_part_of_the_version_and_a_change_counts_for_the_next_run(server, playing):
    playing(says("done"))
    trigger = trigger_of(tools=["mcp@shop"])
    before = start(trigger=trigger).result["version"]
    assert start(trigger=trigger).result["version"] == before
    Connection.objects.update(config={"url": server.url, "tools": ["order: low"]})
    assert start(trigger=trigger).result["version"] != before


def test_arguments_that_do_not_fit_its_schema_are_never_sent(server, playing):
    model = playing(calls(("mcp_find_shop", {"wort": "tea"})), says("done"))
    assert begin().status == "succeeded"
    assert server.called == []
    assert "word" in model.results()["c1"]["why"]


def test_one_that_fails_may_have_acted_first_and_a_person_says_what_came_of_it(server, playing, ann, ben, nod):
    server.faults.append("fail")
    model = playing(calls(ORDER), says("done"))
    run = begin()
    nod(actions()[0], ben)
    [action] = actions()
    assert (action.status, now_of(run).status, len(model.asked)) == ("unknown", "waiting", 1)
    assert "no tea today" in action.error["message"]
    settle_unknown(action, by=ann, status="failed", note="they wrote: no tea today")
    settle()
    assert (now_of(run).status, len(server.called)) == ("succeeded", 1)
    assert "may have happened all the same. they wrote: no tea today" in model.results()["c1"]["why"]


def test_one_that_only_looks_and_fails_is_told_to_the_model(server, playing):
    server.faults.append("fail")
    Connection.objects.update(config={"url": server.url, "tools": ["order: read"]})
    model = playing(calls(ORDER), says("done"))
    assert begin().status == "succeeded"
    assert "no tea today" in model.results()["c1"]["why"]


@pytest.mark.django_db(transaction=True)
def test_one_that_does_not_answer_is_unknown_and_never_called_again(server, playing, ben, monkeypatch, nod):
    server.faults.append("hang")
    playing(calls(ORDER), says("done"))
    begin()
    monkeypatch.setitem(KINDS, "mcp.call", replace(KINDS["mcp.call"], timeout=timedelta(seconds=1)))
    nod(actions()[0], ben)
    settle()
    assert (Action.objects.get().status, len(server.called)) == ("unknown", 1)


def test_a_server_that_is_away_is_the_runs_failure_with_its_tries(playing, settings):
    settings.EGRESS_ALLOW = ["127.0.0.1"]
    connect(url="http://127.0.0.1:9/mcp")
    model = playing(says("done"))
    run = begin()
    assert (run.status, run.error["type"], model.asked) == ("retrying", "NotSent", [])


def test_no_address_is_called_that_the_guard_forbids(server, playing, settings):
    settings.EGRESS_ALLOW = []
    model = playing(says("done"))
    assert begin().error["type"] == "NotSent"
    assert "EGRESS_ALLOW" in Run.objects.get().error["message"]
    assert (server.headers, model.asked) == ([], [])


def test_a_command_that_the_operator_does_not_list_is_not_started(playing):
    connect(command="shop")
    model = playing(says("done"))
    assert (begin().error["type"], model.asked) == ("Refused", [])


@pytest.mark.django_db(transaction=True)  # to start it takes a second, and then another thread writes that down
def test_one_that_he_lists_is_spoken_with_over_its_input_and_output(playing, settings):
    settings.MCP_COMMANDS = {"shop": f"{sys.executable} -m tests.scripted_mcp"}
    connect(command="shop")
    model = playing(calls(("mcp_find_shop", {"word": "tea"})), says("done"))
    assert begin().status == "succeeded"
    assert model.results()["c1"]["result"]["text"] == "tea: 3 left"


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "url"),
        ({"url": "https://mcp.example.org/mcp", "command": "shop"}, "url"),
        ({"command": "rm"}, "command"),
        ({"url": "https://mcp.example.org/mcp", "tools": ["order"]}, "tools"),
        ({"url": "https://mcp.example.org/mcp", "tools": ["order: harmless"]}, "tools"),
        ({"url": "http://127.0.0.1/mcp"}, "url"),
    ],
)
def test_a_connection_that_leads_nowhere_is_not_saved(config, field, settings):
    settings.MCP_COMMANDS = {"shop": "shop-server"}
    with pytest.raises(NotValid) as refused:
        check_connection("mcp", config, {}, practice=False)
    assert refused.value.facts["field"] == field


def test_nobody_outside_asks_for_less_than_the_connection_says(server, owner):
    answer = ask(agent(owner), kind="mcp.call", arguments={"tool": "order", "arguments": {}, "tier": "low"})
    assert answer.status_code == 422
    assert not Action.objects.exists()


def test_the_operators_list_is_read_or_stops_the_start(monkeypatch):
    monkeypatch.setenv("MCP_COMMANDS", "files=npx -y files '/my data'; shop = shop-server ;")
    assert env.commands("MCP_COMMANDS") == {"files": "npx -y files '/my data'", "shop": "shop-server"}
    for wrong in ("files", "files=", "my files=ls", "files='ls"):
        monkeypatch.setenv("MCP_COMMANDS", wrong)
        with pytest.raises(env.BadSetting):
            env.commands("MCP_COMMANDS")


def test_without_the_library_it_says_what_to_install(server, playing, monkeypatch):
    monkeypatch.delitem(sys.modules, "project.lib.mcp_client", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    model = playing(says("done"))
    run = begin()
    assert (run.error["type"], model.asked) == ("Refused", [])
    assert "pip install" in run.error["message"]
