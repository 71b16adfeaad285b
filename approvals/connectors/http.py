"""`http.request`: any web address, with the action's key as `Idempotency-Key`.

The credentials of a connection go to the hosts it names and nowhere else: an address is an argument, so a handler that
was talked into another one must not carry them there.
"""

import json as jsonlib
from datetime import timedelta
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from pydantic import Field, JsonValue, field_validator, model_validator

from approvals import hiding
from approvals.connectors.answers import BUSY, TOO_MANY, attempt, judge
from approvals.errors import NotSent, NotValid
from approvals.kinds import CALL_TIMEOUT, Arguments, Far, Kind, Now, Result, Unbound, facts, register
from approvals.tiers import Tier
from project.lib.egress import Answer, Garbled, Session, name_looked_up
from project.lib.language import spoken

KEPT_BODY = 64 * 1024  # bytes of the answer that become the result
KEPT_HEADERS = ("content-type", "location", "etag", "x-request-id")
RESERVED = ("idempotency-key", "host", "content-length", "transfer-encoding", "connection")
QUIET = ("GET", "HEAD", "OPTIONS")
CHANGES = ("PUT", "PATCH", "DELETE")  # of what a GET of the same address shows
GONE = (404, 410)
ABSENT = "absent"  # the version of what is not there
LARGEST_STATE = 1024 * 1024  # bytes of what is there now
MOVED = 412  # If-Match or If-None-Match does not hold
NATURAL = (*QUIET, "PUT")  # the same content at the same address again changes nothing (RFC 9110, 9.2.2)


class HttpRequest(Arguments):
    """`json` and `body` exclude each other. Credentials belong into the connection's secrets, one a header; those
    in named places here (headers, query, members of `json`) are hidden, those inside `body` cannot be."""

    method: Literal["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    url: str = Field(min_length=1, max_length=4000)
    headers: dict[str, str] = {}
    json_: JsonValue = Field(default=None, alias="json")
    body: str | None = Field(default=None, max_length=1024 * 1024)
    timeout: float = Field(default=CALL_TIMEOUT.total_seconds(), gt=0, le=CALL_TIMEOUT.total_seconds())

    @field_validator("url")
    @classmethod
    def is_a_web_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be an http or https address")
        if parts.username or parts.password:
            raise ValueError("may not carry a user name or password")
        origin(f"{parts.scheme}://{parts.netloc}")
        name_looked_up(url)
        return url

    @field_validator("headers")
    @classmethod
    def are_free(cls, headers: dict[str, str]) -> dict[str, str]:
        taken = [name for name in headers if name.lower() in RESERVED]
        if taken:
            raise ValueError(f"{taken[0]} is set by the desk")
        return headers

    @model_validator(mode="after")
    def has_one_body(self) -> "HttpRequest":
        if self.json_ is not None and self.body is not None:
            raise ValueError("give json or body, not both")
        return self

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def shown_host(self) -> str:
        """The host, and in other letters than ASCII also the name behind it, so that no look-alike passes."""
        return self.host if self.host.isascii() else f"{self.host} ({name_looked_up(self.url)})"


def header_safe(key: str) -> str:
    """A key as a header value: printable ASCII stays, the rest is percent-encoded."""
    return quote(key, safe="!\"#$&'()*+,-./:;<=>?@[]^_`{|}~ ")


def origin(text: str) -> str:
    """`https://host:port` of an address or an entry of `hosts`; an entry without a scheme means https.

    Raises ValueError for what is neither."""
    parts = urlsplit(text if "://" in text else f"https://{text}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ValueError("a host is written host, host:port or https://host")
    return f"{parts.scheme}://{parts.hostname.rstrip('.')}:{parts.port or {'http': 80, 'https': 443}[parts.scheme]}"


def stays_home(config: dict[str, Any], has_secrets: bool, asked: HttpRequest) -> None:
    """Raises NotValid when the connection does not lead to that host."""
    hosts = config.get("hosts") or []
    if not hosts and not has_secrets:
        return
    parts = urlsplit(asked.url)
    if origin(f"{parts.scheme}://{parts.netloc}") not in [origin(entry) for entry in hosts]:
        named = ", ".join(hosts) or "none; add it there"
        raise NotValid(f"this connection does not lead to {asked.host} (its hosts: {named})", field="url")


def deliver(far: Far, asked: HttpRequest, key: str) -> Result:
    headers = headers_of(far, asked, {"Idempotency-Key": header_safe(key)} | guard(far.expected))
    content = None if asked.body is None else asked.body.encode()
    with Session(min(far.timeout, timedelta(seconds=asked.timeout)), max_answer=KEPT_BODY) as http:
        answer = attempt(
            lambda: http.call(asked.method, asked.url, headers=headers, json=asked.json_, content=content),
            harmless=asked.method in QUIET,
        )
    if answer.status == MOVED and far.expected:
        raise NotSent(f"{answer.method} {answer.host}: what is there is no longer what people saw")
    judge(answer, harmless=asked.method in QUIET)
    result: Result = {
        "status": answer.status,
        "headers": {name: answer.headers[name] for name in KEPT_HEADERS if name in answer.headers},
        "body": answer.body.decode("utf-8", "replace").replace("\x00", "\ufffd"),
    }
    if answer.truncated:
        result["truncated"] = True
    return result


def headers_of(far: Far, asked: HttpRequest, desks: dict[str, str]) -> dict[str, str]:
    """What goes out with the call: the desk's own and the connection's win over those that were asked for."""
    ours = desks | own_headers(far, asked)
    taken = {name.lower() for name in ours}
    return {name: value for name, value in asked.headers.items() if name.lower() not in taken} | ours


def own_headers(far: Far, asked: HttpRequest) -> dict[str, str]:
    """The connection's credentials, one a header. Raises NotValid when they may not go there."""
    stays_home(far.config, bool(far.secrets), asked)
    return {name: str(value) for name, value in far.secrets.items()}


def guard(version: str) -> dict[str, str]:
    """Lets the far side itself refuse when its state moved in the last moment (RFC 9110, 13.1)."""
    if version == ABSENT:
        return {"If-None-Match": "*"}
    return {"If-Match": version} if version.startswith('"') else {}


def current(far: Far, asked: HttpRequest) -> Now | Unbound | None:
    """What a GET of the address shows; Unbound where that is not told, or names no version.

    It carries nothing of what was asked for but the address: by a header (`Accept`, `Range`, a condition) who asks
    would choose whether there is something to bind, and what people see of it."""
    if asked.method not in CHANGES:
        return None
    with Session(min(far.timeout, timedelta(seconds=asked.timeout)), max_answer=LARGEST_STATE) as http:
        headers = own_headers(far, asked)
        answer = attempt(lambda: http.call("GET", asked.url, headers=headers), harmless=True)
    target = hiding.cover_query(asked.url)
    if answer.status in GONE:
        return Now(target, ABSENT, None)
    if 300 <= answer.status < 500 and answer.status not in (*BUSY, TOO_MANY):
        return Unbound("unread", answer.status)  # it may be written, yet not read, or elsewhere
    judge(answer, harmless=True)
    version = answer.headers.get("etag") or answer.headers.get("last-modified")
    return Now(target, version, content_of(answer)) if version else Unbound("nameless")


def content_of(answer: Answer) -> Any:
    """JSON, or the text, or how much there is of what is neither."""
    if answer.truncated:
        return f"more than {LARGEST_STATE:,} bytes"
    try:
        return answer.json()
    except Garbled:
        try:
            return answer.body.decode()
        except UnicodeDecodeError:
            return f"{len(answer.body):,} bytes that are no text"


def after(asked: HttpRequest, state: Any) -> Any:
    """A DELETE leaves nothing; a PATCH with members replaces these, as most do; a PUT leaves what it sends."""
    if asked.method == "DELETE":
        return None
    sent: Any = asked.json_ if asked.body is None else asked.body
    merges = asked.method == "PATCH" and isinstance(sent, dict) and isinstance(state, dict)
    return {**state, **sent} if merges else sent


def preview(asked: HttpRequest) -> list[dict[str, str]]:
    blocks = [{"label": spoken("Request"), "text": f"{asked.method} {asked.url}", "form": "code"}]
    if not asked.host.isascii():
        blocks += facts([(spoken("Host"), asked.shown_host)])
    if asked.headers:
        lines = "\n".join(f"{name}: {value}" for name, value in asked.headers.items())
        blocks.append({"label": spoken("Headers"), "text": lines, "form": "code"})
    if asked.json_ is not None:
        blocks.append(
            {"label": spoken("Body"), "text": jsonlib.dumps(asked.json_, indent=2, ensure_ascii=False), "form": "json"}
        )
    if asked.body is not None:
        blocks.append({"label": spoken("Body"), "text": asked.body, "form": "code"})
    return blocks


HTTP_REQUEST = register(
    Kind(
        name="http.request",
        system="http",
        tier=Tier.MEDIUM,
        safety="keyed",
        is_natural=lambda asked: asked.method in NATURAL,
        hides=True,
        manner=("timeout",),
        fits=stays_home,
        arguments=HttpRequest,
        deliver=deliver,
        title=lambda asked: f"{asked.method.capitalize()} to {asked.shown_host}",
        preview=preview,
        current=current,
        after=after,
        pretend=lambda asked, number: {"status": 200, "headers": {}, "body": f"practice answer {number}"},
        blast_radius="whoever is behind that address",
    )
)
