"""`code-agent`: a machine that plans a task, asks when it does not understand it, opens the change and has it reviewed.

Each state starts one handler, and each handler's last word is the event that moves the agent on. They work by the rules
of `triage-issue` and say so; no model is asked."""

from typing import Any

from approvals.act import Expired, Rejected, act, ask
from project.handlers.triage_issue import diagnose, prepare
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.machines import Move, machine
from triggers.models import Event
from triggers.registry import handler

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
    task, plan = run.event.data["task"], run.event.data["plan"]
    try:
        text = ask(run, "ask what is meant", f"What is to be changed for “{task['title']}”? {HOW}"[:4000])
    except (Rejected, Expired) as no:
        return failed(run, task, f"nobody said what is meant ({plan['why']}): {no}")
    return ready(run, task | {"text": text})


@handler("write-code", version="1")
def write_code(run: Durable) -> dict[str, Any]:
    """Prepare the change and open it as a pull request, which waits for a nod."""
    task, plan = run.event.data["task"], run.event.data["plan"]
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
    task, pull = run.event.data["task"], run.event.data["pull"]
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
    """The task that the event brings; one without a task (`retry.triggered`) means the agent's last one."""
    given = data if isinstance(data, dict) else {}
    if isinstance(given.get("task"), dict):
        return dict(given["task"])
    if "title" not in given:
        return last_task(agent, event)
    return {
        "id": event,
        "round": 1,
        "repo": str(given.get("repo") or "acme/shop"),
        "base": str(given.get("base") or "main"),
        "number": given["number"] if isinstance(given.get("number"), int) else event,
        "title": str(given["title"])[:200],
        "text": str(given.get("text") or "")[:20_000],
    }


def last_task(agent: str, event: int) -> dict[str, Any]:
    """Of what moved the agent before, the newest that says one. Raises Permanent when nothing does."""
    for before in Event.objects.filter(moved__agent__slug=agent, pk__lt=event).order_by("-pk")[:100]:
        data = before.data if isinstance(before.data, dict) else {}
        if "task" in data or "title" in data:
            return read_task(data, agent, before.pk)
    raise Permanent(f"{agent} has no task: send `task.assigned` with a `title` and a `text`")


def ready(run: Durable, task: dict[str, Any]) -> dict[str, Any]:
    plan: dict[str, Any] = run.step("plan", diagnose, task)
    run.log(f"planned by rules, no model was asked: {plan['why']}")
    run.emit(type="plan.ready", data={"task": task, "plan": plan}, subject=run.event.subject)
    return plan


def failed(run: Durable, task: dict[str, Any], why: str) -> dict[str, Any]:
    run.emit(type="execution.failed", data={"task": task, "reason": why}, subject=run.event.subject)
    return {"outcome": "failed", "reason": why}
