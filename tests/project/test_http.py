"""A request's head has an end, although it comes before any signature: 431, whether it comes whole or drips in."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import uvicorn

from project.http import MAX_HEAD, SHORT, Joined

GREETED: list[int] = []


async def greet(scope, receive, send):
    """Read the body, then say how many headers came."""
    while (await receive()).get("more_body"):
        continue
    GREETED.append(len(scope["headers"]))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextlib.asynccontextmanager
async def server() -> AsyncIterator[int]:
    GREETED.clear()
    config = uvicorn.Config(greet, port=0, http="project.http:Bounded", lifespan="off", log_config=None)
    running = uvicorn.Server(config)
    task = asyncio.create_task(running.serve())
    while not running.started:
        await asyncio.sleep(0.01)
    try:
        yield running.servers[0].sockets[0].getsockname()[1]
    finally:
        running.should_exit = True
        await task


async def ask(*parts: bytes) -> bytes:
    """What the server answers when these pieces are sent one after the other."""
    async with server() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.01)
        answer = await reader.read(100)
        writer.close()
        return answer


def head(size: int) -> bytes:
    return b"POST /hooks/x HTTP/1.1\r\nhost: desk\r\nx: " + b"a" * size + b"\r\ncontent-length: 3\r\n\r\nabc"


async def test_an_ordinary_request_passes_with_its_body():
    assert (await ask(head(2000))).startswith(b"HTTP/1.1 200")
    assert GREETED == [3]


async def test_a_head_that_is_too_large_never_reaches_the_desk():
    assert (await ask(head(MAX_HEAD))).startswith(b"HTTP/1.1 431")
    assert GREETED == []


async def test_many_small_headers_count_together():
    many = b"".join(b"x-%d: %s\r\n" % (number, b"a" * 100) for number in range(1000))
    answer = await ask(b"POST /hooks/x HTTP/1.1\r\nhost: desk\r\n" + many + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 431")


async def test_a_header_that_never_ends_is_cut_off():
    answer = await ask(b"POST /hooks/x HTTP/1.1\r\nx: ", *[b"a" * 8192] * 9)
    assert answer.startswith(b"HTTP/1.1 431")
    assert GREETED == []


@pytest.mark.parametrize("size", [3, 300_000])
async def test_a_body_does_not_count_and_the_connection_serves_the_next_one(size):
    body = b"b" * size
    one = b"POST /a HTTP/1.1\r\nhost: desk\r\ncontent-length: %d\r\n\r\n" % size
    async with server() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(one + body)
            answer = await reader.readuntil(b"ok")
            assert answer.startswith(b"HTTP/1.1 200")
        writer.close()
    assert len(GREETED) == 3


async def test_a_head_that_begins_where_the_body_before_it_ends_is_measured_whole():
    one = b"POST /a HTTP/1.1\r\nhost: desk\r\ncontent-length: 2\r\n\r\n"
    large = head(MAX_HEAD)
    async with server() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for part in (one + b"b", b"b" + large[:20_000]):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)
        await reader.readuntil(b"ok")
        writer.write(large[20_000:])
        assert (await reader.read(100)).startswith(b"HTTP/1.1 431")
        writer.close()
    assert len(GREETED) == 1


class Wire(asyncio.Transport):
    """What leaves by it, piece by piece."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.closed = False

    def write(self, data):
        assert not self.closed
        self.pieces.append(bytes(data))

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


async def test_an_answers_head_and_body_leave_in_one_piece():
    wire = Wire()
    joined = Joined(wire)
    joined.write(b"head")
    joined.write(b"body")
    await asyncio.sleep(0)
    assert wire.pieces == [b"headbody"]


async def test_a_head_alone_leaves_in_the_same_turn_and_a_long_part_at_once():
    wire = Wire()
    joined = Joined(wire)
    joined.write(b"head")
    await asyncio.sleep(0)
    joined.write(b"b" * (SHORT + 1))
    assert wire.pieces == [b"head", b"b" * (SHORT + 1)]


async def test_nothing_is_held_back_from_a_connection_that_ends():
    wire = Wire()
    joined = Joined(wire)
    joined.write(b"the last word")
    joined.close()
    await asyncio.sleep(0)
    assert wire.pieces == [b"the last word"]
