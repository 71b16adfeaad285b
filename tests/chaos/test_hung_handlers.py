"""A handler that never comes back is ended at its deadline, counted and named, however it hangs (case WK-05)."""

import json
import subprocess
import sys

import httpx
import pytest

from tests.chaos.load import TRIGGER, sign
from tests.processes import ROOT, START, Desk, desk

pytestmark = pytest.mark.processes

# Which order hangs how: 5 does not.
HANGS = """
import asyncio
import re
import time

from triggers.registry import handler


@handler("take-order")
def take_order(run):
    order = run.event.data["data"]["order"]
    run.step("look", lambda: order)
    run.step("hang", HOW.get(order, lambda: None))
    return order


def swallows():
    while True:
        try:
            time.sleep(0.1)
        except Exception:
            pass


def spins():
    while True:
        pass


async def waits():
    await asyncio.Event().wait()


def holds():
    re.match("(a+)+$", "a" * 60 + "b")  # C code that lets no other thread run


HOW = {1: swallows, 2: spins, 3: waits, 4: holds}
"""
IN_TWO_SECONDS = (
    TRIGGER
    + """
    Trigger.objects.update(limits={"timeout": 2})
    ConfigVersion.bump()
"""
)
A_RUN = """
    from project.lib import clock
    from triggers.models import Event, Run, Trigger
    now = clock.now()
    event = Event.objects.create(type="order.created", source_slug="generic", ce_id="one", ce_source="/generic",
                                 raw=b'{{"data": {{"order": {order}}}}}', received_at=now, status="routed")
    trigger = Trigger.objects.create(slug="hangs", name="Hangs", source="generic", type_pattern="**",
                                     handler="take-order", limits={{"timeout": 2}})
    print(Run.objects.create(trigger=trigger, event=event, handler="take-order", queued_at=now, due_at=now).pk)
"""
RUNS = "SELECT status, reason, crashes, error FROM triggers_run WHERE handler = 'take-order'"


@pytest.mark.parametrize(
    ("order", "code", "status", "reason"),
    [(2, 70, "queued", "timed_out"), (4, 1, "running", "")],
    ids=["spins", "holds"],
)
def test_a_process_without_a_pool_ends_itself_and_says_where_it_was(
    order: int, code: int, status: str, reason: str
) -> None:
    with desk() as shop:
        shop.handlers(HANGS)
        number = shop.python(A_RUN.format(order=order)).split()[-1]
        done = alone(shop, f"from triggers.execute import execute; execute({number})")
        assert done.returncode == code, done.stderr
        ((now, why, crashes, error),) = shop.rows(RUNS)
        assert (now, why) == (status, reason)
        if code == 1:  # no thread of it could write: the next round finds its lease over
            assert "in holds" in done.stderr
            shop.command("tick", "--once")
            ((now, why, crashes, error),) = shop.rows(RUNS)
            assert (now, why) == ("queued", "worker_lost")
        assert crashes == 1
        assert json.loads(error)["step"] == ("hang" if code == 70 else "look")


def alone(shop: Desk, code: str) -> "subprocess.CompletedProcess[str]":
    """Run `code` in one process of this desk, as a solo pool would."""
    command = [sys.executable, "manage.py", "shell", "--verbosity", "0", "-c", code]
    return subprocess.run(command, cwd=ROOT, env=shop.env, capture_output=True, text=True, timeout=START, check=False)


def test_a_pool_ends_each_of_them_three_times_and_goes_on_working(shop: Desk) -> None:
    shop.handlers(HANGS)
    shop.start("--workers", "4")
    secret = shop.python(IN_TWO_SECONDS).split()[-1]
    ring(shop, secret, 1, 2, 3, 4)
    shop.until(lambda: ended(shop) == 4, seconds=200)
    assert {row[:3] for row in shop.rows(RUNS)} == {("dead", "crash_loop", 3)}
    letters = shop.rows("SELECT error_type, count(*) FROM triggers_deadletter GROUP BY error_type")
    assert letters == [("CrashLoop", 4)]
    assert shop.count("triggers_deadletter", "step = 'hang'") >= 3
    ring(shop, secret, 5)
    shop.until(lambda: ended(shop) == 5, seconds=60)
    assert shop.count("triggers_run", "handler = 'take-order' AND status = 'succeeded'") == 1


def ring(shop: Desk, secret: str, *orders: int) -> None:
    for order in orders:
        headers, body = sign(secret, order)
        answer = httpx.post(f"{shop.url}/hooks/generic", content=body, headers=headers, timeout=30, trust_env=False)
        assert answer.status_code == 202


def ended(shop: Desk) -> int:
    return shop.count("triggers_run", "handler = 'take-order' AND finished_at IS NOT NULL")
