"""project/client.py, copied into an agent as it is: against the real desk over a socket, and one that is down."""

import ast
import asyncio
import inspect
import json
import os
import runpy
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.db import connection

from approvals.kinds import KINDS
from approvals.models import Action, Connection, Decision
from project import client
from project.client import Desk
from project.people import roles
from project.people.models import User
from tests import builders
from tests.agents import agent
from tests.conftest import person
from tests.nodding import carry_out, say, serving

ROOT = Path(client.__file__).parents[1]
EXAMPLES = ROOT / "examples"
TEA = {"item": "tea", "cups": 2}

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("high_has_its_rule")]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("approvals.api.LOOK_AGAIN", 0.02)
    monkeypatch.setattr(client, "PAUSE", 0.02)


@pytest.fixture
def desk(live_server: Any) -> Iterator[Desk]:
    builders.connection("shop", practice=False)
    with serving():
        yield Desk(live_server.url, agent("robot").secret, patience=5)  # type: ignore[attr-defined]


@pytest.fixture
def ben() -> User:
    return person("ben", roles.VIEWER, roles.REVIEWER)


class Meanwhile:
    """People who look at the inbox while an agent waits: `verdict` of everything that comes."""

    def __init__(self, ben: User, verdict: str = "approve", **given: Any) -> None:
        self.by, self.verdict, self.given = ben, verdict, given
        self.thread = threading.Thread(target=self.look, daemon=True)

    def look(self) -> None:
        until = time.monotonic() + 20
        while time.monotonic() < until and not self.done():
            time.sleep(0.02)
        connection.close()

    def done(self) -> bool:
        action = Action.objects.awaiting().first()
        if action is None:
            return False
        say(action, self.by, self.verdict, stepped_up=True, reason="I have looked", **self.given)
        Action.objects.filter(status="approved").update(not_before=action.created_at)
        carry_out()
        return True

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.thread.join(25)
        assert not self.thread.is_alive()


def test_it_is_one_module_of_the_standard_library() -> None:
    tree = ast.parse(Path(client.__file__).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) == set()


def test_it_waits_for_the_nod_and_gets_the_result(desk: Desk, ben: User) -> None:
    with Meanwhile(ben):
        done = desk.act("shop.order", TEA, key="tea-1", reason="We are out of tea")
    assert (done.status, done.result["cups"], done.arguments) == ("delivered", 2, TEA)


def test_a_no_says_who_and_why(desk: Desk, ben: User) -> None:
    with Meanwhile(ben, "reject"), pytest.raises(client.Rejected, match=r"ben: I have looked") as caught:
        desk.act("shop.order", TEA, key="tea-1")
    assert caught.value.action is not None
    assert caught.value.action.status == "rejected"


def test_after_a_crash_the_same_key_goes_on_waiting(desk: Desk, ben: User) -> None:
    with pytest.raises(client.NotYet):
        desk.act("shop.order", TEA, key="tea-1", within=0.1)
    again = Desk(desk.url.removesuffix("/api/v1"), desk.token)  # the process that was started in its place
    with Meanwhile(ben):
        assert again.act("shop.order", TEA, key="tea-1").status == "delivered"
    assert again.act("shop.order", TEA, key="tea-1").result["cups"] == 2, "asked once more it gets the same"
    assert Action.objects.count() == 1


def test_what_was_asked_for_is_withdrawn(desk: Desk) -> None:
    number = desk.ask("shop.order", TEA, key="tea-1").id
    assert desk.cancel(number, "no guests").status == "cancelled"
    with pytest.raises(client.Cancelled):
        desk.act("shop.order", TEA, key="tea-1")


@pytest.mark.parametrize(
    ("wrong", "code", "field"),
    [
        ({"kind": "shop.steal"}, "not_valid", "kind"),
        ({"arguments": {"cups": "many"}}, "not_valid", "cups"),
        ({"key": ""}, "bad_value", "Idempotency-Key"),
    ],
)
def test_what_the_desk_does_not_take_is_told_at_once(desk: Desk, wrong: Any, code: str, field: str) -> None:
    given = {"kind": "shop.order", "arguments": TEA, "key": "tea-1", **wrong}
    with pytest.raises(client.Refused) as caught:
        desk.ask(given.pop("kind"), given.pop("arguments"), **given)
    assert (caught.value.code, caught.value.field.lower()) == (code, field.lower())


@pytest.mark.parametrize("bad", ["表", "naïve", "two\nlines"])
def test_what_no_header_can_hold_is_told_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    monkeypatch.setattr(client, "OPENER", None)
    for token, key, field in (("nd_x", bad, "Idempotency-Key"), (f"nd_{bad}", "k", "Authorization")):
        with pytest.raises(client.Refused) as told:
            Desk("http://127.0.0.1:1", token, patience=60).ask("email.send", {}, key=key)
        assert (told.value.code, told.value.field) == ("bad_value", field)


def test_a_wrong_token_is_told_at_once(desk: Desk) -> None:
    with pytest.raises(client.Refused, match="401 not_signed_in"):
        Desk(desk.url.removesuffix("/api/v1"), "nd_wrong").ask("shop.order", TEA, key="tea-1")


def test_a_desk_that_is_down_is_waited_for_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(client, "time", SimpleNamespace(sleep=waited.append, monotonic=time.monotonic))
    with pytest.raises(client.Unreachable, match="does not answer"):
        Desk("http://127.0.0.1:9", "nd_x", patience=0.5).get(1)
    answers: list[Any] = [
        OSError("down"),
        client.Refused(503, {"retry_after": 7}),
        client.Refused(409, {"code": "running"}),
    ]

    def send(*_: Any) -> dict[str, Any]:
        if answers:
            raise answers.pop(0)
        return {"id": 1, "status": "delivered"}

    desk = Desk("http://127.0.0.1:9", "nd_x")
    monkeypatch.setattr(desk, "send", send)
    assert desk.get(1).has_ended
    assert waited == [1.0, 7.0, 4.0]


def test_no_longer_than_was_said_is_a_desk_tried_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sent = [1000.0], []

    def send(*request: Any) -> dict[str, Any]:
        sent.append(request[-1])
        clock[0] += request[-1]
        raise TimeoutError("no answer")

    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=lambda s: clock.append(s)))
    desk = Desk("http://127.0.0.1:9", "nd_x")
    monkeypatch.setattr(desk, "send", send)
    with pytest.raises(client.NotYet, match="A-7"):
        desk.wait(7, within=10)
    assert clock[0] - 1000 <= 10 + client.GRACE
    clock[0] = 1000
    with pytest.raises(client.Unreachable):
        desk.act("shop.order", TEA, key="tea-1", within=10)
    assert clock[0] - 1000 <= 10 + client.GRACE


def test_a_function_is_called_after_the_nod_with_what_people_said_yes_to(desk: Desk, ben: User) -> None:
    calls: list[Any] = []

    @desk.needs_nod(key="drop-{table}", reason="Nobody reads {table}")
    def drop(table: str, password: str, *, keep: int = 3) -> str:
        calls.append((table, password, keep))
        return "gone"

    with Meanwhile(ben):
        assert drop("old", "hunter2") == "gone"
    assert calls == [("old", "hunter2", 3)]
    row = Action.objects.get()
    assert (row.kind, row.tier, row.reason, row.step) == ("external.drop", "high", "Nobody reads old", "")
    assert "hunter2" not in row.canonical


class TestOneNodIsOneCall:
    @pytest.fixture
    def calls(self) -> list[int]:
        return []

    @pytest.fixture
    def pay(self, desk: Desk, ben: User, calls: list[int]) -> Any:
        """Called once already, under a nod."""

        @desk.needs_nod(key="pay-{to}")
        def pay(to: str, amount: int) -> int:
            calls.append(amount)
            return len(calls)

        with Meanwhile(ben):
            assert pay("bob", 100) == 1
        return pay

    def test_a_later_one_is_refused_in_this_process_and_in_the_next(
        self, pay: Any, desk: Desk, calls: list[int]
    ) -> None:
        with pytest.raises(client.UsedUp) as refused:
            pay("bob", 100)
        assert (refused.value.action or {})["status"] == "delivered"
        later = Desk(desk.url.removesuffix("/api/v1"), desk.token)
        with pytest.raises(client.UsedUp):
            later.needs_nod(key="pay-{to}")(pay.__wrapped__)("bob", 100)
        with pytest.raises(client.UsedUp):
            later.act("external.pay", {"to": "bob", "amount": 100}, key="pay-bob", once=True)
        assert (calls, Decision.objects.count()) == ([100], 1)

    def test_of_two_that_wait_for_the_same_nod_one_gets_it(self, desk: Desk, ben: User, calls: list[int]) -> None:
        ready, outcomes = threading.Barrier(2), []

        def one() -> None:
            own = Desk(desk.url.removesuffix("/api/v1"), desk.token, patience=5)

            @own.needs_nod(key="pay-{to}")
            def pay(to: str) -> None:
                calls.append(1)

            ready.wait(10)
            try:
                pay("bob")
                outcomes.append("done")
            except client.UsedUp:
                outcomes.append("used up")

        threads = [threading.Thread(target=one) for _ in range(2)]
        with Meanwhile(ben):
            for thread in threads:
                thread.start()
        for thread in threads:
            thread.join(25)
        assert (sorted(outcomes), calls, Decision.objects.count()) == (["done", "used up"], [1], 1)

    def test_an_answer_that_was_lost_on_its_way_is_no_second_taking(
        self, desk: Desk, ben: User, calls: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send = Desk.send

        def losing(self: Desk, method: str, path: str, *rest: Any) -> Any:
            told = send(self, method, path, *rest)
            if path.endswith("/consume") and not calls:
                calls.append(0)
                raise OSError("the line went dead")
            return told

        monkeypatch.setattr(Desk, "send", losing)

        @desk.needs_nod(key="pay-{to}")
        def pay(to: str) -> None:
            calls.append(1)

        with Meanwhile(ben):
            pay("bob")
        assert calls == [0, 1]

    def test_another_key_is_another_nod(self, pay: Any, ben: User, calls: list[int]) -> None:
        with Meanwhile(ben):
            pay("eve", 100)
        assert (calls, Decision.objects.count()) == ([100, 100], 2)

    def test_whoever_resumes_after_a_crash_says_so(self, pay: Any, calls: list[int]) -> None:
        assert pay.resume("bob", 100) == 2
        assert Decision.objects.count() == 1

    def test_who_was_still_waiting_when_it_crashed_need_not(self, desk: Desk, ben: User, calls: list[int]) -> None:
        @desk.needs_nod(key="pay-{to}", within=0.1)
        def pay(to: str) -> None:
            calls.append(1)

        with pytest.raises(client.NotYet):
            pay("bob")
        with Meanwhile(ben):
            desk.needs_nod(key="pay-{to}")(pay.__wrapped__)("bob")
        assert calls == [1]

    def test_it_is_still_the_function(self, pay: Any) -> None:
        assert (pay.__name__, list(inspect.signature(pay.__wrapped__).parameters)) == ("pay", ["to", "amount"])


class Editing(Meanwhile):
    """Somebody mends the arguments first; somebody else approves that."""

    def __init__(self, ben: User, arguments: dict[str, Any]) -> None:
        super().__init__(ben)
        self.editor, self.arguments = person("ann", roles.VIEWER, roles.REVIEWER), arguments

    def done(self) -> bool:
        action = Action.objects.awaiting().first()
        if action is None:
            return False
        said = {"stepped_up": True, "reason": "better so"}
        say(action, self.editor, arguments=self.arguments, **said)  # type: ignore[arg-type]
        return super().done()


def shaped(calls: list[Any]) -> list[Callable[..., Any]]:
    """Functions of every shape that a function can have; each writes down what it was called with."""

    def plain(service: str, flags: str = "", *, keep: int = 3) -> None:
        calls.append({"service": service, "flags": flags, "keep": keep})

    def only(service: str, flags: str = "", /, keep: int = 3) -> None:
        calls.append({"service": service, "flags": flags, "keep": keep})

    def more(service: str, flags: str = "", **rest: Any) -> None:
        calls.append({"service": service, "flags": flags, **({"rest": rest} if rest else {})})

    def many(service: str, *rest: Any, flags: str = "") -> None:
        calls.append({"service": service, "flags": flags, **({"rest": list(rest)} if rest else {})})

    return [plain, only, more, many]


@pytest.mark.parametrize("at", range(4), ids=["plain", "only by place", "by any name", "any number"])
@pytest.mark.parametrize("approved", [{"service": "shop"}, {"service": "shop", "flags": "--dry"}])
def test_a_function_is_called_with_the_approved_arguments_alone(
    desk: Desk, ben: User, at: int, approved: dict[str, Any]
) -> None:
    calls: list[Any] = []
    function = desk.needs_nod(key="deploy-{service}")(shaped(calls)[at])
    with Editing(ben, approved):
        function("live", *(["--force"] if at < 3 else ["--all"]), **({"region": "eu"} if at == 2 else {}))
    usual = {"flags": "", "keep": 3} if at < 2 else {"flags": ""}
    assert calls == [usual | approved]
    assert Action.objects.get().arguments == approved


@pytest.mark.parametrize("approved", [{"flags": ""}, {"service": "shop", "colour": "red"}])
def test_a_function_that_does_not_take_what_was_approved_is_not_called(
    desk: Desk, ben: User, approved: dict[str, Any]
) -> None:
    calls: list[Any] = []
    function = desk.needs_nod(key="deploy-{service}")(shaped(calls)[0])
    with Editing(ben, approved), pytest.raises(client.Unfit, match=r"service|colour"):
        function("live", "--force")
    assert calls == []


def test_a_function_is_not_called_without_a_nod(desk: Desk, ben: User) -> None:
    @desk.needs_nod(key="drop-{table}")
    def drop(table: str) -> None:
        raise AssertionError("called without a nod")

    with Meanwhile(ben, "reject"), pytest.raises(client.Rejected):
        drop("old")


# The examples, with small stand-ins for the libraries that are not here


DELETE = {"path": "a.txt", "token": "s3cret"}  # a tool is called with the credential itself, not with what people see


@pytest.fixture
def copy(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """`copy("openai_agents.py", agents={"Runner": …})`: the example beside a copy of the client."""

    def load(name: str, **libraries: dict[str, Any]) -> dict[str, Any]:
        monkeypatch.setitem(sys.modules, "nightdesk", client)
        for library, members in libraries.items():
            parts = library.split("__")
            for end in range(1, len(parts) + 1):
                module = ModuleType(".".join(parts[:end]))
                monkeypatch.setitem(sys.modules, module.__name__, module)
            vars(module).update(members)
        return runpy.run_path(str(EXAMPLES / name))

    return load


def test_a_langgraph_interrupt_is_resumed_by_the_nod(desk: Desk, ben: User, copy: Any) -> None:
    example = copy("langgraph_interrupt.py", langgraph__types={"Command": SimpleNamespace})
    wish = SimpleNamespace(id="i1", value={"kind": "external.delete", "arguments": DELETE})

    class Graph:
        def invoke(self, step: Any, config: Any) -> Any:
            assert config == {"configurable": {"thread_id": "t1"}}
            return {"said": step.resume["i1"]} if hasattr(step, "resume") else {"__interrupt__": [wish]}

        def get_state(self, config: Any) -> Any:
            return SimpleNamespace(tasks=[SimpleNamespace(interrupts=[wish])])

    with Meanwhile(ben):
        said = example["run"](Graph(), "t1", {"begin": 1}, desk)["said"]
    assert (said["approved"], said["result"], said["arguments"]) == (True, {"granted": True}, DELETE)
    assert example["run"](Graph(), "t1", None, desk)["said"] == said, "after a crash the thread goes on"
    assert Action.objects.count() == 1


def test_deferred_tools_get_the_nod_or_the_reason_why_not(desk: Desk, ben: User, copy: Any) -> None:
    class Requests:
        approvals = [SimpleNamespace(tool_name="delete", tool_call_id="c1", args_as_dict=lambda: DELETE)]

    library = {
        "DeferredToolRequests": Requests,
        "DeferredToolResults": SimpleNamespace,
        "ToolApproved": SimpleNamespace,
        "ToolDenied": lambda message: SimpleNamespace(message=message),
    }
    example = copy("pydantic_ai_deferred.py", pydantic_ai=library)

    class Agent:
        def run_sync(self, prompt: Any = None, *, deferred_tool_results: Any = None, **_: Any) -> Any:
            output = deferred_tool_results.approvals["c1"] if deferred_tool_results else Requests()
            return SimpleNamespace(output=output, all_messages=list)

    with Meanwhile(ben):
        assert example["run"](Agent(), "tidy", job="j1", desk=desk).override_args == DELETE
    with Meanwhile(ben, "reject"):
        assert "ben: I have looked" in example["run"](Agent(), "tidy", job="j2", desk=desk).message


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_interruptions_are_approved_or_rejected_by_people(desk: Desk, ben: User, copy: Any, verdict: str) -> None:
    call = SimpleNamespace(name="refund", call_id="c1", arguments=json.dumps({"order": "4711"}))
    item, said = SimpleNamespace(raw_item=call), []
    state = SimpleNamespace(approve=lambda one: said.append("approve"), reject=lambda one: said.append("reject"))

    class Runner:
        @staticmethod
        async def run(agent: Any, given: Any) -> Any:
            waiting = [] if given is state else [item]
            return SimpleNamespace(interruptions=waiting, to_state=lambda: state, final_output="done")

    example = copy("openai_agents.py", agents={"Runner": Runner})
    with Meanwhile(ben, verdict):
        asyncio.run(example["run"](None, "refund", job="j", desk=desk))
    assert said == [verdict]


def hook(call: Any, folder: Path, **env: str) -> dict[str, Any]:
    """What the permission hook prints for a call, run as the agent runs it."""
    (folder / "nightdesk.py").write_text(Path(client.__file__).read_text())
    (folder / "hook.py").write_text((EXAMPLES / "permission_hook.py").read_text())
    told = subprocess.run(
        [sys.executable, "hook.py"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **env},
        input=call if isinstance(call, str) else json.dumps(call),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    said: dict[str, Any] = json.loads(told.stdout)["hookSpecificOutput"]
    return said


BASH = {
    "session_id": "s",
    "tool_use_id": "t",
    "tool_name": "Bash",
    "tool_input": {"command": "make deploy"},
    "cwd": "/a",
}


@pytest.mark.parametrize(("verdict", "decision"), [("approve", "allow"), ("reject", "deny")])
def test_the_permission_hook_says_what_people_said(
    desk: Desk, ben: User, tmp_path: Path, verdict: str, decision: str
) -> None:
    env = {"NIGHTDESK_URL": desk.url.removesuffix("/api/v1"), "NIGHTDESK_TOKEN": desk.token}
    with Meanwhile(ben, verdict):
        said = hook(BASH, tmp_path, **env)
    assert said["permissionDecision"] == decision
    assert "ben: I have looked" in said["permissionDecisionReason"]
    assert (Action.objects.get().kind, Action.objects.get().tier) == ("external.Bash", "high")


@pytest.mark.parametrize("numbered", [True, False])
def test_the_permission_hook_allows_one_call_a_nod(desk: Desk, ben: User, tmp_path: Path, numbered: bool) -> None:
    env = {"NIGHTDESK_URL": desk.url.removesuffix("/api/v1"), "NIGHTDESK_TOKEN": desk.token}
    call = BASH if numbered else {name: value for name, value in BASH.items() if name != "tool_use_id"}
    with Meanwhile(ben):
        assert hook(call, tmp_path, **env)["permissionDecision"] == "allow"
    with Meanwhile(ben, "reject") if not numbered else nullcontext():
        assert hook(call, tmp_path, **env)["permissionDecision"] == "deny"
    assert Action.objects.count() == (1 if numbered else 2), "without a number of the call people are asked each time"


def test_the_permission_hook_denies_whatever_goes_wrong(tmp_path: Path) -> None:
    for call in ("no json", {"tool_name": "Bash"}, BASH):
        assert hook(call, tmp_path)["permissionDecision"] == "deny"


def test_the_workflow_for_n8n_asks_as_the_desk_wants(desk: Desk, live_server: Any) -> None:
    flow = json.loads((EXAMPLES / "n8n.json").read_text())
    nodes = {node["name"]: node["parameters"] for node in flow["nodes"]}
    links = {name: [one["node"] for out in given["main"] for one in out] for name, given in flow["connections"].items()}
    assert all(name in nodes and set(after) <= set(nodes) for name, after in links.items())
    sent = nodes["Ask the desk"]
    assert sent["url"] == "={{ $env.NIGHTDESK_URL }}/api/v1/actions"
    assert [each["name"] for each in sent["headerParameters"]["parameters"]] == ["Idempotency-Key"]
    body = json.loads(sent["jsonBody"].removeprefix("=").replace("{{ $execution.resumeUrl }}", "https://n8n.example/w"))
    Connection.objects.create(slug="pay", system="stripe", practice=True)
    asked = desk.ask(body.pop("kind"), body.pop("arguments"), key="w-1", **body)
    assert (asked.status, asked["tier"], bool(asked["callback_secret"])) == ("awaiting", "high", True)
    assert "stripe.refund" in KINDS
