"""Eight processes write and read one SQLite file at once; nobody ever hears "database is locked" (case DB-01)."""

import os
import threading

import httpx
import pytest

from tests.chaos.load import QUIET, TRIGGER, Caller
from tests.processes import Desk

ORDERS = 400 * int(os.environ.get("NIGHTDESK_CHAOS_ROUNDS", "1"))
PAGES = ("events", "runs", "actions", "dead-letters")

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300 + ORDERS)]


def test_ingest_work_ticks_and_reading(shop: Desk) -> None:
    shop.handlers(QUIET, name="orders")
    shop.start("--workers", "3")
    reader = shop.token("read")
    over = threading.Event()
    answers: list[int] = []
    looker = threading.Thread(target=look, args=(reader, over, answers), daemon=True)
    with Caller(shop, shop.python(TRIGGER).split()[-1], pause=0.01, threads=3) as caller:
        looker.start()
        while len(caller.answered) < ORDERS:
            shop.command("tick", "--once")  # one more process that writes
    over.set()
    looker.join(60)
    done = "handler = 'take-order' AND status = 'succeeded'"
    shop.until(lambda: shop.count("triggers_run", done) == len(caller.answered), seconds=240)

    assert len(shop.pids()) >= 8
    assert caller.surprises == []
    assert set(answers) == {200}
    assert "database is locked" not in shop.log
    assert "OperationalError" not in shop.log
    assert sorted(caller.took)[int(len(caller.took) * 0.99)] < 5, "five times what the case wants"


def look(reader: httpx.Client, over: threading.Event, answers: list[int]) -> None:
    """A dashboard that looks all the time."""
    while not over.wait(0.2):
        answers.extend(reader.get(f"/api/v1/{page}").status_code for page in PAGES)
