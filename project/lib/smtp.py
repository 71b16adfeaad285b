"""Mail handed to an SMTP server (RFC 5321), through the same guard as every call: checked addresses only, one budget.

A mail goes to all its recipients or to none: one that is refused ends the attempt before anything was sent.
"""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from email.message import EmailMessage
from email.policy import SMTP
from threading import Timer
from typing import BinaryIO, Literal
from urllib.parse import unquote, urlsplit

from django.conf import settings

from project.lib.addresses import AllowList
from project.lib.egress import CONNECT_TIMEOUT, Forbidden, Guard, NoAnswer, Unreachable, system_resolver, trust

Security = Literal["starttls", "tls", "none"]
PORTS = (25, 465, 587, 2525)
PORT_OF = {"starttls": 587, "tls": 465, "none": 25}  # by the encryption, when none is named (RFC 6409, RFC 8314)
SCHEMES: dict[str, Security] = {"smtp": "starttls", "smtps": "tls", "smtp+none": "none"}
POLICY = SMTP.clone(cte_type="7bit")  # any server takes it
LONGEST_WORDS = 200  # characters of a server's answer that are kept


class Declined(Exception):
    """The server said no. `later` says that the same may succeed at another time (a 4xx code)."""

    def __init__(self, message: str, *, later: bool) -> None:
        self.later = later
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Server:
    """Where mail is handed in. Credentials are never sent over a connection that is not encrypted."""

    host: str
    port: int
    security: Security = "starttls"
    username: str = ""
    password: str = ""


def send(server: Server, message: EmailMessage, sender: str, recipients: list[str], budget: timedelta) -> str:
    """Hand the mail in; returns the words with which the server took it.

    Raises Forbidden, Unreachable or Declined (the mail was not taken in these three), NoAnswer when its last word on
    a mail that had been handed over is missing."""
    body = message.as_bytes(policy=POLICY)
    with conversation(server, budget) as session:
        check(session.mail(sender), server, "the sender")
        for number, recipient in enumerate(recipients, start=1):
            check(session.rcpt(recipient), server, f"recipient {number} of {len(recipients)}")
        return handed_over(session, server, body)


def check_server(host: str, port: int) -> None:
    """May the desk talk to this server? Raises Forbidden, or Unreachable for an unknown name."""
    guard().addresses(host, port)


def server_at(url: str) -> Server:
    """`smtp://user:password@host:587` (STARTTLS), `smtps://…` (TLS from the start); without a user `smtp+none://`.

    Raises ValueError for what is none."""
    parts = urlsplit(url)
    security = SCHEMES.get(parts.scheme)
    if security is None or not parts.hostname:
        raise ValueError("it is written smtp://user:password@host:587 or smtps://…")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Server(parts.hostname, parts.port or PORT_OF[security], security, user, password)


def guard() -> Guard:
    return Guard(AllowList(settings.EGRESS_ALLOW), system_resolver, PORTS.__contains__, "mail")


def handed_over(session: Session, server: Server, body: bytes) -> str:
    try:
        code, words = session.data(body)
    except smtplib.SMTPDataError as error:  # it did not even want to hear it
        raise declined(error.smtp_code, error.smtp_error, server, "the mail") from None
    except (OSError, smtplib.SMTPException) as error:
        raise NoAnswer(f"smtp {server.host}: no answer to the mail ({type(error).__name__})") from None
    if not (200 <= code < 300 or 400 <= code < 600):
        raise NoAnswer(f"smtp {server.host}: no answer to the mail that means anything")
    check((code, words), server, "the mail")
    return plain(words)


@contextmanager
def conversation(server: Server, budget: timedelta) -> Iterator[Session]:
    """Connected, encrypted as the server is configured, and signed in."""
    session = Session(guard(), server.security == "tls", budget)
    alarm = Timer(budget.total_seconds(), session.cut)  # a server that drips cannot hold us for ever
    alarm.daemon = True
    alarm.start()
    try:
        greet(session, server)
        yield session
        part(session)
    except (NoAnswer, Forbidden, Unreachable, Declined):
        raise
    except ssl.SSLCertVerificationError as error:
        raise Unreachable(f"smtp {server.host}: the certificate does not hold: {error.verify_message}") from None
    except smtplib.SMTPResponseException as error:
        raise declined(error.smtp_code, error.smtp_error, server, "the connection") from None
    except (OSError, smtplib.SMTPException) as error:
        raise Unreachable(f"smtp {server.host}: no conversation came about ({type(error).__name__})") from None
    finally:
        alarm.cancel()
        session.close()


def greet(session: Session, server: Server) -> None:
    session.connect(server.host, server.port)
    session.ehlo_or_helo_if_needed()
    if server.security == "starttls":
        session.starttls(context=trust())
        session.ehlo()
    if server.username and server.security == "none":
        raise Forbidden(f"smtp {server.host}: the password is not sent without encryption")
    if server.username:
        session.login(server.username, server.password)


def part(session: Session) -> None:
    try:
        session.quit()
    except (OSError, smtplib.SMTPException):
        return  # the mail was taken; how we part does not matter


def check(answer: tuple[int, bytes], server: Server, what: str) -> None:
    code, words = answer
    if not 200 <= code < 300:
        raise declined(code, words, server, what)


def declined(code: int, words: bytes | str, server: Server, what: str) -> Declined:
    told = f"smtp {server.host}: {what} was declined: {code} {plain(words)}"
    return Declined(told, later=not 500 <= code < 600)


def plain(words: bytes | str) -> str:
    text = words.decode("utf-8", "replace") if isinstance(words, bytes) else words
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:LONGEST_WORDS]


class Session(smtplib.SMTP):
    """Opens connections to checked addresses only; the name stays that of the TLS certificate."""

    def __init__(self, guard: Guard, encrypted: bool, budget: timedelta) -> None:
        super().__init__(local_hostname="[127.0.0.1]", timeout=budget.total_seconds())
        self.guard = guard
        self.encrypted = encrypted

    def connect(self, host: str = "localhost", port: int = 0, source_address: object = None) -> tuple[int, bytes]:
        self._host = host
        code, words = super().connect(host, port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, words)
        return code, words

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        last: OSError | None = None
        for address in self.guard.addresses(host, port):
            try:
                opened = socket.create_connection((address, port), min(timeout, CONNECT_TIMEOUT))
            except OSError as error:
                last = error
                continue
            opened.settimeout(timeout)
            return trust().wrap_socket(opened, server_hostname=host) if self.encrypted else opened
        raise last or Unreachable("the name has no address")

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = WholeLines(self.sock.makefile("rb"))
        return super().getreply()

    def cut(self) -> None:
        """End the conversation from outside: whatever waits for the server fails now."""
        sock: socket.socket | None = self.sock
        try:
            if sock is not None:
                sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


class WholeLines:
    """What a server says, line by line; one that was cut off in the middle is no line, whatever it begins with."""

    def __init__(self, inner: BinaryIO) -> None:
        self.inner = inner

    def readline(self, most: int) -> bytes:
        line = self.inner.readline(most)
        return line if line.endswith(b"\n") or len(line) == most else b""

    def close(self) -> None:
        self.inner.close()
