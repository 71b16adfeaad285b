"""The guarded way out: every HTTP call the desk makes on somebody's behalf goes through a `Session`.

A name is resolved once, every answer must be an address of the public internet (or be named in EGRESS_ALLOW), and
the connection goes to the address that was checked, under the name that was asked for (Host header and TLS name).
Proxies of the environment are ignored. Nothing here puts a header value, a query, a path or a body into the text of
an error: method, host and status are all that is said.
"""

from __future__ import annotations

import json as jsonlib
import logging
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from threading import Thread
from types import TracebackType
from typing import Any

import httpcore
import httpx
from django.conf import settings

from project.lib import spans
from project.lib.addresses import AllowList, IPAddress, is_public, port_is_usual, read_address

BUDGET = timedelta(seconds=30)  # for everything one session does
CONNECT_TIMEOUT = 10.0  # seconds, also for the name
MAX_ANSWER = 1024 * 1024  # bytes of an answer that are read; the rest is cut off and said so
MAX_HOPS = 5
LONGEST_WAIT = timedelta(days=3650)  # that is read from an answer; how much of it is kept, callers decide

logging.getLogger("httpx").setLevel(logging.WARNING)  # its INFO line prints the whole address with its query
logging.getLogger("httpcore").setLevel(logging.WARNING)  # its DEBUG lines print headers

Resolver = Callable[[str, int], list[str]]


class EgressError(Exception):
    """A call to the outside went wrong."""


class Forbidden(EgressError):
    """The desk may not call this address."""


class Unsendable(EgressError):
    """The request itself cannot be put on the wire."""


class Unreachable(EgressError):
    """No connection could be made: nothing was sent."""


class NoAnswer(EgressError):
    """The request went out, or part of it, and no whole answer came back."""


class Garbled(EgressError):
    """The far side answered something other than the JSON it owed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `body` is at most the session's cap; `truncated` says that more was sent."""

    method: str
    host: str
    status: int
    headers: httpx.Headers
    body: bytes
    truncated: bool = False

    def json(self) -> Any:
        """Raises Garbled; the text of a broken answer is not repeated."""
        if self.truncated:
            raise Garbled(f"{self.method} {self.host}: the answer is over {len(self.body)} bytes")
        try:
            return jsonlib.loads(self.body)
        except ValueError:
            raise Garbled(f"{self.method} {self.host}: status {self.status}, but the answer is not JSON") from None

    @property
    def retry_after(self) -> timedelta | None:
        """Retry-After in seconds or as a date, never negative; None when absent or unreadable."""
        value = self.headers.get("retry-after", "").strip()
        if value.isascii() and value.isdigit():
            return min(timedelta(seconds=int(value[:12])), LONGEST_WAIT)
        try:
            return min(max(parsedate_to_datetime(value) - datetime.now(UTC), timedelta(0)), LONGEST_WAIT)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None


class Session:
    """A short-lived client with one time budget for all its calls; use it as a context manager."""

    def __init__(
        self,
        budget: timedelta = BUDGET,
        *,
        allow: Iterable[str] | None = None,
        resolver: Resolver | None = None,
        max_answer: int = MAX_ANSWER,
    ) -> None:
        self.guard = Guard(AllowList(settings.EGRESS_ALLOW if allow is None else allow), resolver or system_resolver)
        self.max_answer = max_answer
        trust()  # reading the authorities for the first time is no part of the budget
        self.deadline = Deadline(budget)
        self.client = httpx.Client(
            transport=_Transport(self.guard, self.deadline),
            timeout=httpx.Timeout(budget.total_seconds(), connect=CONNECT_TIMEOUT),
            trust_env=False,
            follow_redirects=False,
            headers={"user-agent": "nightdesk", "accept-encoding": "identity"},
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.client.close()

    def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str | int] | None = None,
        json: Any = None,
        content: bytes | str | None = None,
        follow: bool = False,
    ) -> Answer:
        """One request, one whole answer of any status. With `follow` up to five redirects, each checked like the first.

        Raises Forbidden, Unsendable, Unreachable (nothing was sent in these three) and NoAnswer.
        """
        sent = {**(headers or {}), **spans.headers(headers or {})}
        try:
            request = self.client.build_request(
                method, url, headers=sent, params=params, json=json, content=content, timeout=None
            )
        except (httpx.InvalidURL, ValueError, TypeError):  # UnicodeError is a ValueError; their text holds the value
            raise Unsendable(f"{method}: the address, a header or the body cannot be sent") from None
        hops = MAX_HOPS if follow else 0
        while True:
            response, answer = self._send(request)
            following = response.next_request
            if following is None or hops == 0:
                return answer
            if request.url.scheme == "https" and following.url.scheme == "http":
                raise Forbidden(f"{method} {request.url.host}: a redirect from https down to http is not followed")
            request, hops = following, hops - 1

    def _send(self, request: httpx.Request) -> tuple[httpx.Response, Answer]:
        method, host = request.method, request.url.host
        self.guard.check_url(request.url)
        try:
            response = self.client.send(request, stream=True)
            try:
                body, truncated = self._read(response)
            finally:
                response.close()
        except EgressError as error:
            raise type(error)(f"{method} {host}: {error}") from None
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Unreachable(f"{method} {host}: {_why_no_connection(error)}") from None
        except httpx.TimeoutException:
            raise NoAnswer(f"{method} {host}: no answer within {self.deadline.seconds:g} s") from None
        except httpx.LocalProtocolError:
            raise Unsendable(f"{method} {host}: a header cannot be sent") from None
        except httpx.HTTPError as error:
            raise NoAnswer(f"{method} {host}: the connection broke ({type(error).__name__})") from None
        return response, Answer(method, host, response.status_code, response.headers, body, truncated)

    def _read(self, response: httpx.Response) -> tuple[bytes, bool]:
        raw = bytearray()
        for chunk in response.iter_raw():
            raw += chunk
            if len(raw) > self.max_answer:
                break
        encoding = response.headers.get("content-encoding", "").lower()
        return _inflate(bytes(raw), encoding, self.max_answer)


def name_looked_up(url: str) -> str:
    """The host of an address as the network asks for it, in ASCII. Raises ValueError where that makes no sense."""
    try:
        return httpx.URL(url).raw_host.decode()
    except httpx.InvalidURL:
        raise ValueError("names no host that can be looked up") from None


def check_url(url: str, *, allow: Iterable[str] | None = None, resolver: Resolver | None = None) -> None:
    """May the desk call this address? Asked when one is saved; raises Forbidden, or Unreachable for an unknown name."""
    guard = Guard(AllowList(settings.EGRESS_ALLOW if allow is None else allow), resolver or system_resolver)
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise Forbidden("this is not a web address") from None
    guard.check_url(parsed)
    guard.addresses(parsed.host, parsed.port or {"http": 80, "https": 443}[parsed.scheme])


class Guard:
    """Which addresses may be called, and which of a name's addresses a connection goes to."""

    def __init__(
        self, allow: AllowList, resolver: Resolver, usual: Callable[[int], bool] = port_is_usual, trade: str = "web"
    ) -> None:
        self.allow = allow
        self.resolver = resolver
        self.usual = usual
        self.trade = trade  # what the usual ports are for

    def check_url(self, url: httpx.URL) -> None:
        if url.scheme not in ("http", "https"):
            raise Forbidden("only http and https addresses are called")
        if url.userinfo:
            raise Forbidden("an address may not carry a user name or password")
        if not url.host:
            raise Forbidden("the address names no host")

    def addresses(self, host: str, port: int) -> list[str]:
        """All addresses of `host`, each of them allowed. Raises Forbidden, Unreachable."""
        if not self.usual(port) and not self.allow.names(host, port):
            raise Forbidden(f"port {port} is not a {self.trade} port; EGRESS_ALLOW can name it")
        answers = self.resolver(host, port)
        for answer in answers:
            self._check(host, port, read_address(answer))
        return answers

    def _check(self, host: str, port: int, address: IPAddress) -> None:
        if not (is_public(address) or self.allow.permits(host, port, address)):
            raise Forbidden("this is a private or reserved address; EGRESS_ALLOW can name it")


def system_resolver(host: str, port: int) -> list[str]:
    """Ask the system, at most `CONNECT_TIMEOUT` seconds; raises Unreachable."""
    found: list[str] = []

    def ask() -> None:
        try:
            found.extend(str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError):
            return

    asking = Thread(target=ask, daemon=True)  # getaddrinfo knows no time limit of its own
    asking.start()
    asking.join(CONNECT_TIMEOUT)
    if asking.is_alive() or not found:
        raise Unreachable("the name has no address")
    return list(dict.fromkeys(found))


class Deadline:
    """One end for all operations of a session: a far side that drips a byte at a time cannot hold us for ever."""

    def __init__(self, budget: timedelta) -> None:
        self.seconds = budget.total_seconds()
        self.at = time.monotonic() + self.seconds

    def cap(self, timeout: float | None) -> float:
        left = self.at - time.monotonic()
        return max(0.001, left if timeout is None else min(timeout, left))

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.at


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self.inner = inner
        self.deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self.deadline.is_over:
            raise httpcore.ReadTimeout
        return self.inner.read(max_bytes, self.deadline.cap(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self.deadline.is_over:
            raise httpcore.WriteTimeout
        self.inner.write(buffer, self.deadline.cap(timeout))

    def close(self) -> None:
        self.inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secured = self.inner.start_tls(ssl_context, server_hostname, self.deadline.cap(timeout))
        return _Stream(secured, self.deadline)

    def get_extra_info(self, info: str) -> Any:
        return self.inner.get_extra_info(info)


class _Network(httpcore.SyncBackend):
    """Opens connections to checked addresses only; the pool above keeps the name for Host and TLS."""

    def __init__(self, guard: Guard, deadline: Deadline) -> None:
        self.guard = guard
        self.deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        last: httpcore.ConnectError | httpcore.ConnectTimeout | None = None
        for address in self.guard.addresses(host, port):
            if self.deadline.is_over:
                break
            try:
                stream = super().connect_tcp(address, port, self.deadline.cap(timeout), local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last = error
                continue
            return _Stream(stream, self.deadline)
        raise last or httpcore.ConnectTimeout()


@cache
def trust() -> ssl.SSLContext:
    """The usual authorities, or those of SSL_CERT_FILE / SSL_CERT_DIR (a company's own)."""
    return httpx.create_ssl_context()


class _Transport(httpx.HTTPTransport):
    def __init__(self, guard: Guard, deadline: Deadline) -> None:
        super().__init__(verify=trust(), trust_env=False)
        self._pool = httpcore.ConnectionPool(ssl_context=trust(), network_backend=_Network(guard, deadline))


def _inflate(raw: bytes, encoding: str, cap: int) -> tuple[bytes, bool]:
    """The decoded body and whether it was cut; what cannot be decoded is kept as it came."""
    if encoding in ("gzip", "x-gzip", "deflate"):
        unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
        try:
            body = unpack.decompress(raw, cap + 1)
        except zlib.error:
            body = raw
        return body[:cap], len(body) > cap
    return raw[:cap], len(raw) > cap


def _why_no_connection(error: httpx.TransportError) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate does not hold: {cause.verify_message}"
        cause = cause.__cause__ or cause.__context__
    timed_out = isinstance(error, httpx.TimeoutException)
    return "no connection in time" if timed_out else "no connection could be made"
