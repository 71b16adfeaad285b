"""Listens to the folders of an IMAP mailbox: the first one tells by IDLE, the others are looked at every minute.

Each mail is an event of its own commit, and the place that was read moves after it: one nobody can read becomes a dead
letter, and the next is read. Mails stay unread at the server; nothing there is changed."""

import imaplib
import time
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from django.conf import settings
from imap_tools import ImapToolsError

from project.lib import clock
from triggers import blobs
from triggers.envelope import Arrival
from triggers.errors import BadDelivery
from triggers.listeners.imap import LARGEST, Mailbox, Withheld, capabilities, fetch, opened, sign_in, told_of_more
from triggers.listeners.thread import Listener, Trouble
from triggers.models import Source, Watch
from triggers.sources import entries
from triggers.sources.mail import UNREADABLE, Mail, parse_mailbox, read_mail
from triggers.unreadable import bury

A_DAY = timedelta(days=1)
LOOK = 60.0  # seconds between two looks at every folder
SLICE = 2.0  # seconds of listening in one turn
AGAIN = 240.0  # seconds after which IDLE is said anew: it finds a dead connection, and no server hangs up (RFC 2177)
KEPT_RAW = 1024 * 1024  # bytes of a mail that are kept beside its event; of a larger one the header
ASKED_FOR = 10  # times a mail that the server does not hand out is asked for, some minutes in all; then it is buried
MOST_ATTACHED = 8 * 1024 * 1024  # bytes of one attachment that are kept


class MailListener(Listener):
    """Reads what is new in each folder, then waits to be told."""

    faults: ClassVar[tuple[type[Exception], ...]] = (ImapToolsError, imaplib.IMAP4.error, EOFError)
    rest = 0.05  # it waits inside its turn

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.config = parse_mailbox(source.config)
        self.mailbox: Mailbox | None = None
        self.can_idle = self.is_idling = False
        self.slice = SLICE
        self.next_look = 0.0
        self.withheld: dict[str, int] = {}  # place -> how often the server did not hand it out

    @property
    def mode(self) -> str:
        if self.mailbox is None:
            return ""
        return "idle" if self.can_idle else "polling"

    @property
    def where(self) -> str:
        return self.config.account

    def let_go(self) -> None:
        if self.mailbox is not None:
            self.mailbox.client.shutdown()
            self.mailbox, self.is_idling = None, False

    def hold(self) -> None:
        self.next_look = 0.0  # the place that was read has not moved

    def turn(self, now: float) -> None:
        mailbox = self.mailbox or self.settle_in()
        if now >= self.next_look:
            self.be_quiet(mailbox)
            for folder in reversed(self.config.folders):  # the first one last: it stays selected
                self.read_folder(mailbox, folder)
            is_told = self.can_idle and len(self.config.folders) == 1
            self.next_look = time.monotonic() + (AGAIN if is_told else LOOK)
        self.note(Watch.WATCHING, self.manner())
        self.listen(mailbox)

    def settle_in(self) -> Mailbox:
        mailbox = self.mailbox = sign_in(self.source, self.config)
        self.can_idle = "IDLE" in mailbox.client.capabilities or "IDLE" in capabilities(mailbox)
        self.is_idling, self.next_look = False, 0.0
        return mailbox

    def manner(self) -> str:
        return "" if self.can_idle else "the server knows no IDLE; it is asked every minute"

    # Being told

    def listen(self, mailbox: Mailbox) -> None:
        """Wait a moment for the server to tell of a new mail."""
        if not self.can_idle:
            self.stopped.wait(self.slice)
            return
        if not self.is_idling:
            mailbox.idle.start()  # type: ignore[no-untyped-call]
            self.is_idling = True
            if told_of_more(mailbox):
                self.next_look = 0.0
                return
        began = time.monotonic()
        heard = mailbox.idle.poll(timeout=self.slice)
        if any(line.upper().startswith(b"* BYE") for line in heard):
            raise Trouble(f"{self.config.host} ended the conversation: {heard[0].decode('utf-8', 'replace')}")
        if not heard and time.monotonic() - began < self.slice / 2:
            raise Trouble(f"{self.config.host} closed the connection")
        if any(b"EXISTS" in line.upper() for line in heard):
            self.next_look = 0.0

    def be_quiet(self, mailbox: Mailbox) -> None:
        if self.is_idling:
            mailbox.idle.stop()  # type: ignore[no-untyped-call]
            self.is_idling = False

    # Reading

    def read_folder(self, mailbox: Mailbox, folder: str) -> None:
        """Every mail after the place that was read, in order, each in its own commit; when it was numbered anew, those
        that came since the listening began."""
        since = self.place_of(mailbox, folder)
        numbers = sorted(number for number in self.found(mailbox, since) if number > since["uid"])
        for at, number in enumerate(numbers):
            if self.stopped.is_set():
                return
            self.counted = {"waiting": len(numbers) - at}
            self.note(Watch.WATCHING, self.manner())
            self.take(mailbox, folder, number, since)
            self.move(folder, **{**since, "uid": number})
        self.counted = {"waiting": 0}
        if "since" in since:
            newest = max(numbers, default=since["uid"])
            self.move(folder, uidvalidity=since["uidvalidity"], uid=newest, began=since.get("began"))

    def place_of(self, mailbox: Mailbox, folder: str) -> dict[str, Any]:
        """Where this folder was read to. When the server numbers it anew, all that is young enough is looked at again,
        nothing from before the listening began: what was told stays told once, by its Message-ID."""
        validity, following = opened(mailbox, folder)
        known = self.known(folder)
        if known.get("uidvalidity") == validity:
            return known
        now = clock.now()
        place: dict[str, Any] = {"uidvalidity": validity, "uid": 0, "began": known.get("began")}
        if known:
            young = now - timedelta(seconds=self.source.dedupe_window)
            place["since"] = max(young, self.began(known)).isoformat()
        elif self.config.start == "new":
            place |= {"uid": following - 1, "began": now.isoformat()}
        self.begin(folder, **place)
        return place

    def began(self, known: dict[str, Any]) -> datetime:
        """Since when mails of a folder are told; of a place that says nothing of it since the source was made."""
        if known.get("began"):
            return datetime.fromisoformat(known["began"])
        return self.source.created_at if self.config.start == "new" else datetime.min.replace(tzinfo=UTC)

    def found(self, mailbox: Mailbox, since: dict[str, Any]) -> list[int]:
        after = f"UID {since['uid'] + 1}:*"
        if young := young_of(since):
            after = f"{after} SINCE {young - A_DAY:%d-%b-%Y}"  # of whatever zone: `take` looks at the very moment
        return [int(number) for number in mailbox.uids(after, charset=None)]

    def take(self, mailbox: Mailbox, folder: str, number: int, since: dict[str, Any]) -> None:
        place = f"{self.config.account}/{folder}/{since['uidvalidity']}/{number}"
        try:
            fetched = fetch(mailbox, number)
        except Withheld as withheld:
            self.withheld[place] = self.withheld.get(place, 0) + 1
            if self.withheld[place] < ASKED_FOR:
                raise
            fetched = None
            bury(self.source, place, b"", str(withheld))
        if fetched is None:
            return  # it was deleted meanwhile, or never comes
        raw, received, size = fetched
        if received and (young := young_of(since)) and received < young:
            return
        try:
            mail = read_mail(raw, received)
            arrival = self.arrival(mail, raw, received, folder=folder, uid=number, size=size)
        except (BadDelivery, *UNREADABLE) as error:
            why = getattr(error, "detail", "") or f"{type(error).__name__}: {error}"
            bury(self.source, place, raw[:KEPT_RAW], why)
            return
        self.store([arrival])

    def arrival(self, mail: Mail, raw: bytes, received: datetime | None, *, size: int, **place: Any) -> Arrival:
        facts = {**mail.facts, **place, "size": size, "automatic": mail.automatic, "attachments": self.kept(mail)}
        if size > len(raw):
            facts["cut"] = f"over {LARGEST:,} bytes: only its header was read"
        arrival = entries.told(
            self.source,
            f"{self.config.account}/{mail.key}",
            kind="received",
            data=facts,
            subject=mail.subject,
            time=mail.time or received,
        )
        arrival.data_json = (arrival.raw or b"").decode()
        arrival.raw = raw if len(raw) <= KEPT_RAW else raw.partition(b"\r\n\r\n")[0][:KEPT_RAW]
        arrival.automatic = mail.automatic if self.config.suppresses(mail.automatic) else ""
        arrival.is_own = bool(self.source.actor) and mail.sender == self.source.actor.lower()
        return arrival

    def kept(self, mail: Mail) -> list[dict[str, Any]]:
        """What hangs on it, as its event tells: `blob` finds the content, or `skipped` says why there is none."""
        until = clock.now() + timedelta(days=settings.RETENTION_DAYS)
        told = []
        for one in mail.attached:
            facts: dict[str, Any] = {"name": one.name, "type": one.type, "size": len(one.content or b"")}
            if one.content is None:
                facts["skipped"] = "it cannot be read"
            elif len(one.content) > MOST_ATTACHED:
                facts["skipped"] = f"over {MOST_ATTACHED:,} bytes"
            else:
                facts["blob"] = blobs.keep_bytes(one.content, until)
            told.append(facts)
        return told


def young_of(since: dict[str, Any]) -> datetime | None:
    """From when on mails of a folder that was numbered anew are looked at; None in one that was not."""
    if "since" not in since:
        return None
    try:
        return datetime.fromisoformat(since["since"])
    except ValueError:  # it was written before moments were: a day, as 01-May-2026
        return datetime.strptime(since["since"], "%d-%b-%Y").replace(tzinfo=UTC)


def try_out(source: Source) -> str:
    """Sign in as the listener does and open each folder; what was found, in words. Raises what that raises."""
    one = MailListener(source)
    mailbox = one.settle_in()
    try:
        for folder in one.config.folders:
            opened(mailbox, folder)
    finally:
        one.let_go()
    told = "it tells of new mail by itself" if one.can_idle else "it is asked every minute, since it knows no IDLE"
    return f"Signed in as {one.config.username}: {len(one.config.folders)} folder(s) open, {told}."
