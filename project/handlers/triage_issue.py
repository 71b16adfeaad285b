"""`triage-issue`: read a new GitHub issue, open the fix if it is a plain typo, and tell the reporter.

It works by rules and says so; no model is asked. A typo is what its reporter writes as: `"wrong" should be "right"`,
with the name of a text file somewhere around it.
"""

import re
from typing import Any

from approvals.act import Expired, Rejected, act
from approvals.reads import github_file
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.registry import handler

WORD = r"[\"“'`]([^\"”'`\n]{1,80})[\"”'`]"
TYPO = re.compile(rf"{WORD}[^\"“”'`\n]{{0,60}}should (?:be|read|say)[^\"“”'`\n]{{0,20}}{WORD}", re.IGNORECASE)
FILE = re.compile(r"(?<![\w/.-])((?:[\w-]+/)*[\w.-]+\.(?:md|txt|rst|adoc|html|py|js))\b")
BY = "rules"


@handler("triage-issue", version="1")
def triage_issue(run: Durable) -> dict[str, Any]:
    """Diagnose a new issue by rules; a typo becomes a pull request that waits for a nod, then the reporter is told."""
    issue = run.step("read the issue", read_issue, run.event.data)
    plan = run.step("diagnose", diagnose, issue)
    run.log(f"triaged by rules, no model was asked: {plan['why']}")
    pull: dict[str, Any] | None = None
    outcome = "not_fixable"
    if plan["fixable"]:
        file = run.step("prepare the fix", prepare, issue, plan)
        try:
            pull = open_the_fix(run, issue, plan, file)
            outcome = "opened"
        except (Rejected, Expired) as no:
            outcome = "not_approved"
            run.log(f"the fix was not opened: {no}")
    act(
        run,
        "tell the reporter",
        kind="github.comment",
        repo=issue["repo"],
        number=issue["number"],
        body=reply(plan, pull),
        reason="The reporter learns what became of the issue.",
    )
    return {"by": BY, "outcome": outcome, "pull": pull["url"] if pull else None, **plan}


def read_issue(data: Any) -> dict[str, Any]:
    """What matters of the delivery; Permanent when there is nothing to work on."""
    issue = data.get("issue") if isinstance(data, dict) else None
    repository = data.get("repository") if isinstance(data, dict) else None
    if not isinstance(issue, dict) or not isinstance(repository, dict):
        raise Permanent("this delivery carries no issue and repository; triage-issue reads `issues` events of GitHub")
    number, title, body = issue.get("number"), issue.get("title"), issue.get("body")
    repo = repository.get("full_name")
    if not isinstance(number, int) or not isinstance(title, str) or not isinstance(repo, str):
        raise Permanent("the issue lacks its number or title, or the repository its full name")
    if not isinstance(body, str) or not body.strip():
        raise Permanent(f"issue #{number} “{title}” has no text; rules need a sentence to read")
    base = repository.get("default_branch") or "main"
    return {"repo": repo, "base": str(base), "number": number, "title": title, "text": body[:20_000]}


def diagnose(issue: dict[str, Any]) -> dict[str, Any]:
    """`{fixable, why}`, for a typo also `{path, wrong, right}`."""
    text = f"{issue['title']}\n{issue['text']}"
    typo, file = TYPO.search(issue["text"]), FILE.search(text)
    if typo and file:
        path, wrong, right = file.group(1), typo.group(1), typo.group(2)
        return {"fixable": True, "why": f"“{wrong}” should be “{right}” in {path}", "path": path} | {
            "wrong": wrong,
            "right": right,
        }
    return {"fixable": False, "why": 'no typo of the form "wrong" should be "right" with a file name'}


def prepare(issue: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """The corrected file as it would be committed; where the file cannot be read, a note about the issue instead."""
    made_up = f"# {issue['repo'].partition('/')[2]}\n\nYou will {plan['wrong']} a mail with the next steps.\n"
    found = github_file(issue["repo"], plan["path"], issue["base"], made_up=made_up)
    if found is not None and plan["wrong"] in found:
        count = found.count(plan["wrong"])
        often = "once" if count == 1 else f"{count} times"
        return {
            "path": plan["path"],
            "content": found.replace(plan["wrong"], plan["right"]),
            "checks": [{"text": f"“{plan['wrong']}” stands {often} in {plan['path']}", "for": count == 1 or None}],
        }
    missing = f"“{plan['wrong']}” was not found in {plan['path']}"
    note = f"# Issue #{issue['number']}: {issue['title']}\n\n{plan['why']}\n\n{issue['text']}\n"
    return {
        "path": f"docs/triage/issue-{issue['number']}.md",
        "content": note,
        "checks": [{"text": f"{missing}; a note for a person is added instead", "for": False}],
    }


def open_the_fix(run: Durable, issue: dict[str, Any], plan: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    return act(
        run,
        "open the fix",
        kind="github.create_pr",
        key=f"pr-{issue['repo']}-{issue['number']}",
        reason=f"{plan['why']} (found by rules)",
        evidence=[*file["checks"], {"text": "No model was asked; the change is one replaced word.", "for": None}],
        repo=issue["repo"],
        base=issue["base"],
        title=f"Fix a typo: {plan['wrong']} → {plan['right']} (#{issue['number']})"[:256],
        body=f"Closes #{issue['number']}.\n\n{plan['why']}",
        files=[{"path": file["path"], "content": file["content"]}],
    )


def reply(plan: dict[str, Any], pull: dict[str, Any] | None) -> str:
    """The comment; plain words, and nothing of the reporter's text is repeated."""
    if pull is not None:
        where = pull.get("url") or f"#{pull.get('number')}"
        return f"Thank you for the report. A fix is open: {where}"
    if plan["fixable"]:
        return "Thank you for the report. A person will look at it; the automatic fix was not taken."
    return "Thank you for the report. A person will look at it."
