"""The story of an issue, told twice: diagnose, ask, open the pull request, tell the reporter.

Once as a plain handler, `issue-story`, and once as a LangGraph, `issue-story-graph`. Copy this file into HANDLERS_DIR
(`pip install langgraph`), and let a trigger on `github.issues.opened` start either."""

from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from approvals.act import Expired, Rejected, act
from project.handlers.triage_issue import diagnose, prepare, read_issue, reply
from triggers.registry import handler


def change(issue, plan, file):
    return {
        "repo": issue["repo"],
        "base": issue["base"],
        "title": f"Fix a typo (#{issue['number']})",
        "body": f"Closes #{issue['number']}.\n\n{plan['why']}",
        "files": [{"path": file["path"], "content": file["content"]}],
    }


def comment(issue, plan, pull):
    return {"repo": issue["repo"], "number": issue["number"], "body": reply(plan, pull)}


# As a plain handler


@handler("issue-story", version="1")
def issue_story(run):
    """Diagnose an issue, ask people for the fix, and tell the reporter."""
    issue = run.step("read the issue", read_issue, run.event.data)
    plan = run.step("diagnose", diagnose, issue)
    pull = None
    if plan["fixable"]:
        file = run.step("prepare the fix", prepare, issue, plan)
        try:
            pull = act(run, "open the fix", kind="github.create_pr", reason=plan["why"], **change(issue, plan, file))
        except (Rejected, Expired) as no:
            run.log(f"the fix was not opened: {no}")
    act(run, "tell the reporter", kind="github.comment", **comment(issue, plan, pull))
    return {"pull": pull and pull["url"]}


# As a graph


class Story(TypedDict, total=False):
    data: Any
    issue: dict[str, Any]
    plan: dict[str, Any]
    file: dict[str, Any]
    pull: dict[str, Any] | None


def read(story: Story) -> Story:
    issue = read_issue(story["data"])
    return {"issue": issue, "plan": diagnose(issue)}


def write(story: Story) -> Story:
    return {"file": prepare(story["issue"], story["plan"])}


def approve(story: Story) -> Story:
    """Runs from its start again once people have decided; nothing before it does."""
    issue, plan = story["issue"], story["plan"]
    arguments = change(issue, plan, story["file"])
    said = interrupt({"kind": "github.create_pr", "arguments": arguments, "reason": plan["why"]})
    return {"pull": said["result"] if said["approved"] else None}


def tell(story: Story) -> Story:
    interrupt({"kind": "github.comment", "arguments": comment(story["issue"], story["plan"], story.get("pull"))})
    return {}


def graph() -> Any:
    made = StateGraph(Story)
    for node in (read, write, approve, tell):
        made.add_node(node)
    made.add_edge(START, "read")
    made.add_conditional_edges("read", lambda story: "write" if story["plan"]["fixable"] else "tell", ["write", "tell"])
    made.add_edge("write", "approve")
    made.add_edge("approve", "tell")
    made.add_edge("tell", END)
    return made.compile()


GRAPH = graph()


@handler("issue-story-graph", version="1")
def issue_story_graph(run):
    """The same as `issue-story`, told as a graph."""
    story = run.graph(GRAPH, {"data": run.event.data})
    return {"pull": story.get("pull") and story["pull"]["url"]}
