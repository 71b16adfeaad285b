"""An MCP server promises nothing: whatever it answers, an effect in doubt stays in doubt, and the run goes on."""

from typing import Any

import pytest

from approvals.connect import archive_connection, change_connection
from approvals.errors import Changed, StepUpRequired
from approvals.models import Action, Connection
from project.people.models import User
from tests import builders
from tests.agent_runs import Playing, actions, stage, start
from tests.agents import agent, ask
from tests.nodding import carry_out, now_of, say, settle
from tests.scripted_model import calls, fails, says
from tests.strange_mcp import offer, serving

pytestmark = pytest.mark.django_db
CALL = ("mcp_pay_shop", {})
TEXT = [{"type": "text", "text": "paid"}]


@pytest.fixture
def playing(settings):
    settings.EGRESS_ALLOW = ["127.0.0.1"]
    with stage(settings) as play:
        yield play


def connect(url: str, tier: str) -> Connection:
    return builders.connection("mcp", slug="shop", practice=False, config={"url": url, "tools": [f"pay: {tier}"]})


def asked(playing: Playing, answer: Any, tier: str = "low", **more: Any) -> Any:
    """The run of an agent that called once, and the model's view of it."""
    with serving([offer("pay")], answer, **more) as url:
        connect(url, tier)
        model = playing(calls(CALL), says("done"))
        run = start(tools=["mcp@shop"])
    return run, model


IN_DOUBT = {
    "no JSON": b"zzzz",
    "half of it": b'{"jsonrpc": "2.0", "id"',
    "no shape": {},
    "hung up": None,
    "broke inside": -32603,
    "took no such arguments": -32602,
    "knows no such method": -32601,
    "wants a page first": -32042,
    "failed": {"content": [{"type": "text", "text": "receipt: no"}], "isError": True},
    "calls the tool unknown": {"content": [{"type": "text", "text": "Unknown tool: pay"}], "isError": True},
    "an error of its own": -32099,
    "too long": {"content": TEXT, "structuredContent": {"a": "x" * 9_000_000}},
    "half a sign": {"content": [{"type": "text", "text": "a \ud83c"}]},
}


@pytest.mark.parametrize("answer", IN_DOUBT.values(), ids=IN_DOUBT)
def test_an_answer_that_says_nothing_leaves_the_effect_in_doubt(playing, answer):
    run, model = asked(playing, answer)
    assert ([action.status for action in actions()], run.status, model.paid) == (["unknown"], "waiting", 1)


@pytest.mark.parametrize("headers", [{"content-type": "text/html"}, {"content-encoding": "gzip"}], ids=str)
def test_nor_does_one_of_another_form(playing, headers):
    run, _ = asked(playing, b"zzzz", headers=headers)
    assert (actions()[0].status, run.status) == ("unknown", "waiting")


def test_what_in_doubt_came_of_it_says_a_person_and_its_key_stays_taken(playing, owner):
    """It acted, and fails after that: no program may ask for the same by its key meanwhile."""
    with serving([offer("pay")], IN_DOUBT["failed"]) as url:
        connect(url, "low")
        playing(calls(CALL), says("done"))
        start(tools=["mcp@shop"])
    [action] = actions()
    assert (action.status, action.not_before, action.error["type"]) == ("unknown", None, "OutcomeUnknown")
    assert action.error["message"] == "mcp shop: pay: the tool failed: receipt: no"
    assert Action.objects.all().holding("mcp.call", action.connection, action.key).get() == action


class TestWhatIsNeverSent:
    """What is certain before the call is said at once: no person has to find out what a server did."""

    SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    def refused(self, owner: User, tool: str, arguments: dict[str, Any], *offers: dict[str, Any], **more: Any) -> Any:
        called: list[Any] = []
        with serving(list(offers), {"content": TEXT}, called=called, **more) as url:
            connect(url, "low")
            Connection.objects.update(config={"url": url, "tools": [f"{tool}: low"]})
            wish = {"tool": tool, "arguments": arguments, "tier": "low"}
            assert ask(agent(owner), kind="mcp.call", arguments=wish).status_code == 201
            carry_out()
        [action] = actions()
        return action.status, (action.error or {}).get("message"), called

    def test_a_tool_that_the_server_does_not_offer(self, settings, owner):
        settings.EGRESS_ALLOW = ["127.0.0.1"]
        told = self.refused(owner, "pay", {}, offer("look"))
        assert told == ("failed", "mcp shop: pay: the server offers no such tool", [])

    def test_one_of_a_later_page_is_one_it_offers(self, settings, owner):
        settings.EGRESS_ALLOW = ["127.0.0.1"]
        offers = [offer(f"t{number}") for number in range(250)]
        assert self.refused(owner, "t249", {}, *offers, page=100) == ("delivered", None, ["t249"])

    def test_arguments_that_do_not_fit_its_schema(self, settings, owner):
        settings.EGRESS_ALLOW = ["127.0.0.1"]
        told = self.refused(owner, "pay", {"n": "one"}, offer("pay", self.SCHEMA))
        assert told == ("failed", 'mcp shop: pay: n: "one" is not of type "integer"', [])

    def test_a_schema_that_cannot_be_read_is_left_to_the_server(self, settings, owner):
        settings.EGRESS_ALLOW = ["127.0.0.1"]
        strange = {"type": "object", "$ref": "https://example.org/schema"}
        assert self.refused(owner, "pay", {"n": "one"}, offer("pay", strange)) == ("delivered", None, ["pay"])


@pytest.mark.parametrize("answer", IN_DOUBT.values(), ids=IN_DOUBT)
def test_a_look_that_brings_nothing_is_told_to_the_model(playing, answer):
    run, model = asked(playing, answer, "read")
    assert (run.status, actions(), model.results()["c1"]["done"]) == ("succeeded", [], False)


@pytest.mark.parametrize("tier", ["read", "low"])
def test_what_is_too_long_to_be_kept_is_told_by_its_length(playing, tier):
    run, model = asked(playing, {"content": TEXT, "structuredContent": {"a": "x" * 5_000_000}}, tier)
    assert (run.status, model.results()["c1"]["result"]["text"]) == ("succeeded", "paid")
    assert model.results()["c1"]["result"]["data"] == "(5,000,009 characters, left out)"


def offered(playing: Playing, *tools: dict[str, Any]) -> list[str]:
    with serving(list(tools)) as url:
        connect(url, "low")
        model = playing(says("done"))
        assert start(tools=["mcp@shop"]).status == "succeeded"
    return [tool["function"]["name"] for tool in model.asked[0].get("tools", [])]


def test_tools_that_would_be_called_alike_are_told_apart(playing):
    names = offered(playing, offer("a.b"), offer("a_b"), offer("x" * 100 + "1"), offer("x" * 100 + "2"), offer("c"))
    assert len(set(names)) == 5
    assert all(len(name) <= 64 for name in names)
    assert names[-1] == "mcp_c_shop"


def test_a_schema_that_takes_long_to_read_is_left_out(playing):
    huge = {"type": "object", "properties": {f"{'p' * 1000}{number}": {} for number in range(5000)}}
    assert offered(playing, offer("a"), offer("b", huge)) == ["mcp_a_shop"]


@pytest.mark.usefixtures("high_has_its_rule")
class TestATierThatIsRaisedWhileItWaits:
    @pytest.fixture
    def shop(self):
        with serving([offer("pay")], {"content": TEXT}) as url:
            yield url

    @pytest.fixture
    def raised(self, owner):
        def to(tier: str) -> None:
            row = Connection.objects.get()
            change_connection(row, by=owner, version=row.version, config={**row.config, "tools": [f"pay: {tier}"]})

        return to

    def test_a_yes_by_the_old_one_is_too_little(self, shop, playing, ben, raised, later):
        """Ben's yes was for less: nothing runs, and people are asked again, by the tier of now."""
        connect(shop, "medium")
        playing(calls(CALL), says("done"))
        start(tools=["mcp@shop"])
        say(actions()[0], ben)
        raised("high")
        later(seconds=11)
        settle()
        [action] = actions()
        assert (action.status, action.tier, action.revision) == ("awaiting", "high", 2)
        with pytest.raises(StepUpRequired):
            say(action, ben, reason="seen")

    def test_whoever_reads_it_as_what_it_was_says_nothing(self, shop, playing, ben, raised):
        connect(shop, "medium")
        playing(calls(CALL), says("done"))
        start(tools=["mcp@shop"])
        raised("high")
        with pytest.raises(Changed):
            say(actions()[0], ben)
        assert (actions()[0].tier, actions()[0].revision) == ("high", 2)
        with pytest.raises(StepUpRequired):
            say(actions()[0], ben, reason="seen")
        assert actions()[0].status == "awaiting"

    def test_what_runs_by_itself_and_could_not_be_sent_yet_waits_for_people(self, shop, playing, raised, later):
        row = connect("http://127.0.0.1:9/mcp", "low")
        with serving([offer("pay")]) as here:
            Connection.objects.update(config={**row.config, "url": here})
            playing(fails(503), calls(CALL), says("done"))
            start(tools=["mcp@shop"])
        later(minutes=1)
        settle()
        assert (actions()[0].tier, actions()[0].status) == ("low", "approved"), "nobody answers there any more"
        Connection.objects.update(config={"url": shop, "tools": ["pay: low"]})
        raised("high")
        later(minutes=2)
        settle()
        assert [(action.tier, action.status) for action in actions()] == [("high", "awaiting")]


def test_a_connection_that_changed_ends_no_run_that_waited(playing, ben, owner, later):
    """What it may carry is asked as an action starts, and not when its run is woken."""
    with serving([offer("pay")], {"content": TEXT}) as url:
        row = connect(url, "medium")
        model = playing(calls(CALL), says("done"))
        run = start(tools=["mcp@shop"])
        say(actions()[0], ben)
        later(seconds=11)
        carry_out()
        assert actions()[0].status == "delivered"
        change_connection(row, by=owner, version=row.version, config={"url": url, "tools": ["pay: high"]})
        archive_connection(row, by=owner)
        settle()
    assert (now_of(run).status, model.results()["c1"]["done"]) == ("succeeded", True)
