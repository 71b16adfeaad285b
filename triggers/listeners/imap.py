"""The conversation with an IMAP server: with checked addresses only, signed in, and without changing a mail."""

import imaplib
import re
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from imap_tools import BaseMailBox, ImapToolsError
from imap_tools.imap_utf7 import utf7_encode

from project.lib.addresses import is_public, read_address
from project.lib.egress import CONNECT_TIMEOUT, Forbidden, Unreachable, trust
from triggers.listeners.thread import Trouble
from triggers.models import Source
from triggers.sources.farside import addresses
from triggers.sources.mail import PORTS, MailSource

PATIENCE = 20.0  # seconds for an answer
LARGEST = 50 * 1024 * 1024  # bytes; of a larger mail only the header is read
INTERNAL = re.compile(rb'INTERNALDATE "([^"]+)"')
SIZE = re.compile(rb"RFC822\.SIZE (\d+)")


class Withheld(Trouble):
    """The server has a mail and does not hand it out."""


class Imap(imaplib.IMAP4):
    """Connects to checked addresses only."""

    def _create_socket(self, timeout: float | None) -> socket.socket:
        return checked_socket(self.host, self.port)


class ImapTls(imaplib.IMAP4_SSL):
    """The same, encrypted; the name stays that of the certificate."""

    def _create_socket(self, timeout: float | None) -> socket.socket:
        return trust().wrap_socket(checked_socket(self.host, self.port), server_hostname=self.host)


def checked_socket(host: str, port: int) -> socket.socket:
    last: OSError | None = None
    for address in addresses(host, port, PORTS, "mail"):
        try:
            opened = socket.create_connection((address, port), CONNECT_TIMEOUT)
        except OSError as error:
            last = error
            continue
        opened.settimeout(PATIENCE)
        return opened
    raise last or Unreachable("the name has no address")


class Mailbox(BaseMailBox):
    """One signed-in conversation with the server of a source."""

    def __init__(self, config: MailSource) -> None:
        self.config = config
        super().__init__()

    def _get_mailbox_client(self) -> imaplib.IMAP4:
        config = self.config
        if config.security == "tls":
            return ImapTls(config.host, config.number, ssl_context=trust(), timeout=PATIENCE)
        if config.security == "none":
            refuse_open(config)
        client = Imap(config.host, config.number, timeout=PATIENCE)
        if config.security == "starttls":
            client.starttls(trust())
        return client


def refuse_open(config: MailSource) -> None:
    """A password never crosses the internet in the open. Raises Forbidden."""
    found = addresses(config.host, config.number, PORTS, "mail")
    if any(is_public(read_address(address)) for address in found):
        raise Forbidden(f"{config.host}: the password is not sent over the internet without encryption")


def sign_in(source: Source, config: MailSource) -> Mailbox:
    """Raises Trouble in the words of the server, or what a connection raises."""
    secret = source.password
    if not secret:
        raise Trouble("it has no password yet; give it one on this page")
    mailbox = Mailbox(config)
    try:
        if secret.isascii() and config.username.isascii():
            mailbox.login(config.username, secret, initial_folder=None)
        else:
            mailbox.login_utf8(config.username, secret, initial_folder=None)
    except (ImapToolsError, imaplib.IMAP4.error) as error:
        mailbox.client.shutdown()
        raise Trouble(f"{config.host} does not let {config.username} in: {said_by(error)}") from None
    return mailbox


def said_by(error: Exception) -> str:
    told = re.findall(r"b'([^']*)'", str(error))
    return (" ".join(told) or str(error) or type(error).__name__)[:300]


def opened(mailbox: Mailbox, folder: str) -> tuple[int, int]:
    """Open a folder so that nothing in it is changed: its UIDVALIDITY and the next UID. Raises Trouble."""
    answer, told = mailbox.client.select(quoted(folder), readonly=True)
    if answer != "OK":
        words = (told[0] or b"").decode("utf-8", "replace") if told else ""
        raise Trouble(f"there is no folder {folder}: {words}")
    validity, following = (number_in(mailbox.client.response(name)[1]) for name in ("UIDVALIDITY", "UIDNEXT"))
    if following is None:
        following = max(map(int, mailbox.uids("ALL", charset=None)), default=0) + 1
    return validity or 0, following


def told_of_more(mailbox: Mailbox) -> bool:
    """Whether the server told of other mails since the folder was opened: beside any answer, and in IDLE not again."""
    return len(set(mailbox.client.untagged_responses.get("EXISTS", []))) > 1


def fetch(mailbox: Mailbox, number: int) -> tuple[bytes, datetime | None, int] | None:
    """A mail, when the server received it, and its size; of one over LARGEST only the header.

    None when it is gone. Raises Withheld when the server has it and does not hand it out."""
    facts = b" ".join(flat(asked(mailbox, number, "RFC822.SIZE INTERNALDATE")))
    if not facts:
        return None
    size = int(found[1]) if (found := SIZE.search(facts)) else 0
    told = asked(mailbox, number, "BODY.PEEK[]" if size <= LARGEST else "BODY.PEEK[HEADER]")
    raw = next((part[1] for part in told if isinstance(part, tuple)), None)
    return None if raw is None else (raw, moment(INTERNAL.search(facts)), max(size, len(raw)))


def asked(mailbox: Mailbox, number: int, what: str) -> list[Any]:
    """What the server says of a mail. Raises Withheld for a NO: it may be busy, and the mail is still there."""
    try:
        answer, told = mailbox.client.uid("FETCH", str(number), f"({what})")
    except imaplib.IMAP4.abort:
        raise  # the conversation is over, whatever it was about
    except imaplib.IMAP4.error as error:
        answer, told = "BAD", [str(error).encode()]
    if answer != "OK":
        words = b" ".join(flat(told)).decode("utf-8", "replace")
        raise Withheld(f"the server does not hand out mail {number}: {words}"[:500])
    return list(told or [])


def flat(told: Any) -> Iterator[bytes]:
    for part in told or []:
        yield from part if isinstance(part, tuple) else [part] if part else []


def moment(found: re.Match[bytes] | None) -> datetime | None:
    try:
        return datetime.strptime(found[1].decode().strip(), "%d-%b-%Y %H:%M:%S %z").astimezone(UTC) if found else None
    except ValueError:
        return None


def quoted(folder: str) -> str:
    name = utf7_encode(folder).decode()
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def number_in(told: Any) -> int | None:
    text = told[0] if told and told[0] else b""
    return int(text) if text.isdigit() else None


def capabilities(mailbox: Mailbox) -> tuple[str, ...]:
    """What the server can do once somebody has signed in: many say more then."""
    answer, told = mailbox.client.capability()
    return tuple(told[-1].decode().upper().split()) if answer == "OK" and told and told[-1] else ()
