"""A worker dies, or its message comes twice: what was done is not done again (cases WK-01 and WK-02)."""

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.chaos.load import TRIGGER, sign
from tests.processes import Desk, desk

pytestmark = pytest.mark.processes

# Each line of `done` is one execution of a step; the second step goes on when somebody wrote `go-on` for its order.
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
    while name == "two" and not (settings.DATA_DIR / f"go-on-{order}").exists():
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


@pytest.fixture(scope="module")
def steady() -> Iterator[Desk]:
    """An open desk for most of what follows: to start one takes longer than to ask it."""
    with desk() as made:
        made.handlers(THREE_STEPS)
        made.start()
        (made.folder / "secret").write_text(made.python(TRIGGER).split()[-1])
        yield made
        made.tell()


def test_a_run_goes_on_where_its_worker_died(steady: Desk) -> None:
    ring(steady, 1)
    steady.until(lambda: done(steady, 1) == ["one", "two"], seconds=60)
    steady.kill_pool("worker")
    steady.until(lambda: done(steady, 1) == ["one", "two", "two"], seconds=60)
    steady.kill("worker")
    steady.until(lambda: done(steady, 1) == ["one", "two", "two", "two"], seconds=60)
    let_go_on(steady, 1)

    assert done(steady, 1) == ["one", "two", "two", "two", "three"]
    assert runs(steady, 1) == [("succeeded", "", 1, 2)]


def test_the_third_lost_worker_ends_it_in_the_dead_letters(steady: Desk) -> None:
    ring(steady, 2)
    for lost in range(3):
        steady.until(lambda lost=lost: done(steady, 2).count("two") == lost + 1, seconds=60)
        steady.kill_pool("worker")
    steady.until(lambda: ended(steady, 2), seconds=60)

    assert runs(steady, 2) == [("dead", "crash_loop", 1, 3)]
    assert steady.count("triggers_deadletter", "status = 'open'") == 1
    assert done(steady, 2) == ["one", "two", "two", "two"]


def test_stopping_gives_runs_back_and_leaves_nothing_behind(steady: Desk) -> None:
    ring(steady, 3)
    steady.until(lambda: done(steady, 3) == ["one", "two"], seconds=60)
    began = steady.stop()

    assert began <= 50
    assert steady.process
    assert steady.process.returncode == 0
    assert steady.pids() == []
    assert [(status, attempt, crashes) for status, _, attempt, crashes in runs(steady, 3)] == [("queued", 1, 0)]

    steady.start()
    let_go_on(steady, 3)
    assert done(steady, 3) == ["one", "two", "two", "three"]
    assert steady.log.count("Sign in as  owner") == 1


def test_a_desk_that_dies_at_once_takes_its_processes_along(steady: Desk) -> None:
    ring(steady, 4)
    steady.until(lambda: done(steady, 4) == ["one", "two"], seconds=60)
    assert steady.process
    steady.process.send_signal(signal.SIGKILL)
    steady.process.wait(5)
    steady.until(lambda: steady.pids() == [], seconds=60)

    steady.start()
    let_go_on(steady, 4)
    assert done(steady, 4) == ["one", "two", "two", "three"]


def test_a_message_that_comes_again_runs_nothing_twice(shop: Desk) -> None:
    shop.settings["DJANGO_SETTINGS_MODULE"] = "tests.chaos.quick_settings"
    shop.handlers(FAILS_ONCE)
    shop.start()
    (shop.folder / "secret").write_text(shop.python(TRIGGER).split()[-1])
    ring(shop, 1, 2)
    shop.until(lambda: ended(shop, 1) and ended(shop, 2), seconds=60)

    assert done(shop, 1) == ["attempt 1"]
    assert done(shop, 2) == ["attempt 1", "attempt 2"]
    assert {status for (status,) in shop.rows("SELECT status FROM triggers_run")} == {"succeeded"}


def ring(shop: Desk, *orders: int) -> None:
    for order in orders:
        headers, body = sign((shop.folder / "secret").read_text(), order)
        url = f"{shop.url}/hooks/generic"
        assert httpx.post(url, content=body, headers=headers, timeout=30, trust_env=False).status_code == 202


def let_go_on(shop: Desk, order: int) -> None:
    """Let the second step of this order end, and wait for the end of its run."""
    (shop.folder / f"go-on-{order}").touch()
    shop.until(lambda: ended(shop, order), seconds=60)


def done(shop: Desk, order: int) -> list[str]:
    """What was executed, in order."""
    written = Path(shop.folder / f"done-{order}")
    return written.read_text().splitlines() if written.exists() else []


def runs(shop: Desk, order: int) -> list[tuple[str, str, int, int]]:
    """Status, reason, attempt and crashes of the runs of this order."""
    query = "SELECT r.status, r.reason, r.attempt, r.crashes FROM triggers_run r JOIN triggers_event e"
    return shop.rows(f"{query} ON e.id = r.event_id WHERE r.handler = 'take-order' AND e.ce_id = ?", f"order-{order}")


def ended(shop: Desk, order: int) -> bool:
    return any(status in ("succeeded", "dead", "cancelled") for status, *_ in runs(shop, order))
