"""The socket says that something changed, to those who may read, and to pages of ours only."""

import asyncio
import json

import pytest
import redis
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.test import Client
from uvicorn.protocols.utils import ClientDisconnected

from project import live
from project.lib import stream
from project.lib.live import MANY, all_changed, changed
from project.people.models import User
from tests.conftest import person, until


@pytest.fixture
def bus(valkey, monkeypatch):
    """Hints go through a Valkey of this test's own."""
    monkeypatch.setattr(settings, "REDIS", settings.REDIS.__class__(valkey, valkey, ours=True))
    monkeypatch.setattr(stream, "sender", stream.Sender())
    live.readers.clear()
    return valkey


class Tab(ApplicationCommunicator):
    """The browser's side of one socket."""

    async def connect(self) -> bool:
        """Whether the handshake was accepted."""
        await self.send_input({"type": "websocket.connect"})
        return (await self.receive_output(10))["type"] == "websocket.accept"

    async def say(self, value: object) -> None:
        text = value if isinstance(value, str) else json.dumps(value)
        await self.send_input({"type": "websocket.receive", "text": text})

    async def heard(self, want: str) -> dict:
        """The next message that has this member, within some seconds."""
        for _ in range(50):
            message = json.loads((await self.receive_output(10))["text"])
            if want in message:
                return message
        raise AssertionError(f"50 messages without {want}")

    async def closed(self) -> int:
        """The code the server closes with."""
        while True:
            message = await self.receive_output(10)
            if message["type"] == "websocket.close":
                await self.leave()
                return int(message["code"])

    async def leave(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(5)


def tab(client: Client | None, origin: str = "http://testserver") -> Tab:
    """A browser's tab that opens the socket from a page of `origin`."""
    headers = [(b"host", b"testserver"), (b"origin", origin.encode())]
    if client is not None:
        headers.append((b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode()))
    scope = {"type": "websocket", "path": "/ws/live", "query_string": b"", "headers": headers, "subprotocols": []}
    return Tab(live.websocket, scope)


@pytest.fixture
def signed_in(transactional_db, sign_in) -> Client:
    return sign_in(person("ben", "viewer"))


async def test_a_change_reaches_who_asked_for_its_topic(bus, signed_in):
    socket = tab(signed_in)
    assert await socket.connect()
    await socket.say({"topics": ["runs", "run:7"], "since": None})
    await socket.heard("ping")
    await asyncio.sleep(0.3)  # the reader begins at the end of the stream
    stream.publish("events", 1, 0)
    stream.publish("runs", 7, 3)
    message = await socket.heard("topic")
    assert (message["topic"], message["id"]) == ("runs", "7")
    assert message["seq"]
    await socket.leave()


@pytest.mark.parametrize(
    ("topic", "row"),
    [*live.KIND_OF.items()],
)
def test_the_page_of_one_row_hears_of_it_and_of_no_other(topic, row):
    """CONTRACT 11: `run:88213`."""
    socket = live.Live()
    socket.topics = frozenset({f"{row}:7"})
    assert socket.asked_for(topic, "7")
    assert socket.asked_for(topic, MANY)
    assert not socket.asked_for(topic, "8")
    assert not socket.asked_for(topic, "")  # a new row
    assert not socket.asked_for("practice", "7")
    assert not socket.asked_for("practice", MANY)


async def test_a_page_that_comes_back_is_told_what_it_missed(bus, signed_in):
    stream.publish("runs", 1, 0)
    await asyncio.to_thread(until, lambda: stream.news("").seq)
    seen = stream.news("").seq
    stream.publish("approvals", 2, 0)
    await asyncio.to_thread(until, lambda: stream.news(seen).changes)
    socket = tab(signed_in)
    await socket.connect()
    await socket.say({"topics": ["approvals"], "since": seen})
    assert (await socket.heard("topic"))["topic"] == "approvals"
    await socket.leave()


async def test_a_number_nobody_knows_means_load_again(bus, signed_in):
    socket = tab(signed_in)
    await socket.connect()
    await socket.say({"topics": ["runs"], "since": "1-1"})
    assert (await socket.heard("resync"))["resync"] is True
    await socket.leave()


@pytest.mark.parametrize("topics", [["secrets"], "runs", [{}], ["run:<b>"], ["runs"] * 51])
async def test_a_topic_that_is_none_closes_the_socket(topics, signed_in):
    socket = tab(signed_in)
    await socket.connect()
    await socket.say({"topics": topics})
    assert await socket.closed() == live.NO_SUCH_TOPIC


@pytest.mark.parametrize(
    "frame", [{"text": "{"}, {"bytes": b"\x00\xff"}, {"text": ""}, {"text": '{"type": "group_add"}'}, {"text": "7"}]
)
async def test_a_frame_that_asks_for_nothing_closes_the_socket(frame, signed_in):
    """WS-05."""
    socket = tab(signed_in)
    await socket.connect()
    await socket.send_input({"type": "websocket.receive", **frame})
    assert await socket.closed() == live.NO_SUCH_TOPIC


async def test_a_tab_that_is_gone_is_forgotten(bus, signed_in):
    """WS-04: also one that was cut off in the middle of a sentence."""
    for number in range(20):
        socket = tab(signed_in)
        await socket.connect()
        await socket.say({"topics": ["runs"], "since": None})
        await socket.heard("ping")
        if number % 2:
            await socket.leave()
        else:
            await socket.send_input({"type": "websocket.disconnect", "code": 1006})
            await socket.wait(5)
    assert [each.sockets for each in live.readers.values()] == [set()]


async def test_a_tab_that_left_unheard_keeps_no_other_waiting(bus, signed_in, monkeypatch):
    """The server raises an OSError of its own at whatever is said to a tab that was closed a moment ago."""
    gone, stays = tab(signed_in), tab(signed_in)
    for socket in (gone, stays):
        await socket.connect()
        await socket.say({"topics": ["runs"], "since": None})
        await socket.heard("ping")
    (reader,) = live.readers.values()
    deaf = next(iter(reader.sockets))

    async def send(message):
        raise ClientDisconnected

    monkeypatch.setattr(deaf, "base_send", send)
    await asyncio.sleep(0.3)  # the reader begins at the end of the stream
    for number in range(3):
        stream.publish("runs", number, 0)
    hearing = [one for one in (gone, stays) if not one.output_queue.empty() or await says_something(one)]
    assert len(hearing) == 1
    assert [(await hearing[0].heard("topic"))["id"] for _ in range(3)] == ["0", "1", "2"]
    for socket in (gone, stays):
        await socket.leave()


async def says_something(socket: Tab) -> bool:
    """Whether anything waits to be read from it within two seconds, and leaves it there."""
    for _ in range(40):
        if not socket.output_queue.empty():
            return True
        await asyncio.sleep(0.05)
    return False


async def test_a_reader_that_ended_is_there_again_at_the_next_ping_and_misses_nothing(bus, signed_in, monkeypatch):
    monkeypatch.setattr(live, "PING", 0.2)
    socket = tab(signed_in)
    await socket.connect()
    await socket.say({"topics": ["runs"], "since": None})
    await socket.heard("ping")
    await asyncio.sleep(0.3)
    stream.publish("runs", 1, 0)
    await socket.heard("topic")
    (reader,) = live.readers.values()
    while not reader.task.done():
        reader.task.cancel()
        await asyncio.sleep(0.01)
    stream.publish("runs", 2, 0)
    assert (await socket.heard("topic"))["id"] == "2"
    await socket.leave()


async def test_a_page_drawn_while_another_listens_knows_how_far_the_news_are_told(bus, signed_in):
    """Also when all of them were told before anybody listened."""
    stream.publish("runs", 1, 0)
    await asyncio.to_thread(until, lambda: stream.news("").seq)
    socket = tab(signed_in)
    await socket.connect()
    await asyncio.to_thread(until, lambda: live.newest_seq() == stream.news("").seq)
    await socket.leave()


async def test_what_is_told_first_of_all_is_heard_however_long_nothing_was(bus, signed_in, monkeypatch):
    monkeypatch.setattr(live, "BLOCK", 1)  # ms: nearly all the time between two questions to Valkey
    socket = tab(signed_in)
    await socket.connect()
    await socket.say({"topics": ["runs"], "since": None})
    await socket.heard("ping")
    stream.publish("runs", 1, 0)
    assert (await socket.heard("topic"))["id"] == "1"
    await socket.leave()


async def test_pages_load_again_once_valkey_is_back(bus, signed_in, monkeypatch):
    """What was told between the loss and the first question after it is in no number a reader follows."""
    monkeypatch.setattr(live, "RETRY", 0.1)
    there = settings.REDIS
    stream.publish("runs", 1, 0)
    await asyncio.to_thread(until, lambda: stream.news("").seq)
    socket = tab(signed_in)
    await socket.connect()
    await asyncio.to_thread(until, live.newest_seq)
    monkeypatch.setattr(settings, "REDIS", there.__class__("redis://127.0.0.1:1/0", "redis://127.0.0.1:1/0", ours=True))
    with redis.Redis.from_url(there.client) as valkey:
        valkey.client_kill_filter(_type="normal", skipme=True)
        assert "seq" not in await socket.heard("resync")
        valkey.xadd(stream.STREAM, {"topic": "runs", "id": "2", "version": 0})
    monkeypatch.setattr(settings, "REDIS", there)
    back = await socket.heard("resync")
    assert back["seq"] == stream.news("").seq
    await socket.leave()


async def test_nobody_listens_without_signing_in(transactional_db):
    socket = tab(None)
    await socket.connect()
    assert await socket.closed() == live.NOT_SIGNED_IN


async def test_nobody_listens_without_a_role(transactional_db, sign_in):
    socket = tab(await asyncio.to_thread(lambda: sign_in(person("eve"))))
    await socket.connect()
    assert await socket.closed() == live.NOT_SIGNED_IN


async def test_who_lost_the_role_is_closed_at_the_next_look(signed_in, monkeypatch):
    monkeypatch.setattr(live, "PING", 0.05)
    monkeypatch.setattr(live, "LOOK_AGAIN", 0.05)
    socket = tab(signed_in)
    await socket.connect()
    pk = await asyncio.to_thread(lambda: signed_in.session[SESSION_KEY])
    await User.objects.filter(pk=pk).aupdate(is_active=False)
    assert await socket.closed() == live.NOT_SIGNED_IN


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "http://testserver.evil.example"])
async def test_a_page_of_another_origin_is_refused_before_the_handshake(origin, signed_in):
    assert not await tab(signed_in, origin).connect()


async def test_pings_show_that_the_socket_lives(signed_in, monkeypatch):
    monkeypatch.setattr(live, "PING", 0.05)
    socket = tab(signed_in)
    await socket.connect()
    assert (await socket.heard("ping"))["ping"] is True
    await socket.leave()


def test_a_hint_waits_for_the_commit_and_never_for_valkey(db, monkeypatch, django_capture_on_commit_callbacks):
    taken = []
    monkeypatch.setattr(stream, "publish", lambda *hint: taken.append(hint))
    with django_capture_on_commit_callbacks(execute=True):
        changed("runs", id=7, version=2)
        assert taken == []
    assert taken == [("runs", 7, 2)]


def test_without_valkey_pages_are_told_to_load_again(tmp_path, monkeypatch):
    nowhere = f"unix://{tmp_path}/none.sock"
    monkeypatch.setattr(settings, "REDIS", settings.REDIS.__class__(nowhere, nowhere, ours=True))
    assert stream.news("1-1").resync
    sender = stream.Sender()
    sender.take(("runs", "1", 0))
    sender.flush()
    assert not sender.pending


def test_a_flood_of_hints_is_bounded():
    sender = stream.Sender()
    sender.thread = type("Busy", (), {"is_alive": lambda self: True})()
    for number in range(stream.MOST_PENDING * 2):
        sender.take(("runs", str(number), 0))
    assert len(sender.pending) == stream.MOST_PENDING


def test_many_rows_are_one_hint(db, monkeypatch, django_capture_on_commit_callbacks):
    taken = []
    monkeypatch.setattr(stream, "publish", lambda *hint: taken.append(hint))
    with django_capture_on_commit_callbacks(execute=True):
        all_changed("runs", [7, 8])
        all_changed("events", range(100))
        all_changed("actions", [])
    assert taken == [("runs", 7, 0), ("runs", 8, 0), ("events", MANY, 0)]
