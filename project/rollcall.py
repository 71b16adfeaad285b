"""Which workers are there: each says so in Valkey every few seconds, and pages count them. Nothing rests on it."""

import contextlib
import threading
from dataclasses import dataclass
from typing import cast

import redis

from project import health
from project.lib import stream

KEY = "workers"  # a sorted set: name and places of a worker, by when it last spoke, in Valkey's own time
EVERY = 10.0  # seconds between two words of a worker
GONE = 35.0  # seconds after which one that said nothing is not there
FORGOTTEN = 600.0  # seconds after which it is no longer called missing


@dataclass(frozen=True, slots=True)
class Roll:
    """How many workers are there, of those that were lately, and how many runs they can work on at a time."""

    there: int
    known: int
    places: int

    @property
    def is_short(self) -> bool:
        return self.there < max(self.known, 1)


def said(name: str, places: int) -> str:
    return f"{places} {name}"


def speak(name: str, places: int) -> None:
    """This worker is there."""
    with stream.client() as client:
        client.zadd(KEY, {said(name, places): seconds(client)})
        client.zremrangebyscore(KEY, 0, seconds(client) - FORGOTTEN)


def leave(name: str, places: int) -> None:
    """It goes, as it was told to: it is not missing."""
    with contextlib.suppress(redis.RedisError), stream.client() as client:  # else it is missing for ten minutes
        client.zrem(KEY, said(name, places))


def seconds(client: redis.Redis) -> float:
    whole, millionths = client.time()
    return float(whole + millionths / 1_000_000)


def roll() -> Roll | None:
    """Who is there now; None when Valkey does not say."""
    try:
        with health.valkey() as client:
            now = seconds(client)
            found = client.zrangebyscore(KEY, now - FORGOTTEN, "+inf", withscores=True)
    except (redis.RedisError, OSError):
        return None
    rows = cast(list[tuple[str, float]], found)
    there = [name for name, at in rows if at >= now - GONE]
    return Roll(len(there), len(rows), sum(int(name.partition(" ")[0]) for name in there))


class Speaker(threading.Thread):
    """Says again and again that this worker is there. It has no database, and no child of the pool inherits it."""

    def __init__(self, name: str, places: int) -> None:
        super().__init__(name="rollcall", daemon=True)
        self.given = (name, places)
        self.told = threading.Event()

    def run(self) -> None:
        while not self.told.is_set():
            with contextlib.suppress(redis.RedisError, OSError):  # pages say that the broker does not answer
                speak(*self.given)
            self.told.wait(EVERY)

    def stop(self) -> None:
        self.told.set()
        if self.is_alive():
            self.join(1)  # its last word comes before the leave
        leave(*self.given)
