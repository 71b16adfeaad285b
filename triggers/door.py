"""The ASGI edge of /hooks/{slug}: size, signature, group commit, and an answer only after the commit.

It stands before Django's own request stack: nothing a sender sends is parsed before its signature fits."""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from django.db import DatabaseError, connection

from project.lib.crypto import Unreadable, mark_of
from triggers import ingest, refusals, routing, tallies, uses
from triggers.answers import (
    NOT_FOUND,
    NOTHING,
    PROBLEM_401,
    PROBLEM_405,
    TOO_SLOW,
    Answer,
    Send,
    allowed,
    problem,
    replied,
    reply,
    too_large,
    too_many,
)
from triggers.bucket import BUCKETS
from triggers.errors import BadDelivery, QueueFull, TriggerFull
from triggers.group_commit import GroupCommit
from triggers.ingest import Outcome
from triggers.models import Source
from triggers.routing import Table
from triggers.sources import webhook
from triggers.sources.details import scheme_of
from triggers.sources.forged import Forged
from triggers.sources.places import headers_in
from triggers.sources.proof import asks_elsewhere, most_of, prove
from triggers.sources.replies import Handshake, Reply
from triggers.sources.sns import confirm
from triggers.sources.webhook import Proven
from triggers.store import ConfigChanged, Member
from triggers.telling import Repeat, Teller
from triggers.threads import beside
from triggers.timeouts import SharedTimeout
from triggers.writers import writer_for

logger = logging.getLogger("nightdesk.door")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]

IN_FLIGHT = 64 * 1024 * 1024  # bytes of bodies one process holds; above it 503
TRIES = 5  # times a delivery is judged again because the configuration changed
RETRY_AFTER = 5  # seconds
PATIENCE = 30.0  # seconds for a body to arrive
HOST = re.compile(r"[A-Za-z0-9.:-]{1,253}")  # of a sender that asks whether it may ring
LARGE = 64 * 1024  # bytes; a larger or a packed body is read beside the loop, so that nobody waits for it


@dataclass(slots=True)
class Delivery:
    """What came, as it came."""

    slug: str
    headers: dict[str, str]
    remote: str
    body: bytes = b""
    held: int = 0  # bytes of it in this process's memory
    reply: Reply | None = None  # what its provider wants to hear instead of our own words
    taken: int = 0  # tokens of its source's rate
    overload: str = ""  # `rate` or `room`: why it is kept and matched later, where its source is refused nothing
    stored: list[Member] = field(default_factory=list)


class Gone(Exception):
    """The client closed the connection."""


class Door:
    """One for each web process."""

    def __init__(self) -> None:
        self.held = 0
        self.group: GroupCommit | None = None
        self.teller = Teller()
        self.asking: list[asyncio.Future[Table]] = []
        self.looking: asyncio.Task[None] | None = None
        self.after: set[asyncio.Task[None]] = set()
        self.unpacking = asyncio.Lock()
        self.body_timeout = SharedTimeout(PATIENCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_in(scope["headers"], scope.get("query_string", b""))
        slug = scope["path"].removeprefix("/hooks/").removesuffix("/").replace("\x00", "\ufffd")
        delivery = Delivery(slug, headers, remote_of(scope))
        try:
            answer = await self.answer(scope, receive, delivery)
        except Gone:
            return
        finally:
            self.held -= delivery.held
        await reply(send, answer, head=scope["method"] == "HEAD")
        if delivery.stored:
            self.teller.take(
                [member for member in delivery.stored if member.status != "duplicate"],
                [repeat_of(delivery, member) for member in delivery.stored if member.status == "duplicate"],
            )

    async def answer(self, scope: Scope, receive: Receive, delivery: Delivery) -> Answer:
        """Take one delivery in."""
        if self.group is None:
            self.group = GroupCommit(writer_for(connection.settings_dict, connection.vendor))
            await beside(routing.cached)
        try:
            if refused := await self.read(scope, receive, delivery):
                return await self.refuse(delivery, refused)
            return await self.take(delivery)
        except TimeoutError:
            return await self.refuse(delivery, TOO_SLOW)
        except TriggerFull as full:
            tallies.note("refused", delivery.slug, full.code)
            self.later(beside(ingest.note_full, full))
            return problem(503, full, retry=RETRY_AFTER)
        except QueueFull as full:
            return problem(503, full, retry=RETRY_AFTER)
        except DatabaseError as error:
            logger.warning("The door cannot ask its database: %s", error)
            return problem(503, QueueFull(), retry=RETRY_AFTER)
        except Unreadable as error:
            logger.error("Source %s cannot be read: %s", delivery.slug, error)
            return problem(503, QueueFull(), retry=RETRY_AFTER)

    async def read(self, scope: Scope, receive: Receive, delivery: Delivery) -> Answer | None:
        """Read the body up to the source's cap; an answer when there is nothing to read."""
        source = await self.source(delivery.slug)
        if source is None:
            return NOT_FOUND
        origin = delivery.headers.get("webhook-request-origin", "")
        if scope["method"] == "OPTIONS" and source.kind == "cloudevents" and HOST.fullmatch(origin):
            return allowed(origin, source.rate_limit)
        if scope["method"] != "POST" and not (scope["method"] == "GET" and greets_by_get(source)):
            return Answer(405, PROBLEM_405, headers=[(b"allow", b"POST")])
        most = most_of(source)
        declared = delivery.headers.get("content-length", "0")
        if declared.isascii() and declared.isdigit() and int(declared) > most:
            return too_large(most)
        return await self.body_timeout.wait(self.gather(receive, delivery, most))

    async def gather(self, receive: Receive, delivery: Delivery, most: int) -> Answer | None:
        parts: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            part = message.get("body", b"")
            if self.held + len(part) > IN_FLIGHT:
                raise QueueFull("Too many bytes are in flight.")
            delivery.held += len(part)
            self.held += len(part)
            if delivery.held > most:
                return too_large(most)
            parts.append(part)
            if not message.get("more_body"):
                break
        delivery.body = parts[0] if len(parts) == 1 else b"".join(parts)
        return None

    async def source(self, slug: str) -> Source | None:
        """The open source of this address, by the newest configuration when the one we hold knows none."""
        known = routing.cached_or_none()
        if known and (source := known.sources.get(slug)):
            return source if source.kind in Source.DOORS else None
        source = (await self.current()).sources.get(slug)
        return source if source and source.kind in Source.DOORS else None

    async def current(self) -> Table:
        """The table of the configuration as it is now; all who ask while one look is under way share the next."""
        asking = asyncio.get_running_loop().create_future()
        self.asking.append(asking)
        if self.looking is None or self.looking.done():
            self.looking = asyncio.ensure_future(self.look_for_all())
        table: Table = await asking
        return table

    async def look_for_all(self) -> None:
        while self.asking:
            asking, self.asking = self.asking, []
            found = (await asyncio.gather(self.look(), return_exceptions=True))[0]
            for one in asking:
                if one.done():
                    continue  # its client went away
                if isinstance(found, BaseException):
                    one.set_exception(found)
                else:
                    one.set_result(found)

    async def look(self) -> Table:
        assert self.group is not None
        known = routing.cached_or_none()
        version = await self.group.writer.version()
        if known is None or known.version != version:
            known = await beside(routing.table)
        return known

    async def take(self, delivery: Delivery) -> Answer:
        """Judge, commit, answer; again when the configuration changed meanwhile."""
        assert self.group is not None
        for _ in range(TRIES):
            known = routing.cached_or_none() or await self.current()
            verdict = await self.judged(delivery, known)
            if isinstance(verdict, Answer):
                newest = await self.current()
                if newest.version == known.version:
                    return await self.refuse(delivery, verdict)
                continue
            try:
                await self.group.write(verdict, known)
            except TriggerFull as full:
                self.give_back(known, delivery)
                if delivery.overload or known.sources[delivery.slug].on_overload == "refuse":
                    raise
                delivery.overload = "room"
                self.later(beside(ingest.note_full, full))
                continue
            except ConfigChanged:
                self.give_back(known, delivery)
                await self.current()
                continue
            delivery.stored = verdict
            told = accepted(verdict)
            if told.status == 200:
                self.give_back(known, delivery)
            return replied(delivery.reply) if delivery.reply else told
        raise QueueFull("The configuration changes too fast to take events.")

    async def judged(self, delivery: Delivery, known: Table) -> list[Member] | Answer:
        """At once when it is quick; packed ones one after the other: a stranger's few bytes may grow a thousandfold.
        So are those whose proof has to be fetched."""
        source = known.sources.get(delivery.slug)
        if "content-encoding" in delivery.headers or (source and asks_elsewhere(source, delivery.body)):
            async with self.unpacking:
                return await beside(self.judge, delivery, known)  # type: ignore[no-any-return]
        if len(delivery.body) > LARGE:
            return await beside(self.judge, delivery, known)  # type: ignore[no-any-return]
        return self.judge(delivery, known)

    def judge(self, delivery: Delivery, known: Table) -> list[Member] | Answer:
        """Verify over the raw bytes, then read, then match; an answer when it stops before the store."""
        source = known.sources.get(delivery.slug)
        if source is None:
            return NOT_FOUND
        try:
            proven = note_proof(source, delivery)
            if delivery.overload != "room":
                wait = BUCKETS.take(source.pk, source.rate_limit, time.monotonic())
                if wait and source.on_overload == "refuse":
                    return too_many(wait)
                delivery.overload, delivery.taken = ("rate", 0) if wait else ("", 1)
            arrivals = webhook.arrivals_of(source, proven.raw, delivery.headers, remote=delivery.remote, proven=proven)
            delivery.reply = proven.reply
        except Handshake as hello:
            return replied(hello.reply, greets=source.pk)
        except Forged as forged:
            return Answer(401, PROBLEM_401, forged.reason, str(forged))
        except BadDelivery as bad:
            return problem(bad.http, bad)
        if not arrivals:
            return NOTHING
        if delivery.overload == "rate":
            delivery.taken = len(arrivals)
            BUCKETS.owe(source.pk, source.rate_limit, delivery.taken)
        return ingest.prepared(arrivals, known, delivery.overload)

    def give_back(self, known: Table, delivery: Delivery) -> None:
        """What was not stored, or is a repeat, is free."""
        source = known.sources[delivery.slug]
        taken, delivery.taken = delivery.taken, 0
        BUCKETS.give_back(source.pk, source.rate_limit, taken)

    async def refuse(self, delivery: Delivery, answer: Answer) -> Answer:
        """Keep what was refused, with the reason, before the sender hears it."""
        if answer.greets:
            self.later(beside(connected, answer.greets, answer.visit))
        if answer.reason:
            try:
                await beside(keep, delivery, answer)
            except (DatabaseError, Unreadable) as error:
                logger.warning("A refused delivery (%s) could not be listed: %s", answer.reason, error)
        return answer

    async def close(self) -> None:
        """Finish what follows the answers, and let go of the database."""
        while self.after:
            await asyncio.gather(*self.after, return_exceptions=True)
        await self.teller.finish()
        if self.group is not None:
            await self.group.close()
            self.group = None

    def later(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self.after.add(task)
        task.add_done_callback(self.after.discard)


def accepted(members: list[Member]) -> Answer:
    """202 when anything is new, else 200 with the first one's numbers."""
    is_new = any(member.status != "duplicate" for member in members)
    told = [
        {"status": member.told_status, "id": member.ce_id, "seq": member.seq, "event": f"/events/{member.seq}"}
        for member in members
    ]
    body = told[0] if len(told) == 1 else {"status": "accepted" if is_new else "duplicate", "events": told}
    return Answer(202 if is_new else 200, orjson.dumps(body))


def note_proof(source: Source, delivery: Delivery) -> Proven:
    """Raise Forged, or remember which secret fitted."""
    now = time.time()
    proven = prove(source, delivery.body, delivery.headers, now=now, came=now)
    if proven.secret:
        uses.note(source.id, mark_of(proven.secret), now)
    return proven


def keep(delivery: Delivery, answer: Answer) -> None:
    refusals.keep(
        Source.objects.filter(slug=delivery.slug).first(),
        delivery.slug,
        reason=answer.reason,
        answered=answer.status,
        detail=answer.detail,
        headers=delivery.headers,
        body=delivery.body,
        remote=delivery.remote,
    )


def repeat_of(delivery: Delivery, member: Member) -> Repeat:
    outcome = Outcome(member.status, member.seq, member.ce_id, member.reason)
    return Repeat(delivery.slug, outcome, delivery.headers, delivery.body, delivery.remote)


def connected(source_id: int, visit: str) -> None:
    """A handshake: the far side reached us and proved itself; some want to be called back."""
    Source.objects.get(pk=source_id).greet()
    if visit:
        confirm(visit)


def greets_by_get(source: Source) -> bool:
    return "greets_by_get" in scheme_of(source)


def remote_of(scope: Scope) -> str:
    """The sender's address; the server has put it there, believing the proxies of TRUSTED_PROXIES only."""
    client = scope.get("client")
    return str(client[0])[:64] if client else ""
