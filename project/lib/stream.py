"""The hints of "something changed" in a Valkey stream; nothing rests on them, and nobody ever waits for them.

An entry's id (milliseconds and a counter, given by Valkey, never smaller than the one before) is the `seq` browsers
remember. A `since` the stream no longer holds, or never held, means: load everything again.
"""

import atexit
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import redis
from django.conf import settings

STREAM = "live"
LONGEST = 1000  # entries kept
PATIENCE = 0.25  # seconds for Valkey to answer
GATHER = 0.03  # seconds of hints sent in one go; the same hint twice in that time is one
SPACE = 0.2  # seconds between two rounds: an open page shows no more than four changes a second
REST = 5.0  # seconds of silence after a failure
MOST_PENDING = 500  # hints held while Valkey is away; more are dropped, the pages sweep

Hint = tuple[str, str, int]


@dataclass
class News:
    """What a browser missed: the newest `seq`, and the hints after its own, or that it must load everything again."""

    seq: str = ""
    changes: list[dict[str, Any]] = field(default_factory=list)
    resync: bool = False


def client(timeout: float = PATIENCE) -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS.client, socket_timeout=timeout, socket_connect_timeout=timeout, decode_responses=True
    )


def fields(hint: Hint) -> dict[str, Any]:
    topic, id, version = hint
    return {"topic": topic, "id": id, "version": version}


class Sender:
    """Takes hints without waiting and sends them from its own thread."""

    def __init__(self) -> None:
        self.pending: dict[Hint, None] = {}
        self.wake = threading.Event()
        self.thread: threading.Thread | None = None
        self.resting_until = 0.0

    def take(self, hint: Hint) -> None:
        """Remember `hint`; O(1), never raises, never blocks."""
        if len(self.pending) < MOST_PENDING:
            self.pending[hint] = None
        if self.thread is None or not self.thread.is_alive():
            self.thread = threading.Thread(target=self.loop, name="live", daemon=True)
            self.thread.start()
        self.wake.set()

    def loop(self) -> None:
        while self.wake.wait():
            time.sleep(GATHER)
            self.wake.clear()
            self.flush()
            time.sleep(SPACE)

    def flush(self) -> None:
        """Send what is pending in one round trip; a failure drops it and rests."""
        hints = [hint for hint in list(self.pending) if self.pending.pop(hint, hint) is None]
        if not hints or time.monotonic() < self.resting_until:
            return
        try:
            with client() as valkey, valkey.pipeline(transaction=False) as pipe:
                for hint in hints:
                    pipe.xadd(STREAM, fields(hint), maxlen=LONGEST, approximate=True)
                pipe.execute()
        except (redis.RedisError, OSError):
            self.resting_until = time.monotonic() + REST


sender = Sender()


def publish(topic: str, id: int | str, version: int) -> None:
    """Tell open pages that `topic` changed; lost when Valkey is away."""
    sender.take((topic, str(id), version))


def forget() -> None:
    """A forked child has no thread of its parent and must not send the parent's hints."""
    global sender
    sender = Sender()


os.register_at_fork(after_in_child=forget)
atexit.register(lambda: sender.flush())


def news(since: str) -> News:
    """What happened after `since`. Without Valkey, or with a `since` it does not know: load everything again."""
    try:
        with client() as valkey:
            newest = valkey.xrevrange(STREAM, count=1)
            seq = newest[0][0] if newest else ""
            if not since or since == seq:
                return News(seq, resync=not since)
            if not valkey.xrange(STREAM, since, since):
                return News(seq, resync=True)
            return News(seq, [entry for _, entry in valkey.xrange(STREAM, f"({since}")])
    except (redis.RedisError, OSError):
        return News(resync=True)
