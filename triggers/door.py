"""The ASGI edge of /hooks/{slug}: size, signature, group commit, and an answer only after the commit.

It stands before Django's own request stack: nothing a sender sends is parsed before its signature fits."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from django.db import DatabaseError, connection

from project.lib.crypto import Unreadable
from triggers import ingest, refusals, routing, tallies, uses
from triggers.bucket import BUCKETS
from triggers.errors import BadDelivery, QueueFull, TriggerFull, TriggerProblem
from triggers.group_commit import GroupCommit
from triggers.ingest import Outcome
from triggers.models import Source
from triggers.models.source import hint_of
from triggers.patience import Patience
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
from triggers.writers import writer_for

logger = logging.getLogger("nightdesk.door")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

IN_FLIGHT = 64 * 1024 * 1024  # bytes of bodies one process holds; above it 503
TRIES = 5  # times a delivery is judged again because the configuration changed
RETRY_AFTER = 5  # seconds
PATIENCE = 30.0  # seconds for a body to arrive
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
    stored: list[Member] = field(default_factory=list)


@dataclass(slots=True)
class Answer:
    """Status, body and what is to be kept of a refusal."""

    status: int
    body: bytes
    reason: str = ""
    detail: str = ""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    greets: int = 0  # the source whose handshake this is
    visit: str = ""  # the address by which that handshake is confirmed
    kind: str = ""  # the body's media type, where it is not our own JSON


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
        self.patience = Patience(PATIENCE)

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
            logger.error("The secrets of source %s cannot be read: %s", delivery.slug, error)
            return problem(503, QueueFull(), retry=RETRY_AFTER)

    async def read(self, scope: Scope, receive: Receive, delivery: Delivery) -> Answer | None:
        """Read the body up to the source's cap; an answer when there is nothing to read."""
        source = await self.source(delivery.slug)
        if source is None:
            return NOT_FOUND
        if scope["method"] != "POST" and not (scope["method"] == "GET" and greets_by_get(source)):
            return Answer(405, PROBLEM_405, headers=[(b"allow", b"POST")])
        most = most_of(source)
        declared = delivery.headers.get("content-length", "0")
        if declared.isascii() and declared.isdigit() and int(declared) > most:
            return too_large(most)
        return await self.patience.wait(self.gather(receive, delivery, most))

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
            except TriggerFull:
                give_back(known.sources[delivery.slug])
                raise
            except ConfigChanged:
                give_back(known.sources[delivery.slug])
                await self.current()
                continue
            delivery.stored = verdict
            told = self.accepted(known.sources[delivery.slug], verdict)
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
            if wait := take_token(source):
                return too_many(wait)
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
        return [Member(arrival, routing.route(arrival, known, at_door=True)) for arrival in arrivals]

    def accepted(self, source: Source, members: list[Member]) -> Answer:
        """202 when anything is new, else 200 with the first one's numbers."""
        fresh = [member for member in members if member.status != "duplicate"]
        if not fresh:
            give_back(source)
        told = [
            {"status": member.told_status, "id": member.ce_id, "seq": member.seq, "event": f"/events/{member.seq}"}
            for member in members
        ]
        body = told[0] if len(told) == 1 else {"status": "accepted" if fresh else "duplicate", "events": told}
        return Answer(202 if fresh else 200, orjson.dumps(body))

    async def refuse(self, delivery: Delivery, answer: Answer) -> Answer:
        """Keep what was refused, with the reason, before the sender hears it."""
        if answer.greets:
            self.later(beside(connected, answer.greets, answer.visit))
        if answer.reason:
            try:
                await beside(keep, delivery, answer)
            except DatabaseError as error:
                logger.warning("A refused delivery (%s) could not be listed: %s", answer.reason, error)
        return answer

    async def close(self) -> None:
        """Finish what follows the answers, and let go of the database."""
        while self.after:
            await asyncio.gather(*self.after, return_exceptions=True)
        await self.teller.finish()
        if self.group is not None:
            await self.group.writer.close()
            self.group = None

    def later(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self.after.add(task)
        task.add_done_callback(self.after.discard)


def take_token(source: Source) -> float:
    """0, or the seconds until this source may send again."""
    if not source.rate_limit:
        return 0.0
    return BUCKETS.of(source.pk, source.rate_limit).take(time.monotonic())


def give_back(source: Source) -> None:
    if source.rate_limit:
        BUCKETS.of(source.pk, source.rate_limit).give_back()


def note_proof(source: Source, delivery: Delivery) -> Proven:
    """Raise Forged, or remember which secret fitted."""
    now = time.time()
    proven = prove(source, delivery.body, delivery.headers, now=now, came=now)
    if proven.secret:
        uses.note(source.id, hint_of(proven.secret), now)
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


def replied(reply: Reply, *, greets: int = 0) -> Answer:
    """The provider's words as an answer."""
    return Answer(reply.status, reply.body, greets=greets, visit=reply.visit, kind=reply.kind)


def remote_of(scope: Scope) -> str:
    """The sender's address; the server has put it there, believing the proxies of TRUSTED_PROXIES only."""
    client = scope.get("client")
    return str(client[0])[:64] if client else ""


def body_of(status: int, code: str, title: str, **facts: Any) -> bytes:
    return orjson.dumps({"type": f"/problems/{code}", "title": title, "status": status, "code": code, **facts})


PROBLEM_401 = body_of(401, "not_authentic", "This delivery does not prove who sent it.")
PROBLEM_405 = body_of(405, "method_not_allowed", "Deliveries are sent by POST.")
NOTHING = Answer(200, b'{"status":"accepted","events":[]}')
TOO_SLOW = Answer(408, body_of(408, "too_slow", "The body did not arrive in time."), reason="too_slow")
NOT_FOUND = Answer(404, body_of(404, "not_found", "There is no source here."), reason="not_found")


def problem(status: int, error: TriggerProblem, *, retry: int = 0) -> Answer:
    body = orjson.dumps({**error.body(), "status": status, "code": error.code, "type": f"/problems/{error.code}"})
    headers = [(b"retry-after", str(retry).encode())] if retry else []
    return Answer(status, body, "" if retry else error.code, error.detail, headers)


def too_large(most: int) -> Answer:
    title = f"The body is over {most} bytes."
    return Answer(413, body_of(413, "too_large", title, limit=most), "too_large", title)


def too_many(wait: float) -> Answer:
    seconds = max(1, round(wait))
    body = body_of(429, "too_many", "This source sends faster than its limit.", retry_after=seconds)
    return Answer(429, body, "rate_limited", headers=[(b"retry-after", str(seconds).encode())])


async def reply(send: Send, answer: Answer, *, head: bool) -> None:
    kind = answer.kind.encode() or (b"application/json" if answer.status < 300 else b"application/problem+json")
    headers = [(b"content-type", kind), (b"content-length", str(len(answer.body)).encode()), *answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else answer.body})
