"""The door holds: slow and vanishing clients, too much at once, a busy or absent database, a changing configuration."""

import asyncio
import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from tests import builders
from tests.deliveries import Answered, deliver, github, send
from triggers import door as edge
from triggers import routing
from triggers.door import Door
from triggers.envelope import Arrival
from triggers.errors import QueueFull
from triggers.group_commit import GroupCommit
from triggers.matching import compile_filter
from triggers.models import Event, Refusal, Run, Source, Wait
from triggers.routing import Route
from triggers.sources import proof
from triggers.store import Member
from triggers.writers import Writer, writer_for

pytestmark = pytest.mark.django_db(transaction=True)
on_sqlite = pytest.mark.skipif("settings.DATABASES['default']['ENGINE'].endswith('postgresql')", reason="about SQLite")


@pytest.fixture(autouse=True)
def source() -> Source:
    return builders.source(types=["github.**"])


def held(work: Callable[[Door], Awaitable[Any]]) -> Any:
    """Run `work` with a door that is closed afterwards."""

    async def run() -> Any:
        door = Door()
        try:
            return await work(door)
        finally:
            await door.close()

    try:
        return asyncio.run(run())
    finally:
        connections.close_all()


def scope(headers: dict[str, str]) -> dict[str, Any]:
    given = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": "POST", "path": "/hooks/github", "headers": given, "client": ("127.0.0.1", 9)}


class Client:
    """A client that sends its body when it pleases."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.parts: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[Any] = []

    def give(self, part: bytes, *, more: bool) -> None:
        self.parts.put_nowait({"type": "http.request", "body": part, "more_body": more})

    def vanish(self) -> None:
        self.parts.put_nowait({"type": "http.disconnect"})

    def start(self, door: Door) -> asyncio.Task[None]:
        return asyncio.ensure_future(door(scope(self.request["headers"]), self.parts.get, self.keep))

    async def keep(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None


def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind() -> None:
    async def work(door: Door) -> int:
        client = Client(github(b"{}"))
        task = client.start(door)
        client.give(b"{", more=True)
        client.vanish()
        await task
        assert client.sent == []
        return door.held

    assert held(work) == 0
    assert not Event.objects.exists()


def test_a_slow_client_is_sent_away_and_others_are_served_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "PATIENCE", 1.0)

    async def work(door: Door) -> tuple[int | None, Answered, int]:
        slow = Client(github(b"{}"))
        task = slow.start(door)
        slow.give(b"{", more=True)
        other = await send(door, **github(b'{"n": 1}', id="d-2"))
        assert slow.status is None
        await task
        return slow.status, other, door.held

    status, other, left = held(work)
    assert (status, other.status, left) == (408, 202, 0)
    assert Refusal.objects.get().reason == "too_slow"


def test_a_slow_client_of_a_source_nobody_can_read_hears_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was refused cannot be listed: what of it is secret stands in the source."""
    monkeypatch.setattr(edge, "PATIENCE", 0.2)
    Source.objects.update(provider="gone", max_body=1000)

    async def work(door: Door) -> int | None:
        slow = Client(github(b"{}"))
        await slow.start(door)
        return slow.status

    assert (held(work), Refusal.objects.exists()) == (408, False)


def test_too_many_bytes_at_once_wait_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes count as they arrive, so that many half-sent bodies cannot fill the memory."""
    monkeypatch.setattr(edge, "IN_FLIGHT", 1000)

    async def work(door: Door) -> tuple[int, int, int, int]:
        first = Client(github(b"x" * 900))
        task = first.start(door)
        first.give(b"x" * 900, more=True)
        await asyncio.sleep(0.5)
        refused = await send(door, **github(b"y" * 200))
        first.vanish()
        await task
        taken = await send(door, **github(b'{"n": 1}'))
        return refused.status, int(refused.headers["retry-after"]), taken.status, door.held

    status, retry, later, left = held(work)
    assert (status, later, left) == (503, 202, 0)
    assert retry > 0


def test_large_data_is_taken_in_at_once_and_matched_in_the_next_breath() -> None:
    plan = compile_filter('event.data.action == "opened"')
    builders.trigger("triage-issue", filter=plan["text"], filter_plan=plan)
    body = json.dumps({"action": "opened", "text": "x" * 300_000}).encode()
    [answer] = deliver(github(body))
    event = Event.objects.get()
    assert (answer.status, event.status, bytes(event.raw or b"")) == (202, "routed", body)
    assert Run.objects.get().event == event


def test_others_are_answered_while_a_large_body_is_read(source: Source) -> None:
    source.change(by=None, max_body=20_000_000)
    large = json.dumps([{"n": number, "text": "x" * 40} for number in range(150_000)]).encode()

    async def work(door: Door) -> tuple[int, float]:
        await send(door, **github(b'{"warm": 1}', id="d-0"))
        slow = asyncio.ensure_future(send(door, **github(large, id="d-1")))
        waits = []
        for number in range(2, 12):
            began = time.monotonic()
            await send(door, **github(b'{"n": %d}' % number, id=f"d-{number}"))
            waits.append(time.monotonic() - began)
        return (await slow).status, sorted(waits)[len(waits) // 2]

    status, typical = held(work)
    assert status == 202
    assert typical < 2, "a bound on liveness; the figure is in bench/"


@on_sqlite
def test_a_writer_that_holds_the_database_for_seconds_delays_only_those_who_write() -> None:
    """The loop goes on answering: only a thread waits for the lock."""
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None, check_same_thread=False)

    async def work(door: Door) -> tuple[int, float]:
        await send(door, **github(b'{"warm": 1}', id="d-0"))
        other.execute("BEGIN IMMEDIATE")
        asyncio.get_running_loop().call_later(3, other.execute, "ROLLBACK")
        waiting = asyncio.ensure_future(send(door, **github(b"{}", id="d-1")))
        await asyncio.sleep(0.8)
        began = time.monotonic()
        probe = await send(door, method="GET")
        took = time.monotonic() - began
        assert (probe.status, waiting.done()) == (405, False)
        return (await waiting).status, took

    status, took = held(work)
    other.close()
    assert status == 202
    assert took < 1.5
    assert Event.objects.count() == 2


def test_a_database_that_is_away_is_503_with_a_time_and_then_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Away(Writer):
        """A writer whose database is gone."""

        def commit(self, members: Any, version: int) -> None:
            raise OperationalError("the server closed the connection")

        def read_version(self) -> int:
            raise OperationalError("the server closed the connection")

    async def work(door: Door) -> list[Answered]:
        first = await send(door, **github(b'{"n": 1}', id="d-1"))
        assert door.group is not None
        real, door.group.writer = door.group.writer, Away()
        during = await asyncio.gather(*(send(door, **github(b'{"n": 2}', id=f"e-{n}")) for n in range(5)))
        forged = await send(door, **github(b"{}", X_Hub_Signature_256="sha256=00"))
        door.group.writer = real
        after = await send(door, **github(b'{"n": 3}', id="d-3"))
        return [first, *during, forged, after]

    answers = held(work)
    assert [answer.status for answer in answers] == [202, *[503] * 6, 202]
    assert answers[1].headers["retry-after"] == "5"
    assert Event.objects.count() == 2


def cut_off_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first COMMIT is carried out, and its answer never comes; the next connection works."""
    commits: list[int] = []

    def cut(error: type[Exception]) -> None:
        commits.append(1)
        if len(commits) == 1:
            raise error("the answer never came")

    real = BaseDatabaseWrapper.commit

    def commit(self: BaseDatabaseWrapper) -> None:
        real(self)
        cut(OperationalError)

    class CutOff(sqlite3.Cursor):
        def execute(self, sql: str, *given: Any) -> Any:
            told = super().execute(sql, *given)
            if sql == "COMMIT":
                cut(sqlite3.OperationalError)
            return told

    class Line(sqlite3.Connection):
        def cursor(self, factory: Any = CutOff) -> Any:
            return super().cursor(factory)

    if connection.vendor == "postgresql":
        monkeypatch.setattr(BaseDatabaseWrapper, "commit", commit)
    else:
        monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Line))


def test_a_commit_whose_answer_was_cut_off_is_written_by_nobody_else(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three deliveries stay three, also those of a sender without ids, which nothing else would make harmless."""

    async def work(door: Door) -> list[object]:
        group = GroupCommit(writer_for(connection.settings_dict, connection.vendor))
        known = await asyncio.to_thread(in_thread, routing.table)
        batch = [member(source, name) for name in "abc"]
        for one in batch:
            one.arrival.keys = []
        cut_off_once(monkeypatch)
        told = await asyncio.gather(*(group.write([one], known) for one in batch), return_exceptions=True)
        await group.writer.close()
        return list(told)

    told = held(work)
    assert all(isinstance(one, QueueFull) for one in told)
    monkeypatch.undo()
    assert sorted(Event.objects.values_list("ce_id", flat=True)) == ["a", "b", "c"]


@pytest.mark.postgres
def test_a_postgres_that_drops_every_connection_costs_one_retry() -> None:
    async def work(door: Door) -> list[int]:
        statuses = [(await send(door, **github(b'{"n": 0}', id="d-0"))).status]
        await asyncio.to_thread(drop_all)
        for number in range(1, 4):
            statuses.append((await send(door, **github(b'{"n": %d}' % number, id=f"d-{number}"))).status)
        return statuses

    statuses = held(work)
    assert statuses[0] == statuses[-1] == 202
    assert set(statuses) <= {202, 503}


def drop_all() -> None:
    """What a restart of the server does to its clients."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    connection.close()


def member(source: Source, id: str, *, source_id: int | None = None) -> Member:
    arrival = Arrival(source_id or source.pk, source.slug, id, "/s", "github.push", raw=b"{}", keys=[(id, "duplicate")])
    return Member(arrival, Route([], [], "ignored"))


def test_one_bad_member_of_a_batch_takes_nobody_along(source: Source) -> None:
    async def work(door: Door) -> list[object]:
        group = GroupCommit(writer_for(connection.settings_dict, connection.vendor))
        known = await asyncio.to_thread(in_thread, routing.table)
        batch = [member(source, "a"), member(source, "bad", source_id=987654), member(source, "b")]
        told = await asyncio.gather(*(group.write([one], known) for one in batch), return_exceptions=True)
        await group.writer.close()
        return list(told)

    told = held(work)
    assert [told[0], told[2]] == [None, None]
    assert isinstance(told[1], QueueFull)
    assert sorted(Event.objects.values_list("ce_id", flat=True)) == ["a", "b"]


def in_thread(function: Callable[[], Any]) -> Any:
    try:
        return function()
    finally:
        connection.close()


def test_a_source_that_is_switched_off_under_load_answers_404_from_then_on(source: Source) -> None:
    async def work(door: Door) -> list[int]:
        statuses = []
        for number in range(6):
            if number == 3:
                await asyncio.to_thread(in_thread, lambda: source.disable(by=None))
            many = (send(door, **github(b'{"n": %d}' % (10 * number + n), id=f"d-{number}-{n}")) for n in range(5))
            statuses += [answer.status for answer in await asyncio.gather(*many)]
        return statuses

    assert held(work) == [202] * 15 + [404] * 15


def test_a_configuration_that_changes_all_the_time_loses_nothing(source: Source) -> None:
    builders.trigger("triage-issue", slug="always")
    stop = threading.Event()

    def meddle() -> None:
        while not stop.wait(0.3):
            source.change(by=None, name="GitHub")
        connections.close_all()

    with background(meddle, stop):
        answers = deliver(*(github(b'{"n": %d}' % number, id=f"d-{number}") for number in range(60)))
    accepted = [answer for answer in answers if answer.status == 202]
    assert {answer.status for answer in answers} <= {202, 503}
    assert Event.objects.count() == Run.objects.count() == len(accepted) > 0


@contextlib.contextmanager
def background(work: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)


def test_whoever_waits_for_an_event_is_looked_for_only_when_somebody_does(source: Source) -> None:
    async def work(door: Door) -> list[bool]:
        group = GroupCommit(writer_for(connection.settings_dict, connection.vendor))
        known = await asyncio.to_thread(in_thread, routing.table)
        one, two = member(source, "a"), member(source, "b")
        two.arrival.type = "github.release"
        await group.write([one, two], known)
        await group.writer.close()
        return [one.awaited, two.awaited]

    run = builders.run(status="waiting")
    Wait.objects.create(
        run=run, step="w", type="github.release", source="github", since=run.queued_at, registered_at=run.queued_at
    )
    assert held(work) == [False, True]


def test_the_numbers_of_the_contract() -> None:
    assert edge.IN_FLIGHT == 64 * 1024 * 1024
    assert settings.MAX_BODY_BYTES == 1024 * 1024


@on_sqlite
def test_the_loop_goes_on_while_somebody_else_holds_the_writers_lock() -> None:
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None, check_same_thread=False)

    async def work(door: Door) -> list[int | None]:
        client = Client(github(b"{}"))
        await send(door, **github(b'{"n": 1}', id="d-2"))  # the door has its connection
        other.execute("BEGIN IMMEDIATE")
        task = client.start(door)
        client.give(b"{}", more=False)
        for _ in range(20):
            await asyncio.sleep(0.02)
        waiting = client.status
        other.execute("ROLLBACK")
        await task
        return [waiting, client.status]

    with contextlib.closing(other):
        assert held(work) == [None, 202]


def test_packed_bodies_of_strangers_are_opened_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    open_now, most, lock = 0, 0, threading.Lock()

    def slowly(body: bytes, most_bytes: int) -> bytes:
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
        time.sleep(0.02)
        with lock:
            open_now -= 1
        return body * 2

    monkeypatch.setattr(proof, "unzip", slowly)
    forged = github(b"packed", Content_Encoding="gzip", X_Hub_Signature_256="sha256=" + "0" * 64)
    clients = [Client(forged) for _ in range(6)]

    async def work(door: Door) -> None:
        tasks = [client.start(door) for client in clients]
        for client in clients:
            client.give(forged["body"], more=False)
        await asyncio.gather(*tasks)

    held(work)
    assert [client.status for client in clients] == [401] * 6
    assert most == 1
