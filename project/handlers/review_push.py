"""`review-push`: read a push to GitHub by rules, and say what a reviewer should look at.

It works by rules and says so; no model is asked. Where the push belongs to a pull request or an issue (`#12` in a
commit's subject), the review is a comment there; else our own people are told."""

import re
from typing import Any

from approvals.act import NoConnection, act
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.registry import handler

MANY = 50  # files of one push
KEPT = 200  # commits that are read
NUMBER = re.compile(r"(?:\(#|pull request #|(?:closes|fixes|resolves) #)(\d{1,9})\b", re.IGNORECASE)
UNFINISHED = re.compile(r"^(?:wip\b|fixup!|squash!|tmp\b)", re.IGNORECASE)
SECRET = re.compile(r"(?:^|/)(?:\.env(?:\.[\w.-]+)?|id_(?:rsa|dsa|ecdsa|ed25519)|[^/]+\.(?:pem|key|p12|pfx|kdbx))$")
HARMLESS = re.compile(r"\.env\.(?:example|sample|template)$")
WORKFLOW = re.compile(r"^(?:\.github/workflows/|\.gitlab-ci\.yml$|Jenkinsfile$)")
CODE = re.compile(r"\.(?:py|js|ts|go|rs|java|rb|php|cs|c|cpp|kt|swift)$")
TEST = re.compile(r"(?:^|/)(?:tests?|spec|__tests__)/|[_.-](?:test|spec)\.\w+$|(?:^|/)test_[^/]+$")


@handler("review-push", version="1")
def review_push(run: Durable) -> dict[str, Any]:
    """Review the pushed commits by rules; what stands out becomes a comment, or a word to our own people."""
    push = run.step("read the push", read_push, run.event.data)
    findings = run.step("review it", review, push)
    run.log(f"reviewed by rules, no model was asked: {len(findings)} to look at")
    if not findings:
        return {"by": "rules", "outcome": "nothing_found", **told(push)}
    text = in_words(push, findings)
    key = f"review-{push['repo']}-{push['after'][:12]}"
    reason = "; ".join(findings)[:500]
    if push["number"]:
        act(
            run,
            "comment on it",
            kind="github.comment",
            key=key,
            reason=reason,
            evidence=[{"text": finding, "for": True} for finding in findings],
            repo=push["repo"],
            number=push["number"],
            body=text,
        )
        return {"by": "rules", "outcome": "commented", "findings": findings, **told(push)}
    try:
        act(run, "tell our people", kind="notify.send", key=key, reason=reason, title=headline(push), text=text)
    except NoConnection as missing:
        run.log(f"nobody was told: {missing}")
    return {"by": "rules", "outcome": "told", "findings": findings, **told(push)}


def read_push(data: Any) -> dict[str, Any]:
    """What matters of the delivery; Permanent when it is no push of GitHub."""
    repository = data.get("repository") if isinstance(data, dict) else None
    if not isinstance(repository, dict) or not isinstance(data.get("ref"), str) or "after" not in data:
        raise Permanent("this delivery carries no ref and repository; review-push reads `push` events of GitHub")
    given = data.get("commits") if isinstance(data.get("commits"), list) else []
    commits = [commit for commit in given if isinstance(commit, dict)][:KEPT]
    messages = [str(commit.get("message", "")) for commit in commits]
    numbers = [int(found[1]) for message in reversed(messages) if (found := NUMBER.search(message.split("\n")[0]))]
    branch = data["ref"].removeprefix("refs/heads/")
    return {
        "repo": str(repository.get("full_name", "")),
        "branch": branch,
        "is_main": branch == (repository.get("default_branch") or repository.get("master_branch") or "main"),
        "is_branch": data["ref"].startswith("refs/heads/") and not data.get("deleted"),
        "forced": bool(data.get("forced")),
        "after": str(data["after"]),
        "compare": str(data.get("compare", "")),
        "subjects": [message.split("\n")[0][:200] for message in messages],
        "files": sorted({path for commit in commits for path in paths_of(commit, "added", "modified")}),
        "removed": sorted({path for commit in commits for path in paths_of(commit, "removed")}),
        "number": numbers[0] if numbers else None,
    }


def paths_of(commit: dict[str, Any], *kinds: str) -> list[str]:
    return [path for kind in kinds for path in (commit.get(kind) or []) if isinstance(path, str)]


def review(push: dict[str, Any]) -> list[str]:
    """What a reviewer should look at, in sentences; nothing of a tag or a branch that went."""
    if not push["is_branch"]:
        return []
    files, removed = push["files"], push["removed"]
    secrets = [path for path in files if SECRET.search(path) and not HARMLESS.search(path)]
    workflows = [path for path in [*files, *removed] if WORKFLOW.search(path)]
    unfinished = [subject for subject in push["subjects"] if UNFINISHED.search(subject)]
    tests_gone = [path for path in removed if TEST.search(path)]
    untested = any(CODE.search(path) for path in files) and not any(TEST.search(path) for path in files)
    findings = [
        (push["forced"], f"History of `{push['branch']}` was rewritten (forced push)."),
        (secrets, f"A secret may have been committed: {listed(secrets)}"),
        (workflows, f"What the build does changes: {listed(workflows)}"),
        (push["is_main"] and unfinished, f"Unfinished commits reached `{push['branch']}`: {listed(unfinished)}"),
        (tests_gone, f"Tests were removed: {listed(tests_gone)}"),
        (untested and push["is_main"], "Code changed and no test with it."),
        (len(files) > MANY, f"{len(files)} files in one push."),
    ]
    return [words for found, words in findings if found]


def listed(items: list[str]) -> str:
    shown = ", ".join(f"`{item.replace('`', '')}`" for item in items[:5])
    return f"{shown} and {len(items) - 5} more" if len(items) > 5 else shown


def headline(push: dict[str, Any]) -> str:
    return f"Look at the push to {push['branch']} of {push['repo']}"[:200]


def in_words(push: dict[str, Any], findings: list[str]) -> str:
    lines = [f"A look at {push['after'][:12]} on `{push['branch']}`, by rules:", *(f"- {found}" for found in findings)]
    return "\n".join([*lines, push["compare"]]).strip()


def told(push: dict[str, Any]) -> dict[str, Any]:
    return {"repo": push["repo"], "branch": push["branch"], "commits": len(push["subjects"])}
