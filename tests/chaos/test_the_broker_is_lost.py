"""Messages are hints: without a broker events are still taken in, and what it forgot is done all the same."""

import signal

import pytest
import redis

from tests.chaos.load import HANDLER, TRIGGER, Caller
from tests.processes import Desk

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


@pytest.fixture
def busy(shop: Desk) -> Desk:
    """An open desk that takes orders."""
    shop.handlers(HANDLER, name="orders")
    return shop.start()


def test_forgotten_messages_lose_nothing(busy: Desk) -> None:
    with Caller(busy, busy.python(TRIGGER).split()[-1], pause=0.01) as caller:
        for number in range(1, 6):
            busy.until(lambda number=number: len(caller.answered) > 10 * number)
            with redis.Redis(unix_socket_path=str(busy.folder / "valkey.sock")) as valkey:
                valkey.flushall()
    assert_all_ran(busy, caller)


def test_a_broker_that_hangs_delays_and_loses_nothing(busy: Desk) -> None:
    valkey = busy.main("valkey")
    assert valkey
    with Caller(busy, busy.python(TRIGGER).split()[-1]) as caller:
        busy.until(lambda: len(caller.answered) > 10)
        busy.kill("valkey", signal.SIGSTOP)
        heard = len(caller.answered)
        try:
            busy.until(lambda: len(caller.answered) > heard + 20, seconds=60)
            waiting = busy.count("triggers_run", "status = 'queued'")
        finally:
            busy.kill("valkey", signal.SIGCONT)
    assert waiting, "nobody rang while it hung"
    assert busy.main("valkey") == valkey
    assert_all_ran(busy, caller)


def assert_all_ran(busy: Desk, caller: Caller) -> None:
    assert caller.surprises == []
    orders = len(caller.answered)
    done = "handler = 'take-order' AND finished_at IS NOT NULL"
    busy.until(lambda: busy.count("triggers_run", done) == orders, seconds=90)
    assert busy.count("triggers_event", "source_slug = 'generic'") == orders
    assert {one for (one,) in busy.rows("SELECT DISTINCT status FROM triggers_run")} == {"succeeded"}
