"""The connection to a Redis with a stream: to checked addresses only, and with the consumer group made."""

import socket
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.connection import SSLConnection
from redis.retry import Retry

from project.lib.egress import trust
from triggers.models import Source
from triggers.sources.farside import addresses
from triggers.sources.stream import PORTS, StreamSource

PATIENCE = 10.0  # seconds for an answer
CONNECT = 5.0  # seconds


class Pinned(redis.Connection):
    """Connects to checked addresses only; the name stays that of the TLS certificate."""

    def _connect(self) -> Any:
        name, last = self.host, None
        for address in addresses(name, int(self.port), PORTS, "Redis"):
            self.host = address
            try:
                return super()._connect()  # type: ignore[no-untyped-call]
            except OSError as error:
                last = error
            finally:
                self.host = name
        raise last or OSError("the name has no address")


class PinnedTls(SSLConnection, Pinned):
    """The same, encrypted."""

    def _wrap_socket_with_ssl(self, sock: socket.socket) -> Any:
        return trust().wrap_socket(sock, server_hostname=self.host)


def connect(source: Source, stream: StreamSource) -> redis.Redis:
    pool = redis.ConnectionPool(
        connection_class=PinnedTls if stream.is_encrypted else Pinned,
        host=stream.host,
        port=stream.port,
        db=stream.database,
        username=stream.username,
        password=source.password or None,
        socket_timeout=PATIENCE,
        socket_connect_timeout=CONNECT,
        retry=Retry(NoBackoff(), 0),  # the listener tries again itself, and says so
    )
    return redis.Redis(connection_pool=pool)


def make_group(client: redis.Redis, stream: StreamSource, read: str = "", count: int | None = None) -> None:
    """Make the group unless it is there.

    One that is gone is made again behind `read`, up to where everything was acknowledged, the `count`-th entry of the
    stream: nothing that came meanwhile is skipped. A stream that ends before it was made anew, and is read whole."""
    newest, added = tip(client, stream)
    if read and order_of(read) <= order_of(newest):
        begin, passed = read, count
    else:
        begin, passed = (newest, added) if stream.start == "new" and not read else ("0-0", 0)
    try:
        client.xgroup_create(stream.stream, stream.group, begin, mkstream=True, entries_read=passed)
    except redis.ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise


def tip(client: redis.Redis, stream: StreamSource) -> tuple[str, int | None]:
    """The number of the newest entry the stream ever had, and how many it had; an old server does not count them."""
    try:
        info: Any = client.xinfo_stream(stream.stream)
    except redis.ResponseError:
        return "0-0", 0  # it is not there yet
    return info["last-generated-id"].decode(), info.get("entries-added")


def order_of(number: str) -> tuple[int, int]:
    """The number of an entry, `milliseconds-count`, as the stream is ordered."""
    at, _, count = number.partition("-")
    return int(at), int(count)
