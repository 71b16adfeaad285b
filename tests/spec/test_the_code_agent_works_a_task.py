"""The agent of the tour: a task is planned, asked about, opened after a nod, and reviewed."""

from typing import Any

import orjson
import pytest

from approvals.models import Action, PracticeItem
from project import tour
from project.handlers.code_agent import read_task
from project.people.models import User
from project.sample_bodies import SAMPLES
from tests import builders
from tests.nodding import say, settle
from triggers import agents
from triggers.cloudevents import read_events
from triggers.errors import Permanent
from triggers.ingest import ingest
from triggers.models import Agent, AgentEvent, Event, Run
from triggers.replaying import replay
from triggers.sources.webhook import stamp

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def coder(owner: User) -> Agent:
    builders.connection("github")
    return agents.make("coder", tour.AGENTS["coder"], by=owner)


def ring(ann: User, type: str = "task.assigned", **data: Any) -> None:
    """The sample of the tour, or an event like it, from Ann's program."""
    source = (
        builders.source("api", kind="cloudevents", provider="", types=["**"]) if not Event.objects.exists() else None
    )
    headers, body = SAMPLES["task-assigned"].make(17)
    event = {**body, "type": type, "data": data if type != "task.assigned" else {**body["data"], **data}}
    [arrival] = read_events(orjson.dumps(event), {name.lower(): text for name, text in headers.items()})
    stamp(arrival, source or Event.objects.filter(source_slug="api")[0].source, {}, "", set())
    arrival.requester_id = ann.pk
    ingest([arrival])
    settle()


def states() -> list[str]:
    moved = AgentEvent.objects.filter(outcome="moved").order_by("number").values_list("end", flat=True)
    return ["idle", *moved]


def waiting(kind: str) -> Action:
    return Action.objects.get(kind=kind, status="awaiting")


def decide(action: Action, by: User, verdict: str = "approve", **given: Any) -> None:
    say(action, by, verdict, **given)
    settle()


def test_a_task_becomes_a_reviewed_pull_request(ann: User, ben: User, later: Any) -> None:
    ring(ann)
    assert states() == ["idle", "planning", "executing"]
    pull = waiting("github.create_pr")
    assert pull.requester_chain == [ann.pk], "who gave the task does not nod to what comes of it"
    decide(pull, ben)
    later(seconds=60)
    settle()
    assert PracticeItem.objects.get().kind == "github.create_pr"
    decide(waiting("human.question"), ben, answer={"verdict": "passed"})
    assert states() == ["idle", "planning", "executing", "reviewing", "done"]
    assert replay(Agent.objects.get()).is_equal
    assert {run.status for run in Run.objects.all()} == {"succeeded"}


def test_what_it_does_not_understand_it_asks(ann: User, ben: User) -> None:
    ring(ann, text="It does not work.")
    assert states() == ["idle", "planning", "waiting_input"]
    decide(waiting("human.question"), ben, answer='In README.md "recieve" should be "receive".')
    assert states() == ["idle", "planning", "waiting_input", "executing"]


def test_what_the_reviewer_wants_instead_is_planned_anew(ann: User, ben: User, later: Any) -> None:
    ring(ann)
    decide(waiting("github.create_pr"), ben)
    later(seconds=60)
    settle()
    instead = 'In README.md "recieve" should be "get".'
    decide(waiting("human.question"), ben, answer={"verdict": "changes requested", "instead": instead})
    assert states() == ["idle", "planning", "executing", "reviewing", "planning", "executing"]
    assert "get" in waiting("github.create_pr").arguments["files"][0]["content"]


def test_a_no_is_an_error_one_can_try_again_from(ann: User, ben: User) -> None:
    ring(ann)
    decide(waiting("github.create_pr"), ben, "reject")
    assert states() == ["idle", "planning", "executing", "error"]
    ring(ann, "retry.triggered")
    assert states()[3:] == ["error", "planning", "executing"]
    assert waiting("github.create_pr").arguments["title"].startswith("Correct the README")


def test_a_question_of_an_old_round_ends_no_new_one(ann: User, ben: User, later: Any) -> None:
    """Somebody outside wants changes while the desk still asks people about the same change."""
    ring(ann)
    decide(waiting("github.create_pr"), ben)
    later(seconds=60)
    settle()
    old = waiting("human.question")
    task = Event.objects.filter(type="code.committed").latest("pk").data["task"]
    text = 'In README.md "recieve" should be "get".'
    ring(ann, "review.changes_requested", task={**task, "text": text, "round": 2})
    settle()
    assert states()[-3:] == ["reviewing", "planning", "executing"]
    assert Action.objects.get(pk=old.pk).status == "cancelled", "nobody is asked any more about what is over"
    decide(waiting("github.create_pr"), ben)
    later(seconds=60)
    settle()
    assert Agent.objects.get().status == "reviewing"
    decide(waiting("human.question"), ben, answer={"verdict": "passed"})
    assert Agent.objects.get().status == "done"
    assert replay(Agent.objects.get()).is_equal


def test_an_agent_without_any_task_hears_that_its_run_died(ann: User, owner: User) -> None:
    Agent.objects.update(status="error")
    ring(ann, "retry.triggered")
    assert states() == ["idle", "planning", "error"]
    assert "has no task" in Run.objects.get().error["message"]


class TestATaskThatLacksSomething:
    """It is said at once what is missing, not after three tries; the agent goes on with the next whole one."""

    def died_of(self, type: str) -> str:
        run = Run.objects.get(event__type=type)
        assert (run.status, run.attempt, run.error["type"]) == ("dead", 1, "Permanent")
        return str(run.error["message"])

    @pytest.mark.parametrize(
        ("data", "told"),
        [
            ({"task": {"text": "words"}}, "title: Field required"),
            ({"task": {"title": "T", "number": "one"}}, "number: Input should be a valid integer"),
            ({"task": "correct it"}, "title: Field required"),
            ({"title": ["T"]}, "title: Input should be a valid string"),
        ],
    )
    def test_as_it_is_assigned(self, ann: User, ben: User, data: Any, told: str) -> None:
        ring(ann)
        decide(waiting("github.create_pr"), ben, "reject")
        ring(ann, "retry.triggered", **data)
        assert states()[3:] == ["error", "planning", "error"]
        number = Event.objects.get(type="retry.triggered").pk
        assert self.died_of("retry.triggered") == f"the task of E-{number} cannot be worked on: {told}"
        ring(ann, "retry.triggered", title="Correct it", text='In README.md "recieve" should be "receive".')
        assert states()[5:] == ["error", "planning", "executing"]

    def test_one_that_says_nothing_is_not_the_one_before(self, ann: User) -> None:
        ring(ann, title="T" * 300)
        first = Event.objects.get(type="task.assigned").pk
        again = builders.event("retry.triggered", data={}).pk
        assert read_task({}, "coder", again)["title"] == "T" * 200
        assert again > first
        with pytest.raises(Permanent, match="send `task"):
            read_task({}, "coder", builders.event("task.assigned", data={}).pk)

    def test_what_it_leaves_out_is_the_usual(self, ann: User) -> None:
        text = 'In README.md "recieve" should be "receive".'
        ring(ann, task={"title": "Correct it", "text": text, "repo": "acme/tea"})
        number = Event.objects.get(type="task.assigned").pk
        pull = waiting("github.create_pr")
        assert (pull.arguments["repo"], pull.arguments["base"]) == ("acme/tea", "main")
        assert (pull.arguments["title"], pull.key) == (f"Correct it (#{number})", f"code-coder-{number}-1")

    @pytest.mark.parametrize(
        ("state", "type", "data", "told"),
        [
            ("executing", "code.committed", {"task": {"title": "T"}}, "`data.pull` of E-1 (code.committed) is missing"),
            ("executing", "code.committed", {"pull": {}}, "`data.task` of E-1 (code.committed) is missing"),
            ("planning", "plan.ready", {"task": {"title": "T"}, "plan": {"fixable": False}}, "why: Field required"),
            ("planning", "plan.ready", {"plan": {"fixable": True, "why": ""}}, "`data.task` of E-1 (plan.ready)"),
        ],
    )
    def test_what_an_outsider_says_of_a_later_state(
        self, ann: User, state: str, type: str, data: Any, told: str
    ) -> None:
        Agent.objects.update(status=state)
        ring(ann, type, **data)
        assert told.replace("E-1 ", f"E-{Event.objects.get(type=type).pk} ") in self.died_of(type)
        assert states()[-1] == "error"
