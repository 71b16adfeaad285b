"""What a model may look at: an address, events, watched files, files at GitHub. Nothing here changes anything."""

import re
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from approvals import reads
from approvals.connectors.github import REPO
from approvals.errors import NoConnection, NotSent, Refused
from project.lib.egress import EgressError, Session
from triggers import search
from triggers.errors import NotValid
from triggers.models import Event
from triggers.sources.file import refuse_outside

PATIENCE = timedelta(seconds=30)
LONGEST = 20_000  # characters of one answer
EXCERPT = 500  # of an event's payload
FOUND = 10  # events


class CannotRead(Exception):
    """It is not there, or may not be looked at."""


def http_get(host: str, url: str) -> dict[str, Any]:
    """Fetch an address of the public internet by GET and return its status and the beginning of its text."""
    try:
        if host and urlsplit(url).hostname != host:
            raise CannotRead(f"only addresses of {host} may be read")
        with Session(PATIENCE) as http:
            answer = http.call("GET", url, follow=not host)
    except (EgressError, ValueError) as error:  # ValueError: this is no address
        raise CannotRead(str(error)) from None
    text = answer.body.decode(errors="replace")
    return {"status": answer.status, "type": answer.headers.get("content-type", ""), **beginning(text)}


def event_search(words: str) -> list[dict[str, Any]]:
    """Find the newest events that hold all these words, in their facts or in their payload."""
    found = Event.objects.filter(search.matching(words[:200], payloads=True)).order_by("-pk")[:FOUND]
    return [
        {"event": f"E-{row.pk}", "type": row.type, "subject": row.subject, "received_at": row.received_at.isoformat()}
        | {"payload": search.text_of(row)[:EXCERPT]}
        for row in found
    ]


def file_read(path: str) -> dict[str, Any]:
    """Read a text file in one of the folders that the desk watches."""
    try:
        place: Path = refuse_outside(path)
        if not stat.S_ISREG(place.stat().st_mode):  # a pipe would be waited at for ever
            raise CannotRead("it is no regular file")
        with place.open(encoding="utf-8", errors="replace") as file:
            return beginning(file.read(LONGEST + 1))
    except NotValid as refused:
        raise CannotRead(refused.detail) from None
    except OSError as error:
        raise CannotRead(error.strerror or "it cannot be opened") from None


def github_read(repo: str, path: str, ref: str = "main") -> dict[str, Any]:
    """Read a text file of a repository at GitHub, on a branch, tag or commit."""
    if not re.fullmatch(REPO, repo) or {"", ".", ".."}.intersection([*repo.split("/"), *path.split("/")]):
        raise CannotRead("`repo` is as team/name, and `path` leads to a file inside of it")
    try:
        text = reads.github_file(repo, path, ref)
    except (NoConnection, NotSent, Refused) as error:
        raise CannotRead(str(error)) from None
    if text is None:
        raise CannotRead(f"there is no text file {path} in {repo} at {ref}")
    return beginning(text)


def beginning(text: str) -> dict[str, Any]:
    return {"text": text[:LONGEST], "is_cut": len(text) > LONGEST}


READS: dict[str, Callable[..., Any]] = {
    "http.get": http_get,
    "event.search": event_search,
    "file.read": file_read,
    "github.read": github_read,
}
