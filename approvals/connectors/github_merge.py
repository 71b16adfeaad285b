"""`github.merge`: merge a pull request, but only the very commit that people looked at.

GitHub takes the head it shall merge (`sha`) and refuses when the branch has moved since. Whether it happened can be
read from the pull request itself, so nothing needs a key.
"""

from typing import Literal

from pydantic import Field

from approvals.connectors.github import API, REPO, GitHub, said_by
from approvals.errors import Refused
from approvals.kinds import Arguments, Far, Kind, Now, Result, facts, register
from approvals.tiers import Tier
from project.lib import canonical
from project.lib.egress import Session
from project.lib.language import spoken

NOT_NOW = (405, 409)  # not mergeable; the head is another one by now


class Merge(Arguments):
    """`sha` is the head of the pull request as it was reviewed."""

    repo: str = Field(pattern=REPO, max_length=200)
    number: int = Field(gt=0)
    sha: str = Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")
    method: Literal["merge", "squash", "rebase"] = "merge"


def deliver(far: Far, wish: Merge, key: str) -> Result:
    with Session(far.timeout) as http:
        github = GitHub(far, http)
        path = f"/repos/{wish.repo}/pulls/{wish.number}/merge"
        body = {"sha": wish.sha, "merge_method": wish.method}
        answer = github.ask("PUT", path, harmless=False, json=body)
        if answer.status in NOT_NOW:
            done = merged(github, wish)
            if done is None:
                raise Refused(f"{answer.method} {answer.host}: status {answer.status} ({said_by(answer)})")
            return done
        return {"sha": github.sure(answer, harmless=False).get("sha", ""), "url": page_of(github, wish)}


def find(far: Far, wish: Merge, keys: list[str]) -> Result | None:
    with Session(far.timeout) as http:
        return merged(GitHub(far, http), wish)


def merged(github: GitHub, wish: Merge) -> Result | None:
    """The merge of this very head, by whomever; None while it is not merged, or when another head was."""
    pull = github.get(f"/repos/{wish.repo}/pulls/{wish.number}")
    if not pull.get("merged") or (pull.get("head") or {}).get("sha") != wish.sha:
        return None
    return {"sha": pull.get("merge_commit_sha") or "", "url": pull.get("html_url") or page_of(github, wish)}


def pull_now(far: Far, wish: Merge) -> Now:
    """Where it would be merged to, and what its head is: neither may be another one by the time it happens."""
    with Session(far.timeout) as http:
        pull = GitHub(far, http).get(f"/repos/{wish.repo}/pulls/{wish.number}")
    head, base = (pull.get(end) or {} for end in ("head", "base"))
    bound = {"state": pull.get("state"), "into": base.get("ref"), "head": head.get("sha")}
    shown = {"title": pull.get("title"), **bound, "commits": pull.get("commits"), "files": pull.get("changed_files")}
    told = {name: value for name, value in shown.items() if value is not None}
    return Now(f"{wish.repo}#{wish.number}", canonical.digest(bound), told)


def page_of(github: GitHub, wish: Merge) -> str:
    web = "https://github.com" if github.base == API else github.base.removesuffix("/api/v3")
    return f"{web}/{wish.repo}/pull/{wish.number}"


def preview(wish: Merge) -> list[dict[str, str]]:
    rows = [
        (spoken("Pull request"), f"{wish.repo}#{wish.number}"),
        (spoken("Head"), wish.sha),
        (spoken("Method"), wish.method),
    ]
    return facts(rows)


GITHUB_MERGE = register(
    Kind(
        name="github.merge",
        system="github",
        tier=Tier.HIGH,
        safety="probe",
        arguments=Merge,
        deliver=deliver,
        probe=find,
        title=lambda wish: f"Merge {wish.repo}#{wish.number} at {wish.sha[:10]}",
        preview=preview,
        current=pull_now,
        pretend=lambda wish, number: {"sha": wish.sha, "url": f"/practice#item-{number}"},
        reversible="A merge can be reverted by another commit; what it set off cannot.",
        blast_radius="everybody who builds from the branch",
    )
)
