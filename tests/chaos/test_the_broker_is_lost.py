"""Messages are hints: without a broker events are still taken in, and what it forgot is done all the same."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from project import valkey as server
from tests.chaos.load import QUIET, TRIGGER, Caller
from tests.processes import Desk

AWAY = 6 * int(os.environ.get("NIGHTDESK_CHAOS_ROUNDS", "1"))  # seconds without a broker
pytestmark = [pytest.mark.processes, pytest.mark.timeout(400 + 10 * AWAY)]


@dataclass
class Broker:
    """A Valkey of the tests' own, which nobody starts again but they."""

    folder: Path
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def socket(self) -> Path:
        return self.folder / "theirs.sock"

    def start(self) -> None:
        self.process = subprocess.Popen(server.command(self.socket, folder=self.folder), stdout=subprocess.DEVNULL)

    def signal(self, number: int) -> None:
        assert self.process
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait(10)

    def tell(self) -> "redis.Redis":
        return redis.Redis(unix_socket_path=str(self.socket))


@pytest.fixture
def broker(shop: Desk) -> Iterator[Broker]:
    made = Broker(shop.folder)
    made.start()
    shop.settings["REDIS_URL"] = f"unix://{made.socket}?db=0"
    yield made
    made.kill()


def test_whatever_becomes_of_it_everything_runs_and_readyz_says_so(shop: Desk, broker: Broker) -> None:
    shop.handlers(QUIET, name="orders")
    shop.start()
    with Caller(shop, shop.python(TRIGGER).split()[-1]) as caller:
        for lose in (forgets, hangs, is_full, is_gone):
            with lose(shop, broker):
                heard = len(caller.answered)
                shop.until(lambda heard=heard: len(caller.answered) > heard + 15, seconds=60)
            shop.until(lambda: shop.problem("broker") == "", seconds=60)
    assert caller.surprises == []
    orders = len(caller.answered)
    done = "handler = 'take-order' AND finished_at IS NOT NULL"
    shop.until(lambda: shop.count("triggers_run", done) == orders, seconds=120)
    assert shop.count("triggers_event", "source_slug = 'generic'") == orders
    assert {one for (one,) in shop.rows("SELECT DISTINCT status FROM triggers_run")} == {"succeeded"}


@contextlib.contextmanager
def forgets(shop: Desk, broker: Broker) -> Iterator[None]:
    """FLUSHALL, five times under load."""
    with broker.tell() as valkey:
        for _ in range(5):
            valkey.flushall()
            before = shop.count("triggers_event")
            shop.until(lambda before=before: shop.count("triggers_event") > before + 5, seconds=60)
        yield


@contextlib.contextmanager
def hangs(shop: Desk, broker: Broker) -> Iterator[None]:
    broker.signal(signal.SIGSTOP)
    try:
        shop.until(lambda: shop.problem("broker"), seconds=60)
        yield
        assert shop.count("triggers_run", "status = 'queued'"), "nobody rang while it hung"
    finally:
        broker.signal(signal.SIGCONT)


@contextlib.contextmanager
def is_full(shop: Desk, broker: Broker) -> Iterator[None]:
    """It answers, and takes no messages."""
    with broker.tell() as valkey:
        before = valkey.config_get("maxmemory")["maxmemory"]
        valkey.config_set("maxmemory", "1kb")
        try:
            shop.until(lambda: "maxmemory" in shop.problem("broker"), seconds=60)
            yield
        finally:
            valkey.config_set("maxmemory", before)


@contextlib.contextmanager
def is_gone(shop: Desk, broker: Broker) -> Iterator[None]:
    broker.kill()
    shop.until(lambda: shop.problem("broker"), seconds=60)
    yield
    with contextlib.suppress(TimeoutError):
        shop.until(lambda: shop.problem("broker") == "", seconds=AWAY)
    broker.start()
