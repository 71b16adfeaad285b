"""Listens to a Redis stream as one consumer of a group.

An entry is acknowledged only after its event is committed; one that was delivered again is a duplicate by its number.
What others took and left is taken over; what the stream was trimmed of before anybody read it is counted and said."""

import socket
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import redis

from project.lib.text import made_storable
from triggers.errors import BadDelivery
from triggers.listeners.redis_link import connect, make_group, order_of
from triggers.listeners.thread import Listener, Trouble
from triggers.models import Source, Watch
from triggers.sources import entries
from triggers.sources.stream import parse_stream
from triggers.unreadable import bury

BATCH = 100  # entries of one commit
BLOCK = 1000  # milliseconds to wait for the next entry

Entry = tuple[bytes, dict[bytes, bytes] | None]


class StreamListener(Listener):
    """Reads the entries of its stream in order, what it took before it was cut short first."""

    faults: ClassVar[tuple[type[Exception], ...]] = (redis.RedisError,)
    rest = 0.0  # it waits for entries inside its turn

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.stream = parse_stream(source.config)
        self.consumer = f"nightdesk-{socket.gethostname()}"[:200]
        self.client: redis.Redis | None = None
        self.own_from = b"0"  # of what we took and never acknowledged; empty: nothing is left of it
        self.waits = BLOCK
        self.next_claim = 0.0
        self.kept: dict[str, Any] = {}  # where it is, and what was lost, as its Position has it

    @property
    def mode(self) -> str:
        return "group" if self.client else ""

    @property
    def where(self) -> str:
        return self.stream.place

    def let_go(self) -> None:
        if self.client is not None:
            self.client.close()
            self.client = None

    def hold(self) -> None:
        self.own_from = b"0"  # it was taken, and not acknowledged

    def turn(self, now: float) -> None:
        client = self.client or self.settle_in()
        if now >= self.next_claim:
            self.next_claim = now + min(30, self.stream.claim_after / 2)
            self.take_over(client)
        if self.own_from:
            self.read_own(client)
        else:
            self.read_new(client)
        self.note(Watch.WATCHING, self.trimmed_words())

    def settle_in(self) -> redis.Redis:
        """Connect, and make the group when it is not there."""
        self.client = client = connect(self.source, self.stream)
        self.kept = self.known(self.stream.stream)
        if not self.kept:
            self.begin(self.stream.stream)
        same = self.kept.get("group") == self.stream.group  # another one begins as the source says
        known = self.kept if same else {}
        make_group(client, self.stream, known.get("read", ""), known.get("count"))
        self.own_from, self.next_claim = b"0", 0.0
        self.count(client)
        return client

    # Reading

    def read_own(self, client: redis.Redis) -> None:
        """What this consumer was given before it was cut short."""
        found = self.read(client, self.own_from)
        self.own_from = found[-1][0] if found else b""
        self.take_in(client, found)

    def read_new(self, client: redis.Redis) -> None:
        self.count(client)
        self.take_in(client, self.read(client, b">"))

    def read(self, client: redis.Redis, after: bytes) -> list[Entry]:
        waits = self.waits if after == b">" else None
        answer: Any = client.xreadgroup(
            self.stream.group, self.consumer, {self.stream.stream: after}, BATCH, block=waits
        )
        pairs = answer.items() if isinstance(answer, dict) else answer or []
        return [entry for _, listed in pairs for entry in flat(listed)]

    def take_over(self, client: redis.Redis) -> None:
        """Entries that another consumer, or an earlier desk, took and never acknowledged."""
        after: Any = b"0-0"
        while not self.stopped.is_set():
            idle = self.stream.claim_after * 1000
            answer: Any = client.xautoclaim(self.stream.stream, self.stream.group, self.consumer, idle, after, BATCH)
            after, found, gone = answer[0], answer[1], answer[2] if len(answer) > 2 else []
            if gone:
                self.gap(len(gone))
            self.take_in(client, found)
            if after == b"0-0":
                return

    def take_in(self, client: redis.Redis, found: Sequence[Entry]) -> None:
        """Commit the events of these entries, then acknowledge them: also what cannot be read, as a dead letter."""
        if not found:
            return
        arrivals, trimmed = [], 0
        for number, given in found:
            if not given:
                trimmed += 1  # it was taken, and trimmed away before it was read
                continue
            place = f"{self.stream.stream}:{number.decode()}"
            try:
                arrivals.append(self.arrival(place, given))
            except BadDelivery as refused:
                bury(self.source, place, raw_of(given), refused.detail)
        if trimmed:
            self.gap(trimmed)
        if arrivals:
            self.store(arrivals)
        client.xack(self.stream.stream, self.stream.group, *[number for number, _ in found])

    def arrival(self, place: str, given: dict[bytes, bytes]) -> Any:
        texts = {text(name): text(value) for name, value in given.items()}
        stream = self.stream
        return entries.fields(self.source, place, texts, type_field=stream.type_field, data_field=stream.data_field)

    # What is lost, and what is left

    def count(self, client: redis.Redis) -> None:
        """How much waits, how far all is acknowledged, and what was trimmed away before this group read it."""
        info: Any = client.xinfo_stream(self.stream.stream)
        group = self.group_of(client)
        self.counted = {"pending": group["pending"], "lag": group.get("lag"), "trimmed": self.kept.get("trimmed", 0)}
        if not group["pending"]:
            self.keep_place(group["last-delivered-id"].decode(), group.get("entries-read"))
        read = group.get("entries-read")
        if read is None or "entries-added" not in info:
            return  # an old server counts neither
        removed = info["entries-added"] - info["length"]
        unread = removed - max(read, self.kept.get("removed", 0))
        if unread > 0:
            self.gap(unread, removed=removed)

    def group_of(self, client: redis.Redis) -> dict[str, Any]:
        groups: Any = client.xinfo_groups(self.stream.stream)
        for group in groups:
            if group["name"] == self.stream.group.encode():
                return dict(group)
        raise Trouble(f"the consumer group {self.stream.group} is gone; it is made again")

    def gap(self, many: int, **told: int) -> None:
        self.keep(**told, trimmed=self.kept.get("trimmed", 0) + many)
        self.counted = {**self.counted, "trimmed": self.kept["trimmed"]}

    def keep_place(self, read: str, count: int | None) -> None:
        is_anew = order_of(read) < order_of(self.kept.get("read", "0-0"))
        self.keep(group=self.stream.group, read=read, count=count, **({"removed": 0} if is_anew else {}))

    def keep(self, **told: Any) -> None:
        if told.items() <= self.kept.items():
            return
        self.kept = {**self.kept, **told}
        self.move(self.stream.stream, **self.kept)

    def trimmed_words(self) -> str:
        lost = self.kept.get("trimmed", 0)
        if not lost:
            return ""
        entries = "entry was" if lost == 1 else "entries were"
        return f"{lost:,} {entries} trimmed from the stream before anybody read it; keep more in it (MAXLEN)."


def try_out(source: Source) -> str:
    """Connect as the listener does; what was found, in words. Raises what that raises."""
    stream = parse_stream(source.config)
    with connect(source, stream) as client:
        many = client.xlen(stream.stream)
    return f"Connected: the stream {stream.stream} holds {many:,} entries."


def flat(listed: Any) -> Iterable[Entry]:
    """Entries of one stream: the newer protocol nests them once more."""
    for one in listed:
        if isinstance(one, list) and one and isinstance(one[0], list | tuple):
            yield from one
        else:
            yield one


def text(value: bytes) -> str:
    return made_storable(value.decode("utf-8", "replace"))


def raw_of(given: dict[bytes, bytes]) -> bytes:
    return b"\n".join(name + b": " + value for name, value in given.items())
