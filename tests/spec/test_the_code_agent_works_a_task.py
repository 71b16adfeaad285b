"""The agent of the tour: a task is planned, asked about, opened after a nod, and reviewed."""

from typing import Any

import orjson
import pytest

from approvals.models import Action, PracticeItem
from project import tour
from project.people.models import User
from project.sample_bodies import SAMPLES
from tests import builders
from tests.nodding import say, settle
from triggers import agents
from triggers.cloudevents import read_events
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


def test_an_agent_without_any_task_hears_that_its_run_died(ann: User, owner: User) -> None:
    Agent.objects.update(status="error")
    ring(ann, "retry.triggered")
    assert states() == ["idle", "planning", "error"]
    assert "has no task" in Run.objects.get().error["message"]
