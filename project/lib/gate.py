"""GATE: the start of an effect holds it shared, a change of switches or policies exclusively.

On PostgreSQL it is an advisory lock of the transaction; on SQLite the IMMEDIATE transaction itself is the lock.
It is the first lock of all (lock order: gate, source, seen, trigger, agent, run, wait, action, letter, slot).
"""

import zlib
from typing import Any

from django.db import connection

NUMBER = 0x6E67  # any number nobody else locks


def shared() -> None:
    """Wait until no switch is being changed; many starts may hold it at once."""
    lock("SELECT pg_advisory_xact_lock_shared(%s)")


def exclusive() -> None:
    """Wait until no effect is being started; released with the transaction."""
    lock("SELECT pg_advisory_xact_lock(%s)")


def alone(name: str) -> None:
    """Wait until nobody else who says `name` is under way; whoever counts before adding must count alone."""
    lock("SELECT pg_advisory_xact_lock(%s, %s)", NUMBER, number_of(name))


def is_alone(name: str) -> bool:
    """The same without waiting; False while somebody else who says `name` is under way."""
    return lock("SELECT pg_try_advisory_xact_lock(%s, %s)", NUMBER, number_of(name)) is not False


def number_of(name: str) -> int:
    return zlib.crc32(name.encode()) - 2**31


def lock(sql: str, *numbers: int) -> Any:
    """What the statement answers; None on SQLite, where whoever writes is alone anyhow."""
    if not connection.in_atomic_block:
        raise RuntimeError("the gate is held by a transaction")
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute(sql, numbers or [NUMBER])
        return cursor.fetchone()[0]
