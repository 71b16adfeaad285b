"""A worker dies, or its message comes twice: what was done is not done again (cases WK-01 and WK-02)."""

import signal
from pathlib import Path

import httpx
import pytest

from tests.chaos.load import TRIGGER, sign
from tests.processes import Desk

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]

# Each line of `done` is one execution of a step; the second step goes on when somebody wrote `go-on`.
THREE_STEPS = """
import time

from django.conf import settings
from triggers.registry import handler


@handler("take-order")
def take_order(run):
    order = run.event.data["data"]["order"]
    for name in ("one", "two", "three"):
        run.step(name, work, name, order)
    return order


def work(name, order):
    with open(settings.DATA_DIR / f"done-{order}", "a") as file:
        file.write(f"{name}\\n")
    while name == "two" and not (settings.DATA_DIR / "go-on").exists():
        time.sleep(0.02)
"""
FAILS_ONCE = """
import time

from django.conf import settings
from triggers.errors import Retry
from triggers.registry import handler


@handler("take-order")
def take_order(run):
    order = run.event.data["data"]["order"]
    with open(settings.DATA_DIR / f"done-{order}", "a") as file:
        file.write(f"attempt {run.row.attempt}\\n")
    if order == 1:
        time.sleep(5)  # longer than the broker waits before it gives a message out again
    elif run.row.attempt == 1:
        raise Retry(after=5)
"""


def test_a_run_goes_on_where_its_worker_died(shop: Desk) -> None:
    shop.handlers(THREE_STEPS)
    shop.start()
    ring(shop, 1)
    shop.until(lambda: done(shop, 1) == ["one", "two"])
    shop.kill_pool("worker")
    shop.until(lambda: done(shop, 1) == ["one", "two", "two"], seconds=60)
    shop.kill("worker")
    shop.until(lambda: done(shop, 1) == ["one", "two", "two", "two"], seconds=60)
    (shop.folder / "go-on").touch()
    shop.until(lambda: ended(shop) == 1, seconds=60)

    assert done(shop, 1) == ["one", "two", "two", "two", "three"]
    assert shop.rows("SELECT status, attempt, crashes FROM triggers_run") == [("succeeded", 1, 2)]


def test_the_third_lost_worker_ends_it_in_the_dead_letters(shop: Desk) -> None:
    shop.handlers(THREE_STEPS)
    shop.start("--workers", "1")
    ring(shop, 1)
    for lost in range(3):
        shop.until(lambda lost=lost: done(shop, 1).count("two") == lost + 1, seconds=60)
        shop.kill_pool("worker")
    shop.until(lambda: ended(shop) == 1, seconds=60)

    own = "SELECT status, reason, crashes FROM triggers_run WHERE handler = 'take-order'"
    assert shop.rows(own) == [("dead", "crash_loop", 3)]
    assert shop.count("triggers_deadletter", "status = 'open'") == 1
    assert done(shop, 1) == ["one", "two", "two", "two"]


def test_a_message_that_comes_again_runs_nothing_twice(shop: Desk) -> None:
    shop.settings["DJANGO_SETTINGS_MODULE"] = "tests.chaos.quick_settings"
    shop.handlers(FAILS_ONCE)
    shop.start()
    ring(shop, 1, 2)
    shop.until(lambda: ended(shop) == 2, seconds=60)

    assert done(shop, 1) == ["attempt 1"]
    assert done(shop, 2) == ["attempt 1", "attempt 2"]
    assert {status for (status,) in shop.rows("SELECT status FROM triggers_run")} == {"succeeded"}


def test_stopping_gives_runs_back_and_leaves_nothing_behind(shop: Desk) -> None:
    shop.handlers(THREE_STEPS)
    shop.start()
    ring(shop, 1)
    shop.until(lambda: done(shop, 1) == ["one", "two"])
    began = shop.stop()

    assert began <= 10
    assert shop.process
    assert shop.process.returncode == 0
    assert shop.pids() == []
    assert shop.rows("SELECT status, attempt, crashes FROM triggers_run") == [("queued", 1, 0)]

    (shop.folder / "go-on").touch()
    shop.start()
    shop.until(lambda: ended(shop) == 1, seconds=60)
    assert done(shop, 1) == ["one", "two", "two", "three"]
    assert shop.log.count("Sign in as  owner") == 1


def test_a_desk_that_dies_at_once_takes_its_processes_along(shop: Desk) -> None:
    shop.handlers(THREE_STEPS)
    shop.start()
    ring(shop, 1)
    shop.until(lambda: done(shop, 1) == ["one", "two"])
    assert shop.process
    shop.process.send_signal(signal.SIGKILL)
    shop.process.wait(5)
    shop.until(lambda: shop.pids() == [], seconds=60)

    (shop.folder / "go-on").touch()
    shop.start()
    shop.until(lambda: ended(shop) == 1, seconds=60)
    assert done(shop, 1) == ["one", "two", "two", "three"]


def ring(shop: Desk, *orders: int) -> None:
    secret = shop.python(TRIGGER).split()[-1]
    for order in orders:
        headers, body = sign(secret, order)
        url = f"{shop.url}/hooks/generic"
        assert httpx.post(url, content=body, headers=headers, timeout=30, trust_env=False).status_code == 202


def done(shop: Desk, order: int) -> list[str]:
    """What was executed, in order."""
    written = Path(shop.folder / f"done-{order}")
    return written.read_text().splitlines() if written.exists() else []


def ended(shop: Desk) -> int:
    return shop.count("triggers_run", "handler = 'take-order' AND finished_at IS NOT NULL")
