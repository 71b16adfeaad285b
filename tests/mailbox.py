"""A mail server small enough to read, which writes down what it took and misbehaves on request.

with Mailbox() as far:
    far.next("drop")              # take the mail, then close the connection without a word
    far.next("hang")              # never answer; "drip" answers a letter at a time
    far.next((550, "RCPT"))       # answer 550 to RCPT; (451, "DATA") after the mail was handed over
"""

from __future__ import annotations

import socketserver
from contextlib import suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage

from tests.far_side import FarSide

Fault = str | tuple[int, str] | None


@dataclass(frozen=True)
class Mail:
    sender: str
    recipients: list[str]
    body: bytes

    @property
    def message(self) -> EmailMessage:
        return message_from_bytes(self.body, policy=policy.default)  # type: ignore[return-value]


@dataclass
class Mailbox(FarSide):
    taken: list[Mail] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def make_server(self) -> socketserver.ThreadingTCPServer:
        mailbox = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                Conversation(mailbox, self).hold()

        return socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)


@dataclass
class Conversation:
    mailbox: Mailbox
    line: socketserver.StreamRequestHandler
    sender: str = ""
    recipients: list[str] = field(default_factory=list)

    def hold(self) -> None:
        self.fault = self.mailbox.faults.popleft() if self.mailbox.faults else None
        self.say("220 mailbox")
        while command := self.line.rfile.readline().decode().strip():
            self.mailbox.commands.append(command)
            verb = command.partition(" ")[0].upper()
            if verb == "QUIT":
                return self.say("221 bye")
            if verb == "DATA":
                if not self.take():
                    return None
            elif isinstance(self.fault, tuple) and self.fault[1] == verb:
                self.say(f"{self.fault[0]} as asked")
            else:
                self.note(verb, command)
                self.say("250 mailbox" if verb in ("EHLO", "HELO") else "250 ok")
        return None

    def note(self, verb: str, command: str) -> None:
        if verb == "MAIL":
            self.sender = command.partition("<")[2].partition(">")[0]
        if verb == "RCPT":
            self.recipients.append(command.partition("<")[2].partition(">")[0])

    def take(self) -> bool:
        """Whether the conversation goes on."""
        self.say("354 go on")
        lines = []
        while (line := self.line.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        if isinstance(self.fault, tuple):
            self.say(f"{self.fault[0]} as asked")
            return True
        if self.fault == "drop_before":
            return False
        if self.fault not in ("hang", "drip"):
            self.mailbox.taken.append(Mail(self.sender, self.recipients, b"".join(lines)))
        if self.fault == "hang":
            self.mailbox.closing.wait(60)
        with suppress(OSError):
            while self.fault == "drip" and not self.mailbox.closing.wait(0.05):
                self.say("2", end=b"")
        if self.fault in ("drop", "hang"):
            return False
        self.say(f"250 taken as {len(self.mailbox.taken)}")
        return True

    def say(self, words: str, end: bytes = b"\r\n") -> None:
        self.line.wfile.write(words.encode() + end)
