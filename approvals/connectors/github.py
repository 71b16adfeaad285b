"""GitHub by its REST API: a comment, and a pull request made through the Git data API.

Neither call knows idempotency keys, so both leave our key where it can be looked for: the comment ends with a hidden
marker, the pull request comes from the branch `nightdesk/<key>` (https://docs.github.com/en/rest).
"""

import base64
import hashlib
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from pydantic import Field, field_validator

from approvals.connectors.answers import attempt, judge, parsed
from approvals.errors import NotSent, OutcomeUnknown, Refused
from approvals.kinds import Arguments, Far, Kind, Now, Result, register
from approvals.tiers import Tier
from project.lib import canonical
from project.lib.egress import Answer, Garbled, Session
from project.lib.language import spoken

API = "https://api.github.com"
PAGE = 100
PAGES = 100  # a thread of 10,000 comments is looked through, a longer one is left to a person
REPO = r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$"


class Comment(Arguments):
    """`number` of an issue or a pull request."""

    repo: str = Field(pattern=REPO, max_length=200)
    number: int = Field(gt=0)
    body: str = Field(min_length=1, max_length=65_000)


class File(Arguments):
    path: str = Field(min_length=1, max_length=1000)
    content: str = Field(max_length=1024 * 1024)

    @field_validator("path")
    @classmethod
    def stays_inside(cls, path: str) -> str:
        if path.startswith("/") or "\\" in path or any(part in ("", ".", "..", ".git") for part in path.split("/")):
            raise ValueError("must be a path inside the repository")
        return path


class PullRequest(Arguments):
    repo: str = Field(pattern=REPO, max_length=200)
    base: str = Field(min_length=1, max_length=255)
    title: str = Field(min_length=1, max_length=256)
    body: str = Field(default="", max_length=65_000)
    files: list[File] = Field(min_length=1, max_length=50)  # each is a call; all of them fit into one try


class GitHub:
    """The few calls we need, each answer parsed, each refusal translated."""

    def __init__(self, far: Far, http: Session) -> None:
        self.http = http
        self.base = str(far.config.get("api_url") or API).rstrip("/")
        self.headers = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}
        if far.secrets.get("token"):
            self.headers["authorization"] = f"Bearer {far.secrets['token']}"

    def ask(self, method: str, path: str, *, harmless: bool, json: Any = None, **params: str | int) -> Answer:
        """Any status comes back; raises NotSent, Refused, OutcomeUnknown for calls without an answer."""
        url = f"{self.base}{path}"
        return attempt(
            lambda: self.http.call(method, url, headers=self.headers, json=json, params=params or None),
            harmless=harmless,
        )

    def get(self, path: str, **params: str | int) -> Any:
        return self.sure(self.ask("GET", path, harmless=True, **params), harmless=True)

    def find(self, path: str) -> Any:
        """What is there, or None."""
        answer = self.ask("GET", path, harmless=True)
        return None if answer.status == 404 else self.sure(answer, harmless=True)

    def prepare(self, path: str, json: Any) -> Any:
        """A write nobody sees (blob, tree, commit): it may simply be repeated."""
        return self.sure(self.ask("POST", path, harmless=True, json=json), harmless=True)

    def sure(self, answer: Answer, *, harmless: bool) -> Any:
        out_of_budget = answer.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in answer.headers
        if answer.status == 403 and out_of_budget:
            raise NotSent(f"{answer.method} {answer.host}: rate limit", retry_after=answer.retry_after)
        judge(answer, harmless=harmless, note=said_by(answer))
        return parsed(answer, harmless=harmless)


def said_by(answer: Answer) -> str:
    """GitHub's own sentence about a refusal: it names fields, never credentials."""
    if answer.status < 400 or answer.truncated or "json" not in answer.headers.get("content-type", ""):
        return ""
    try:
        said = answer.json()
    except Garbled:
        return ""
    return str(said.get("message", ""))[:200] if isinstance(said, dict) else ""


def read_file(far: Far, repo: str, path: str, ref: str) -> str | None:
    """The text of a file on a branch; None when there is none, or it is no text. For steps: it changes nothing."""
    with Session(far.timeout) as http:
        return text_of(GitHub(far, http).find(contents(repo, path, ref)))


def contents(repo: str, path: str, ref: str) -> str:
    return f"/repos/{repo}/contents/{quote(path)}?ref={quote(ref, safe='')}"


def text_of(found: Any) -> str | None:
    """The text of a file as the API shows it; None when there is none."""
    if not isinstance(found, dict) or found.get("encoding") != "base64":
        return None
    try:
        return base64.b64decode(found.get("content", "")).decode()
    except ValueError:
        return None


# --- a comment ---------------------------------------------------------------------------------------------------


def marker(key: str) -> str:
    """Invisible on the page; a key cannot close it early because `>` is percent-encoded."""
    return f"<!-- nightdesk:{quote(key, safe='/:._~ -')} -->"


def comment(far: Far, wish: Comment, key: str) -> Result:
    with Session(far.timeout) as http:
        github = GitHub(far, http)
        body = {"body": f"{wish.body}\n\n{marker(key)}"}
        answer = github.ask("POST", f"/repos/{wish.repo}/issues/{wish.number}/comments", harmless=False, json=body)
        return comment_result(github.sure(answer, harmless=False))


def find_comment(far: Far, wish: Comment, keys: list[str]) -> Result | None:
    wanted = [marker(key) for key in keys]
    with Session(far.timeout) as http:
        for item in pages(GitHub(far, http), f"/repos/{wish.repo}/issues/{wish.number}/comments"):
            if any(mark in (item.get("body") or "") for mark in wanted):
                return comment_result(item)
    return None


def pages(github: GitHub, path: str) -> Iterator[dict[str, Any]]:
    """Every item of a paged list; OutcomeUnknown when the list has no end within reason."""
    for page in range(1, PAGES + 1):
        answer = github.ask("GET", path, harmless=True, per_page=PAGE, page=page)
        items = github.sure(answer, harmless=True)
        yield from items
        if len(items) < PAGE and 'rel="next"' not in answer.headers.get("link", ""):
            return
    raise OutcomeUnknown("the thread is too long to be searched")


def comment_result(item: dict[str, Any]) -> Result:
    return {"id": item.get("id"), "url": item.get("html_url", "")}


# --- a pull request ----------------------------------------------------------------------------------------------


def branch(key: str) -> str:
    """`nightdesk/<key>`; a key git would not take as a branch name is rewritten and keeps its hash."""
    safe = re.sub(r"[^A-Za-z0-9_./-]+|\.{2,}|/{2,}|\.lock(?=/|$)|(?<=/)\.|@\{", "-", key).strip("-./")
    if safe != key or len(safe) > 150:
        safe = f"{safe[:150]}-{hashlib.sha256(key.encode()).hexdigest()[:8]}".strip("-./")
    return f"nightdesk/{safe}"


def create_pr(far: Far, wish: PullRequest, key: str) -> Result:
    head = branch(key)
    with Session(far.timeout) as http:
        github = GitHub(far, http)
        push(github, wish, head)
        body = {"title": wish.title, "body": wish.body, "head": head, "base": wish.base}
        answer = github.ask("POST", f"/repos/{wish.repo}/pulls", harmless=False, json=body)
        if answer.status == 422:
            found = look_for_pull(github, wish.repo, [head])
            if found is not None:
                return found
        return pull_result(github.sure(answer, harmless=False), head)


def push(github: GitHub, wish: PullRequest, head: str) -> None:
    """One commit on top of `base`, then the branch; until the branch exists nobody sees any of it.

    Raises Refused when a branch of that name holds something else than was approved."""
    git = f"/repos/{wish.repo}/git"
    there = github.find(f"{git}/ref/heads/{quote(head)}")
    if there is None:
        parent = head_of_base(github, wish)
        commit = {"message": wish.title, "tree": tree_on(github, wish, parent), "parents": [parent]}
        sha = github.prepare(f"{git}/commits", commit)["sha"]
        answer = github.ask("POST", f"{git}/refs", harmless=True, json={"ref": f"refs/heads/{head}", "sha": sha})
        if answer.status == 422:  # somebody was faster: a twin of ours, or not
            there = github.find(f"{git}/ref/heads/{quote(head)}")
        if there is None:
            github.sure(answer, harmless=True)
            return
    if not is_approved(github, wish, there["object"]["sha"]):
        raise Refused(f"the branch {head} is there already and holds something else than was approved")


def is_approved(github: GitHub, wish: PullRequest, sha: str) -> bool:
    """Is it one commit on top of `base`, as it is or as it was, with exactly these files?

    A tree is named by what it holds, so the one that we would make is the one that is there, or another."""
    found = github.get(f"/repos/{wish.repo}/git/commits/{sha}")
    parents = [parent["sha"] for parent in found["parents"]]
    if len(parents) != 1 or found["tree"]["sha"] != tree_on(github, wish, parents[0]):
        return False
    return parents[0] == head_of_base(github, wish) or is_behind_base(github, wish, parents[0])


def head_of_base(github: GitHub, wish: PullRequest) -> str:
    return str(github.get(f"/repos/{wish.repo}/git/ref/heads/{quote(wish.base)}")["object"]["sha"])


def is_behind_base(github: GitHub, wish: PullRequest, sha: str) -> bool:
    """Was it the head of `base` once? The second page: the first one lists changed files, too."""
    between = f"/repos/{wish.repo}/compare/{quote(wish.base, safe='')}...{sha}"
    return bool(github.get(between, per_page=1, page=2)["ahead_by"] == 0)


def tree_on(github: GitHub, wish: PullRequest, parent: str) -> str:
    """The name of the tree of `parent` with our files in it."""
    git = f"/repos/{wish.repo}/git"
    root = github.get(f"{git}/commits/{parent}")["tree"]["sha"]
    tree = [entry(github, git, file) for file in wish.files]
    return str(github.prepare(f"{git}/trees", {"base_tree": root, "tree": tree})["sha"])


def entry(github: GitHub, git: str, file: File) -> dict[str, str]:
    content = base64.b64encode(file.content.encode()).decode()
    blob = github.prepare(f"{git}/blobs", {"content": content, "encoding": "base64"})["sha"]
    return {"path": file.path, "mode": "100644", "type": "blob", "sha": blob}


def files_now(far: Far, wish: PullRequest) -> Now:
    """The files as they are on `base`: a yes to this change is no yes to undoing what somebody else did since."""
    with Session(far.timeout) as http:
        github = GitHub(far, http)
        found = {file.path: github.find(contents(wish.repo, file.path, wish.base)) for file in wish.files}
    target = f"{wish.repo}@{wish.base}: {', '.join(sorted(found))}"
    versions = {path: version_of(each) for path, each in found.items()}
    return Now(target, canonical.digest(versions), {path: shown_of(each) for path, each in found.items()})


def version_of(found: Any) -> Any:
    """Names what stands at a path: a file, or all that is in a folder; None for nothing."""
    return [version_of(each) for each in found] if isinstance(found, list) else (found or {}).get("sha")


def shown_of(found: Any) -> str | None:
    """Its text, or what it is when it has none that can be shown; None only when nothing is there."""
    if isinstance(found, list):
        return f"a folder of {len(found):,} entries"
    text = text_of(found)
    return f"{found.get('size', 0):,} bytes that cannot be shown" if text is None and found is not None else text


def files_after(wish: PullRequest, state: Any) -> dict[str, str]:
    return {file.path: file.content for file in wish.files}


def find_pull(far: Far, wish: PullRequest, keys: list[str]) -> Result | None:
    with Session(far.timeout) as http:
        return look_for_pull(GitHub(far, http), wish.repo, [branch(key) for key in keys])


def look_for_pull(github: GitHub, repo: str, heads: list[str]) -> Result | None:
    """An open or merged pull request from one of our branches."""
    owner = repo.partition("/")[0]
    for head in heads:
        for item in github.get(f"/repos/{repo}/pulls", head=f"{owner}:{head}", state="all", per_page=PAGE):
            ours = (item.get("head") or {}).get("ref", head) == head
            if ours and (item.get("state") == "open" or item.get("merged_at")):
                return pull_result(item, head)
    return None


def pull_result(item: dict[str, Any], head: str) -> Result:
    return {"number": item.get("number"), "url": item.get("html_url", ""), "branch": head}


# --- the kinds ---------------------------------------------------------------------------------------------------


def preview_pull(wish: PullRequest) -> list[dict[str, str]]:
    about = {"label": wish.title, "text": wish.body, "form": "markdown"}
    return [about, *({"label": file.path, "text": file.content, "form": "code"} for file in wish.files)]


GITHUB_COMMENT = register(
    Kind(
        name="github.comment",
        system="github",
        tier=Tier.LOW,
        safety="probe",
        arguments=Comment,
        deliver=comment,
        probe=find_comment,
        title=lambda wish: f"Comment on {wish.repo}#{wish.number}",
        preview=lambda wish: [{"label": spoken("Comment"), "text": wish.body, "form": "markdown"}],
        pretend=lambda wish, number: {"id": number, "url": f"/practice#item-{number}"},
        reversible="The comment can be deleted; mails about it cannot be called back.",
        blast_radius="everybody who follows the issue",
    )
)
GITHUB_CREATE_PR = register(
    Kind(
        name="github.create_pr",
        system="github",
        tier=Tier.MEDIUM,
        safety="probe",
        arguments=PullRequest,
        deliver=create_pr,
        probe=find_pull,
        title=lambda wish: f"Open a pull request in {wish.repo}: {wish.title}",
        preview=preview_pull,
        current=files_now,
        after=files_after,
        pretend=lambda wish, number: {"number": number, "url": f"/practice#item-{number}"},
        reversible="Close the pull request and delete its branch; nothing is merged.",
        blast_radius="everybody who watches the repository",
    )
)
