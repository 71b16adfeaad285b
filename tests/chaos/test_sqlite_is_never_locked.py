"""Eight processes write and read one SQLite file at once; nobody ever hears "database is locked" (case DB-01)."""

import os
import threading
import time

import httpx
import pytest

from tests.chaos.load import HANDLER, TRIGGER, Caller
from tests.processes import Desk

SECONDS = 12 * int(os.environ.get("NIGHTDESK_CHAOS_ROUNDS", "1"))
PAGES = ("events", "runs", "actions", "dead-letters")

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300 + SECONDS)]


def test_ingest_work_ticks_and_reading(shop: Desk) -> None:
    shop.handlers(HANDLER.replace("% 10", "% 10_000_000"), name="orders")
    shop.start("--workers", "3")
    reader = shop.token("read")
    over = threading.Event()
    answers: list[int] = []
    looker = threading.Thread(target=look, args=(reader, over, answers), daemon=True)
    with Caller(shop, shop.python(TRIGGER).split()[-1], pause=0.02, threads=3) as caller:
        looker.start()
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            shop.manage("tick", "--once")  # one more process that writes
    over.set()
    looker.join(60)
    shop.until(lambda: shop.count("triggers_run", "finished_at IS NULL") == 0, seconds=120)

    assert len(shop.pids()) >= 8
    assert caller.surprises == []
    assert set(answers) == {200}
    assert "database is locked" not in shop.log
    assert "OperationalError" not in shop.log
    assert sorted(caller.took)[int(len(caller.took) * 0.99)] < 5, "five times what the case wants"
    assert shop.count("triggers_run", "status = 'succeeded'") >= len(caller.answered)


def look(reader: httpx.Client, over: threading.Event, answers: list[int]) -> None:
    """A dashboard that never rests."""
    while not over.is_set():
        answers.extend(reader.get(f"/api/v1/{page}").status_code for page in PAGES)
