"""Every kind with a far side that can be counted and that misbehaves on request: what the shared tests walk through."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.github import FakeGitHub
from tests.mailbox import Mailbox
from tests.recorder import Recorder, Reply
from tests.stripe import FakeStripe

PULL = {"repo": "acme/shop", "base": "main", "title": "Fix the typo", "files": [{"path": "a.md", "content": "x"}]}
COMMENT = {"repo": "acme/shop", "number": 12, "body": "Thank you."}
MERGE = {"repo": "acme/shop", "number": 7, "sha": "a" * 40}
REFUND = {"payment": "ch_1", "amount": 4820, "currency": "eur"}
MAIL = {"to": ["ann@example.org", "ben@example.org"], "subject": "Night", "body": "All is well.\n"}


@dataclass
class World:
    """A kind, how to call it, and how often its effect happened. `steps` calls come before the one that counts: two of
    them look at its target, where the kind has one."""

    kind: str
    arguments: dict[str, Any]
    system: str
    config: dict[str, Any]
    secrets: dict[str, Any]
    far: Recorder | Mailbox
    done: Callable[[], int]
    steps: int = 0

    def misbehave(self, fault: Any) -> None:
        """The call that counts fails like this, once."""
        self.far.next(*[None] * self.steps, as_mail(fault) if isinstance(self.far, Mailbox) else fault)


def as_mail(fault: Any) -> Any:
    """What a mail server says where a web server gives this status: in trouble, too many, no."""
    number = fault[0] if isinstance(fault, tuple) else fault
    return {500: (451, "DATA"), 429: (421, "MAIL"), 422: (550, "RCPT")}.get(number, fault)


@contextmanager
def github(kind: str, arguments: dict[str, Any], shelf: str, steps: int = 0) -> Iterator[World]:
    hub = FakeGitHub()
    with Recorder(hub.answer) as far:
        config, done = {"api_url": far.url}, lambda: len(getattr(hub, shelf))
        yield World(kind, arguments, "github", config, {"token": "SECRET-123"}, far, done, steps)


@contextmanager
def stripe() -> Iterator[World]:
    bank = FakeStripe()
    with Recorder(bank.answer) as far:
        config, done = {"api_url": far.url}, lambda: len(bank.refunds)
        yield World("stripe.refund", REFUND, "stripe", config, {"key": "SECRET-123"}, far, done, 3)


@contextmanager
def http() -> Iterator[World]:
    keys: set[str] = set()

    def answer(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        keys.add(headers["idempotency-key"])
        return 201, {}, {"ok": True}

    with Recorder(answer) as far:
        config, arguments = {"hosts": [far.url]}, {"url": f"{far.url}/orders", "json": {"cups": 2}}
        secrets = {"Authorization": "SECRET-123"}
        yield World("http.request", arguments, "http", config, secrets, far, lambda: len(keys))


@contextmanager
def chat(system: str, good: Any, **config: Any) -> Iterator[World]:
    """A webhook (a token with `config`) that counts the messages it took."""
    taken: list[bytes] = []

    def answer(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        taken.append(body)
        return 200, {}, good

    with Recorder(answer) as far:
        secrets = {"token": "SECRET-123"} if config else {"webhook_url": f"{far.url}/SECRET-123"}
        config = {**config, "api_url": far.url} if config else {}
        arguments = {"text": "It is night."}
        yield World(f"{system}.post", arguments, system, config, secrets, far, lambda: len(taken))


@contextmanager
def notify() -> Iterator[World]:
    with Recorder() as far:
        secrets = {"urls": [f"json://127.0.0.1:{far.port}/x"]}
        arguments = {"text": "It is night."}
        yield World("notify.send", arguments, "notify", {}, secrets, far, lambda: len(far.seen))


@contextmanager
def mail() -> Iterator[World]:
    with Mailbox() as far:
        config = {"host": "127.0.0.1", "port": far.port, "security": "none", "sender": "desk@example.org"}
        yield World("email.send", MAIL, "smtp", config, {}, far, lambda: len(far.taken))


FARS: dict[str, Callable[[], Any]] = {
    "github.comment": lambda: github("github.comment", COMMENT, "comments"),
    "github.create_pr": lambda: github("github.create_pr", PULL, "pulls", 9),
    "github.merge": lambda: github("github.merge", MERGE, "merges", 2),
    "stripe.refund": stripe,
    "http.request": http,
    "slack.post": lambda: chat("slack", {"ok": True, "ts": "1.2"}, channel="C1"),
    "slack.post by webhook": lambda: chat("slack", b"ok"),
    "feishu.post": lambda: chat("feishu", {"code": 0}),
    "wecom.post": lambda: chat("wecom", {"errcode": 0, "errmsg": "ok"}),
    "email.send": mail,
    "notify.send": notify,
}
