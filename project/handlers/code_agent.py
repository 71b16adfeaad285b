"""`code-agent`: a machine that plans a task, asks when it does not understand it, opens the change and has it reviewed.

Each state starts one handler, and each handler's last word is the event that moves the agent on. They work by the rules
of `triage-issue` and say so; no model is asked."""

from typing import Any

from pydantic import BaseModel, Field, ValidationError

from approvals.act import Expired, Rejected, act, ask
from project.handlers.triage_issue import diagnose, prepare
from project.lib.faults import first_fault
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.machines import Move, machine
from triggers.models import Event
from triggers.registry import handler

LONGEST = {"title": 200, "text": 20_000}  # characters that are read of it
AT_WORK = ("planning", "waiting_input", "executing", "reviewing")
HOW = "Say it as “old” should be “new”, with the name of the file."
REVIEW = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["passed", "changes requested"]},
        "instead": {"type": "string", "maxLength": 2000, "description": HOW},
    },
    "required": ["verdict"],
}


class Task(BaseModel):
    """What is to be done, as each event of it carries it along."""

    id: int | str
    round: int = Field(ge=1)
    repo: str = Field(min_length=1, max_length=200)
    base: str = Field(min_length=1, max_length=200)
    number: int
    title: str = Field(min_length=1)
    text: str


class Plan(BaseModel):
    """What the rules made of it; the last three only of what they understood."""

    fixable: bool
    why: str
    path: str = ""
    wrong: str = ""
    right: str = ""


class Pull(BaseModel):
    """The change as it was opened."""

    url: str | None = None


SHAPES: dict[str, type[BaseModel]] = {"plan": Plan, "pull": Pull}


def is_understood(event: Event) -> bool:
    """The plan says what to change."""
    return bool(event.data["plan"]["fixable"])


@machine("code-agent", version="1")
class CodeAgent:
    """Takes a task, plans it, asks a person when it does not understand it, opens the change, has it reviewed."""

    states = ("idle", "planning", "waiting_input", "executing", "reviewing", "done", "error")
    moves = (
        Move(("idle", "done"), "planning", on="task.assigned"),
        Move(("planning", "waiting_input"), "executing", on="plan.ready", guard=is_understood),
        Move(("planning", "waiting_input"), "waiting_input", on="plan.ready"),
        Move("executing", "reviewing", on="code.committed"),
        Move("reviewing", "done", on="review.passed"),
        Move("reviewing", "planning", on="review.changes_requested"),
        Move(AT_WORK, "error", on="execution.failed"),
        Move(AT_WORK, "error", on="nightdesk.run.dead"),
        Move(AT_WORK, "error", on="nightdesk.run.cancelled"),
        Move("error", "planning", on="retry.triggered"),
    )
    on_enter = {
        "planning": "plan-task",
        "waiting_input": "ask-for-input",
        "executing": "write-code",
        "reviewing": "review-code",
    }


@handler("plan-task", version="1")
def plan_task(run: Durable) -> dict[str, Any]:
    """Read the task of the agent that the event names, and say by rules what is to be changed."""
    task = run.step("read the task", read_task, run.event.data, run.event.correlationid, run.event.pk)
    return ready(run, task)


@handler("ask-for-input", version="1")
def ask_for_input(run: Durable) -> dict[str, Any]:
    """Ask people what a task means that the rules do not understand; the answer is planned like a task."""
    task, plan = part_of(run, "task"), part_of(run, "plan")
    try:
        text = ask(run, "ask what is meant", f"What is to be changed for “{task['title']}”? {HOW}"[:4000])
    except (Rejected, Expired) as no:
        return failed(run, task, f"nobody said what is meant ({plan['why']}): {no}")
    return ready(run, task | {"text": text})


@handler("write-code", version="1")
def write_code(run: Durable) -> dict[str, Any]:
    """Prepare the change and open it as a pull request, which waits for a nod."""
    task, plan = part_of(run, "task"), part_of(run, "plan")
    file = run.step("prepare the change", prepare, task, plan)
    try:
        pull = act(
            run,
            "open the change",
            kind="github.create_pr",
            key=f"code-{run.event.correlationid}-{task['id']}-{task['round']}",
            reason=f"{plan['why']} (found by rules)",
            evidence=file["checks"],
            repo=task["repo"],
            base=task["base"],
            title=f"{task['title']} (#{task['number']})"[:256],
            body=f"For #{task['number']}.\n\n{plan['why']}",
            files=[{"path": file["path"], "content": file["content"]}],
        )
    except (Rejected, Expired) as no:
        return failed(run, task, f"the change was not opened: {no}")
    run.emit(type="code.committed", data={"task": task, "pull": dict(pull)}, subject=run.event.subject)
    return {"outcome": "opened", "pull": pull.get("url")}


@handler("review-code", version="1")
def review_code(run: Durable) -> dict[str, Any]:
    """Ask people whether the change is right; what they want instead is planned anew."""
    task, pull = part_of(run, "task"), part_of(run, "pull")
    question = f"Is the change for “{task['title']}” right? {pull.get('url') or ''}".strip()
    try:
        said = ask(run, "review the change", question[:4000], form=REVIEW)
    except (Rejected, Expired) as no:
        return failed(run, task, f"nobody reviewed the change: {no}")
    if said["verdict"] == "passed":
        run.emit(type="review.passed", data={"task": task, "pull": pull}, subject=run.event.subject)
        return {"outcome": "passed"}
    again = task | {"text": said.get("instead") or task["text"], "round": task["round"] + 1}
    run.emit(type="review.changes_requested", data={"task": again, "pull": pull}, subject=run.event.subject)
    return {"outcome": "changes_requested"}


def read_task(data: Any, agent: str, event: int) -> dict[str, Any]:
    """The task that the event brings; a `retry.triggered` without one means the agent's last one. Raises Permanent."""
    given = data if isinstance(data, dict) else {}
    if "task" in given or "title" in given:
        return task_in(given, event)
    return last_task(agent, event)


def last_task(agent: str, event: int) -> dict[str, Any]:
    """Of what moved the agent before, the newest that says one. Raises Permanent when nothing does."""
    begins = Event.objects.get(pk=event).type == "task.assigned"  # one that says nothing is not the one before it
    earlier = Event.objects.filter(moved__agent__slug=agent, pk__lt=event).order_by("-pk")
    for before in earlier[: 0 if begins else 100]:
        data = before.data if isinstance(before.data, dict) else {}
        if "task" in data or "title" in data:
            return task_in(data, before.pk)
    raise Permanent(f"{agent} has no task: send `task.assigned` with a `title` and a `text`")


def task_in(data: dict[str, Any], event: int) -> dict[str, Any]:
    """The task as an event says it, `{task: {…}}` or its members themselves, with what it may leave out."""
    given = data.get("task", data)
    usual = {"id": event, "round": 1, "repo": "acme/shop", "base": "main", "number": event, "text": ""}
    own = {name: value for name, value in given.items() if value is not None} if isinstance(given, dict) else {}
    if given is data:
        own = {name: own[name] for name in ("repo", "base", "number", "title", "text") if name in own}
    own |= {name: own[name][:most] for name, most in LONGEST.items() if isinstance(own.get(name), str)}
    return whole(Task, usual | own, f"the task of E-{event}")


def part_of(run: Durable, name: str) -> dict[str, Any]:
    """What the event that entered this state says of it: `task`, `plan` or `pull`. Raises Permanent."""
    event = run.event
    given = event.data.get(name) if isinstance(event.data, dict) else None
    where = f"`data.{name}` of E-{event.pk} ({event.type})"
    if not isinstance(given, dict):
        raise Permanent(f"{where} is missing: this state is entered by an event that carries it")
    return task_in({"task": given}, event.pk) if name == "task" else whole(SHAPES[name], given, where)


def whole(shape: type[BaseModel], given: dict[str, Any], what: str) -> dict[str, Any]:
    """`given` itself, if it has this shape. Raises Permanent, naming the member."""
    try:
        shape.model_validate(given, strict=True)
    except ValidationError as error:
        place, told = first_fault(error)
        raise Permanent(f"{what} cannot be worked on: {place or 'it'}: {told}") from None
    return given


def ready(run: Durable, task: dict[str, Any]) -> dict[str, Any]:
    plan: dict[str, Any] = run.step("plan", diagnose, task)
    run.log(f"planned by rules, no model was asked: {plan['why']}")
    run.emit(type="plan.ready", data={"task": task, "plan": plan}, subject=run.event.subject)
    return plan


def failed(run: Durable, task: dict[str, Any], why: str) -> dict[str, Any]:
    run.emit(type="execution.failed", data={"task": task, "reason": why}, subject=run.event.subject)
    return {"outcome": "failed", "reason": why}
