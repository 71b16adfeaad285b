"""A GitHub small enough to read: the calls our connector makes, for `Recorder(FakeGitHub().answer)`."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.recorder import Reply


@dataclass
class FakeGitHub:
    """One repository `acme/shop` with a branch `main`."""

    comments: list[dict[str, Any]] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    refs: dict[str, str] = field(default_factory=lambda: {"main": "c0"})
    commits: dict[str, Any] = field(default_factory=lambda: {"c0": {"tree": {"sha": "t0"}, "parents": []}})
    blobs: dict[str, str] = field(default_factory=dict)
    trees: dict[str, Any] = field(default_factory=dict)
    page: int = 100
    merges: list[str] = field(default_factory=list)  # heads that were merged
    head: str = "a" * 40  # of pull request 7

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        where, query = urlsplit(path).path, parse_qs(urlsplit(path).query)
        data = json.loads(body) if body else None
        for pattern, verb, call in self.routes():
            found = re.fullmatch(pattern, unquote(where))
            if found and verb == method:
                return call(data, query, *found.groups())
        return 404, {}, {"message": "Not Found"}

    def routes(self) -> list[tuple[str, str, Any]]:
        git = "/repos/acme/shop/git"
        return [
            (r"/repos/acme/shop/issues/(\d+)/comments", "POST", self.add_comment),
            (r"/repos/acme/shop/issues/(\d+)/comments", "GET", self.list_comments),
            (rf"{git}/ref/heads/(.+)", "GET", self.get_ref),
            (rf"{git}/commits/(.+)", "GET", lambda data, query, sha: (200, {}, self.commits[sha])),
            (rf"{git}/blobs", "POST", self.keep("blobs")),
            (rf"{git}/trees", "POST", self.keep("trees")),
            (rf"{git}/commits", "POST", self.keep("commits")),
            (rf"{git}/refs", "POST", self.add_ref),
            (r"/repos/acme/shop/compare/(.+)\.\.\.(.+)", "GET", self.compare),
            (r"/repos/acme/shop/pulls/7", "GET", self.get_pull),
            (r"/repos/acme/shop/pulls/7/merge", "PUT", self.merge),
            (r"/repos/acme/shop/pulls", "POST", self.add_pull),
            (r"/repos/acme/shop/pulls", "GET", self.list_pulls),
        ]

    def add_comment(self, data: Any, query: Any, number: str) -> Reply:
        item = {"id": len(self.comments) + 1, "issue": number, "html_url": f"https://gh/{number}", **data}
        self.comments.append(item)
        return 201, {}, item

    def list_comments(self, data: Any, query: Any, number: str) -> Reply:
        page, size = int(query["page"][0]), min(self.page, int(query["per_page"][0]))
        mine = [item for item in self.comments if item["issue"] == number]
        more = {"link": '<https://gh?page=2>; rel="next"'} if len(mine) > page * size else {}
        return 200, more, mine[(page - 1) * size : page * size]

    def keep(self, shelf: str) -> Any:
        def store(data: Any, query: Any) -> Reply:
            sha = hashlib.sha1(json.dumps(data).encode()).hexdigest()
            getattr(self, shelf)[sha] = as_commit(data) if shelf == "commits" else data
            return 201, {}, {"sha": sha}

        return store

    def get_ref(self, data: Any, query: Any, name: str) -> Reply:
        if name not in self.refs:
            return 404, {}, {"message": "Not Found"}
        return 200, {}, {"object": {"sha": self.refs[name]}}

    def add_ref(self, data: Any, query: Any) -> Reply:
        name = data["ref"].removeprefix("refs/heads/")
        if name in self.refs:
            return 422, {}, {"message": "Reference already exists"}
        self.refs[name] = data["sha"]
        return 201, {}, {"ref": data["ref"]}

    def compare(self, data: Any, query: Any, base: str, sha: str) -> Reply:
        return 200, {}, {"ahead_by": len(self.line(sha) - self.line(self.refs[base]))}

    def line(self, sha: str) -> set[str]:
        """A commit and all before it."""
        return {sha}.union(*(self.line(parent["sha"]) for parent in self.commits[sha]["parents"]))

    def push(self, name: str, tree: Any, *, on: str) -> str:
        """Somebody commits to a branch."""
        sha = f"c{len(self.commits)}"
        self.commits[sha] = as_commit({"tree": tree, "parents": [on]})
        self.refs[name] = sha
        return sha

    def get_pull(self, data: Any, query: Any) -> Reply:
        merged = {"merged": bool(self.merges), "merge_commit_sha": "m1" if self.merges else None}
        return 200, {}, {"number": 7, "head": {"sha": self.head}, "html_url": "https://gh/pull/7", **merged}

    def merge(self, data: Any, query: Any) -> Reply:
        if self.merges:
            return 405, {}, {"message": "Pull Request is not mergeable"}
        if data["sha"] != self.head:
            return 409, {}, {"message": "Head branch was modified. Review and try the merge again."}
        self.merges.append(data["sha"])
        return 200, {}, {"sha": "m1", "merged": True}

    def add_pull(self, data: Any, query: Any) -> Reply:
        if any(pull["head"]["ref"] == data["head"] and pull["state"] == "open" for pull in self.pulls):
            return 422, {}, {"message": "Validation Failed"}
        number = len(self.pulls) + 1
        item = {**data, "number": number, "state": "open", "merged_at": None, "html_url": f"https://gh/pull/{number}"}
        item["head"] = {"ref": data["head"]}
        self.pulls.append(item)
        return 201, {}, item

    def list_pulls(self, data: Any, query: Any) -> Reply:
        head = query["head"][0].partition(":")[2]
        return 200, {}, [pull for pull in self.pulls if pull["head"]["ref"] == head]


def as_commit(data: Any) -> Any:
    """As it is read, from what was sent."""
    return {**data, "tree": {"sha": data["tree"]}, "parents": [{"sha": each} for each in data["parents"]]}
