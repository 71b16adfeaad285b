"""`http.request`: any web address, with the action's key as `Idempotency-Key`."""

import json as jsonlib
from datetime import timedelta
from typing import Literal
from urllib.parse import quote, urlsplit

from pydantic import Field, JsonValue, field_validator, model_validator

from approvals.connectors.answers import attempt, judge
from approvals.kinds import CALL_TIMEOUT, Arguments, Far, Kind, Result, register
from approvals.tiers import Tier
from project.lib.egress import Session

KEPT_BODY = 64 * 1024  # bytes of the answer that become the result
KEPT_HEADERS = ("content-type", "location", "etag", "x-request-id")
RESERVED = ("idempotency-key", "host", "content-length", "transfer-encoding", "connection")
QUIET = ("GET", "HEAD", "OPTIONS")


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


def header_safe(key: str) -> str:
    """A key as a header value: printable ASCII stays, the rest is percent-encoded."""
    return quote(key, safe="!\"#$&'()*+,-./:;<=>?@[]^_`{|}~ ")


def deliver(far: Far, asked: HttpRequest, key: str) -> Result:
    headers = {**asked.headers, **{name: str(value) for name, value in far.secrets.items()}}
    headers["Idempotency-Key"] = header_safe(key)
    content = None if asked.body is None else asked.body.encode()
    with Session(min(far.timeout, timedelta(seconds=asked.timeout)), max_answer=KEPT_BODY) as http:
        answer = attempt(
            lambda: http.call(asked.method, asked.url, headers=headers, json=asked.json_, content=content),
            harmless=asked.method in QUIET,
        )
    judge(answer, harmless=asked.method in QUIET)
    result: Result = {
        "status": answer.status,
        "headers": {name: answer.headers[name] for name in KEPT_HEADERS if name in answer.headers},
        "body": answer.body.decode("utf-8", "replace").replace("\x00", "\ufffd"),
    }
    if answer.truncated:
        result["truncated"] = True
    return result


def preview(asked: HttpRequest) -> list[dict[str, str]]:
    blocks = [{"label": "Request", "text": f"{asked.method} {asked.url}", "form": "code"}]
    if asked.headers:
        lines = "\n".join(f"{name}: {value}" for name, value in asked.headers.items())
        blocks.append({"label": "Headers", "text": lines, "form": "code"})
    if asked.json_ is not None:
        blocks.append(
            {"label": "Body", "text": jsonlib.dumps(asked.json_, indent=2, ensure_ascii=False), "form": "json"}
        )
    if asked.body is not None:
        blocks.append({"label": "Body", "text": asked.body, "form": "code"})
    return blocks


HTTP_REQUEST = register(
    Kind(
        name="http.request",
        system="http",
        tier=Tier.MEDIUM,
        safety="keyed",
        hides=True,
        arguments=HttpRequest,
        deliver=deliver,
        title=lambda asked: f"{asked.method.capitalize()} to {asked.host}",
        preview=preview,
        pretend=lambda asked, number: {"status": 200, "headers": {}, "body": f"practice answer {number}"},
        blast_radius="whoever is behind that address",
    )
)
