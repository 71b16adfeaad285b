"""An IMAP server (RFC 3501, with IDLE) small enough to read: folders of mails in memory, told of and numbered anew.

with ImapServer() as far:
    far.add("INBOX", b"Subject: hello\\r\\n\\r\\n")     # whoever waits in IDLE is told
    far.renumber("INBOX")                            # another UIDVALIDITY, the mails from 1 on
    far.hang_up()                                    # every conversation ends without a word
"""

from __future__ import annotations

import base64
import re
import socketserver
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.far_side import FarSide

PASSWORD = "an imap password"


@dataclass
class Folder:
    validity: int = 1738166580
    following: int = 1
    mails: dict[int, tuple[bytes, datetime]] = field(default_factory=dict)


@dataclass
class ImapServer(FarSide):
    folders: dict[str, Folder] = field(default_factory=lambda: {"INBOX": Folder()})
    knows: str = "IMAP4rev1 IDLE"
    withheld: dict[int, str] = field(default_factory=dict)  # number of a mail -> what it says instead of it
    commands: list[str] = field(default_factory=list)
    lines: list[Conversation] = field(default_factory=list)

    def make_server(self) -> socketserver.ThreadingTCPServer:
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                conversation = Conversation(server, self)
                server.lines.append(conversation)
                with suppress(OSError, ValueError):
                    conversation.hold()

        return socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)

    def add(self, name: str, raw: bytes, at: datetime | None = None) -> int:
        folder = self.folders.setdefault(name, Folder())
        number = folder.following
        folder.mails[number] = (raw, at or datetime.now(UTC))
        folder.following += 1
        for line in self.lines:
            if line.is_idling and line.opened is folder:
                with suppress(OSError, ValueError):
                    line.tell_news()
        return number

    def renumber(self, name: str) -> None:
        folder = self.folders[name]
        mails = dict(enumerate(folder.mails.values(), start=1))
        self.folders[name] = Folder(folder.validity + 130, len(mails) + 1, mails)

    def hang_up(self) -> None:
        for line in self.lines:
            with suppress(OSError):
                line.line.connection.shutdown(2)
        self.lines.clear()

    def said(self, verb: str) -> int:
        return sum(command.startswith(verb) for command in self.commands)


@dataclass
class Conversation:
    server: ImapServer
    line: socketserver.StreamRequestHandler
    opened: Folder | None = None
    is_idling: bool = False
    told: int = 0  # how many mails it last told of
    lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, text: str | bytes) -> None:
        with self.lock:
            self.line.wfile.write((text.encode() if isinstance(text, str) else text) + b"\r\n")
            self.line.wfile.flush()

    def hold(self) -> None:
        self.say(f"* OK [CAPABILITY {self.server.knows}] ready")
        while command := self.line.rfile.readline().decode().strip():
            tag, _, rest = command.partition(" ")
            self.server.commands.append(re.sub(r"^LOGIN .*", "LOGIN", rest))
            answer = self.answer(tag, rest)
            if self.opened and rest.upper().startswith("UID"):
                self.tell_news()
            self.say(f"{tag} {answer}")
            if rest.upper() == "LOGOUT":
                return

    def answer(self, tag: str, rest: str) -> str:
        words = re.findall(r'"(?:\\.|[^"])*"|\([^)]*\)|\S+', rest)
        verb = words[0].upper()
        if verb == "CAPABILITY":
            self.say(f"* CAPABILITY {self.server.knows}")
        elif verb == "LOGIN":
            return "OK in" if words[2].strip('"') == PASSWORD else "NO [AUTHENTICATIONFAILED] wrong user or password"
        elif verb == "AUTHENTICATE":
            self.say("+ ")
            said = base64.b64decode(self.line.rfile.readline()).decode().split("\0")
            return "OK in" if said[2] == PASSWORD else "NO wrong"
        elif verb in ("SELECT", "EXAMINE"):
            return self.open(words[1].strip('"'), "READ-ONLY" if verb == "EXAMINE" else "READ-WRITE")
        elif verb == "UID":
            return self.by_number(words[1].upper(), words[2:])
        elif verb == "IDLE":
            return self.idle()
        elif verb == "APPEND":
            size = int(words[-1].strip("{}"))
            self.say("+ go on")
            self.server.add(words[1].strip('"'), self.line.rfile.read(size + 2)[:-2])
        elif verb == "LOGOUT":
            self.say("* BYE")
        return "OK done"

    def open(self, name: str, how: str) -> str:
        folder = self.opened = self.server.folders.get(name)
        if folder is None:
            return "NO no such folder"
        self.tell_news(anyhow=True)
        self.say(f"* OK [UIDVALIDITY {folder.validity}] as numbered")
        self.say(f"* OK [UIDNEXT {folder.following}] the next")
        return f"OK [{how}] open"

    def tell_news(self, *, anyhow: bool = False) -> None:
        """Beside any answer, once (RFC 3501, 7.3.1)."""
        assert self.opened is not None
        there = len(self.opened.mails)
        if anyhow or there != self.told:
            self.told = there
            self.say(f"* {there} EXISTS")

    def by_number(self, verb: str, words: list[str]) -> str:
        assert self.opened is not None
        mails = self.opened.mails
        if verb == "SEARCH":
            after = int(words[words.index("UID") + 1].partition(":")[0]) if "UID" in words else 1
            since = words[words.index("SINCE") + 1] if "SINCE" in words else "01-Jan-1970"
            oldest = datetime.strptime(since, "%d-%b-%Y").replace(tzinfo=UTC)
            found = [n for n, (_, at) in mails.items() if n >= after and at >= oldest]
            newest = [max(mails)] if mails and not found and "SINCE" not in words else []  # as `7:*` says of the last
            self.say("* SEARCH " + " ".join(map(str, found or newest)))
            return "OK found"
        number = int(words[0])
        if number not in mails:
            return "OK nothing"
        if number in self.server.withheld:
            return self.server.withheld[number]
        raw, at = mails[number]
        if "BODY.PEEK" in words[1]:
            part = raw.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if "HEADER" in words[1] else raw
            self.say(f"* 1 FETCH (UID {number} BODY[] {{{len(part)}}}".encode() + b"\r\n" + part + b")")
        else:
            when = at.strftime("%d-%b-%Y %H:%M:%S +0000")
            self.say(f'* 1 FETCH (UID {number} RFC822.SIZE {len(raw)} INTERNALDATE "{when}")')
        return "OK fetched"

    def idle(self) -> str:
        self.say("+ idling")
        self.is_idling = True
        while self.line.rfile.readline().strip().upper() != b"DONE":
            time.sleep(0.01)
            if self.server.closing.is_set():
                break
        self.is_idling = False
        return "OK idle is over"
