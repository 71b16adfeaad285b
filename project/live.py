"""The socket `/ws/live`: it says which topics changed, never what; the page asks again under its own permissions."""

import asyncio
import contextlib
import time
from typing import Any
from urllib.parse import urlsplit

import redis.asyncio
from channels.auth import AuthMiddlewareStack
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from channels.routing import URLRouter
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.urls import path

from project.lib.live import MANY
from project.lib.stream import STREAM, News, news
from project.people.models import User
from project.people.roles import can

PING = 20.0  # seconds between two signs of life
LOOK_AGAIN = 60.0  # seconds between two looks whether the person still may read
BLOCK = 5000  # ms one question to Valkey may wait
RETRY = 2.0  # seconds before Valkey is asked again after a failure
FLOOR = 10.0  # seconds: without Valkey pages are told to load again this often
NOT_SIGNED_IN, NO_SUCH_TOPIC = 4401, 4403
PAGES = ("approvals", "actions", "runs", "events", "dead_letters", "practice", "home")
SETUP = ("triggers", "sources", "connections", "event_types", "policies", "teams")
TOPICS = frozenset((*PAGES, *SETUP, "bulk", "agents"))
KIND_OF = {  # of a topic that lists rows: what one of them is called
    **{"actions": "action", "approvals": "action", "runs": "run", "events": "event", "dead_letters": "dead_letter"},
    **{"triggers": "trigger", "sources": "source", "agents": "agent", "bulk": "bulk"},
}
KINDS = frozenset(KIND_OF.values())
MOST_TOPICS = 50


def is_topic(name: object) -> bool:
    """`runs`, or one row as `run:88213`."""
    kind, _, ref = str(name).partition(":")
    return str(name) in TOPICS or (kind in KINDS and ref.replace("-", "").isalnum() and len(ref) <= 64)


async def newest(valkey: redis.asyncio.Redis) -> str:
    """The `seq` of the last entry; empty while there is none."""
    entries = await valkey.xrevrange(STREAM, count=1)
    return str(entries[0][0]) if entries else ""


class Reader:
    """One reader of the stream for all sockets of this process."""

    def __init__(self) -> None:
        self.sockets: set[Live] = set()
        self.task: asyncio.Task[None] | None = None
        self.seq = ""

    def join(self, socket: "Live") -> None:
        self.sockets.add(socket)
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self.read())

    def leave(self, socket: "Live") -> None:
        self.sockets.discard(socket)
        if not self.sockets and self.task:
            self.task.cancel()
            self.task, self.seq = None, ""

    async def read(self) -> None:
        """Follow the stream; while Valkey is away, and once more when it is back, tell pages to load again."""
        told, lost, mine = time.monotonic(), False, asyncio.current_task()
        while self.task is mine:  # the client swallows a cancel that comes as it takes a connection
            try:
                async with redis.asyncio.Redis.from_url(
                    settings.REDIS.client, socket_timeout=BLOCK / 1000 + 3, decode_responses=True
                ) as valkey:
                    self.seq = (not lost and self.seq) or await newest(valkey)
                    if lost:
                        await self.spread({"seq": self.seq, "resync": True})
                        lost = False
                    while self.task is mine:
                        answer: Any = await valkey.xread({STREAM: self.seq or "0"}, count=500, block=BLOCK)
                        for seq, entry in answer[0][1] if answer else ():
                            self.seq = seq
                            await self.spread({"seq": seq, **entry})
            except (redis.RedisError, OSError):
                if (self.seq and not lost) or time.monotonic() - told > FLOOR:
                    told = time.monotonic()
                    await self.spread({"resync": True})
                lost = True
                await asyncio.sleep(RETRY)

    async def spread(self, message: dict[str, Any]) -> None:
        for socket in list(self.sockets):
            await socket.hear(message)


readers: dict[int, Reader] = {}  # by event loop: one in a server, one a test


def reader() -> Reader:
    return readers.setdefault(id(asyncio.get_running_loop()), Reader())


def newest_seq() -> str:
    """The last `seq` a reader of this process has seen; empty when none is reading. Any thread may ask."""
    return next((each.seq for each in list(readers.values()) if each.seq), "")


class Live(AsyncJsonWebsocketConsumer):
    """One browser tab. There is no channel layer: the reader above is what it listens to."""

    topics: frozenset[str] = frozenset()
    pulse: "asyncio.Task[None] | None" = None

    async def connect(self) -> None:
        await self.accept()
        if not await self.may_read():
            await self.close(NOT_SIGNED_IN)
            return
        reader().join(self)
        self.pulse = asyncio.create_task(self.keep_alive())

    async def disconnect(self, code: int) -> None:
        reader().leave(self)
        if self.pulse:
            self.pulse.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **more: Any) -> None:
        """A frame without text (bytes, or nothing at all) asks for no topic either."""
        await super().receive(text_data or "null", **more)

    async def receive_json(self, content: Any, **_: Any) -> None:
        """`{"topics": [...], "since": seq}`: what to hear of from now on, and what was heard last."""
        topics = content.get("topics") if isinstance(content, dict) else None
        if not isinstance(topics, list) or len(topics) > MOST_TOPICS or not all(map(is_topic, topics)):
            await self.close(NO_SUCH_TOPIC)
            return
        self.topics = frozenset(map(str, topics))
        since = content.get("since")
        missed = await asyncio.to_thread(news, str(since)) if since else News(reader().seq, resync=False)
        await self.catch_up(missed)

    async def catch_up(self, missed: News) -> None:
        if missed.resync:
            await self.tell({"resync": True} | ({"seq": missed.seq} if missed.seq else {}))
            return
        for change in missed.changes:
            await self.hear(change)
        await self.tell({"seq": missed.seq, "ping": True})

    async def hear(self, message: dict[str, Any]) -> None:
        """Pass on what this tab asked for."""
        if message.get("resync") or self.asked_for(message.get("topic", ""), message.get("id", "")):
            await self.tell(message)

    def asked_for(self, topic: str, ref: str) -> bool:
        """Whether this tab shows the list `topic`, or the row `ref` of it; `*` is many of its rows."""
        row = f"{KIND_OF.get(topic, '')}:"
        if topic in self.topics or row + ref in self.topics:
            return True
        return ref == MANY and any(asked.startswith(row) for asked in self.topics)

    async def tell(self, message: dict[str, Any]) -> None:
        """A tab that left as it was spoken to (the server raises an OSError of its own) keeps no other waiting."""
        with contextlib.suppress(RuntimeError, OSError):
            await self.send_json(message)

    async def keep_alive(self) -> None:
        """Pings, a reader that is there, and now and then a look whether the person was signed out or lost the role."""
        since_look = 0.0
        while True:
            await asyncio.sleep(PING)
            since_look += PING
            if since_look >= LOOK_AGAIN:
                since_look = 0.0
                if not await self.may_read():
                    await self.close(NOT_SIGNED_IN)
                    return
            reader().join(self)
            await self.tell({"seq": reader().seq, "ping": True})

    @database_sync_to_async
    def may_read(self) -> bool:
        """Asked of the rows, not of what was true at the start."""
        session = self.scope.get("session")
        user = self.scope.get("user")
        if user is None or not user.is_authenticated or session is None or not session.exists(session.session_key):
            return False
        now = User.objects.filter(pk=user.pk, is_active=True).first()
        return now is not None and can(now, "view")

    @classmethod
    async def decode_json(cls, text_data: str) -> Any:
        """What is no JSON closes like an unknown topic does."""
        try:
            return await super().decode_json(text_data)
        except ValueError:
            return None


def same_origin(scope: Any) -> bool:
    """The page that opens the socket must be ours: BASE_URL's origin, or that of the host asked for."""
    headers = dict(scope.get("headers") or ())
    origin = headers.get(b"origin", b"").decode("latin-1")
    host = headers.get(b"host", b"").decode("latin-1")
    base = urlsplit(settings.BASE_URL)
    return bool(origin) and origin in {f"{base.scheme}://{base.netloc}", f"http://{host}", f"https://{host}"}


class OriginCheck:
    """403 before the handshake for a page of another origin (Channels' own check lets all in when hosts are `*`)."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        app = self.app if same_origin(scope) else WebsocketDenier.as_asgi()
        return await app(scope, receive, send)


websocket = OriginCheck(AuthMiddlewareStack(URLRouter([path("ws/live", Live.as_asgi())])))
