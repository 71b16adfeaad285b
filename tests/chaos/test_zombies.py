"""A worker stands still past its lease and then goes on: whatever it still does must not count.

Only the fence is between it and the journal here: the constraint that a step is remembered once is taken away, so that
the control, in which the fence is off, shows what the fence is for.
"""

import os
import signal
from collections.abc import Iterator

import httpx
import psycopg
import pytest

from tests.chaos.conftest import SlowGitHub, connect
from tests.chaos.load import TRIGGER, sign
from tests.chaos.striking import Plan
from tests.processes import Desk, desk
from tests.recorder import Recorder

FENCE_OFF = """
from django.conf import settings
from project.lib import clock
from triggers.journal import ADD, Journal
from triggers.models import Run

hold, look, add = Journal.hold, Journal.look, Journal.add


def is_off():
    off = (settings.DATA_DIR / "fence_off").exists()
    Run.FENCE = () if off else ("fence",)
    return off


Journal.hold = lambda journal, **given: clock.now() if is_off() else hold(journal, **given)
Journal.look = lambda journal, **given: None if is_off() else look(journal, **given)
Journal.add = lambda journal, step: ADD(step) if is_off() else add(journal, step)
"""
# `seen` has a line for each execution of the second step: who ran it, and what it was given. Odd orders then wait.
ORDERS = """
import os
import time
import uuid

from django.conf import settings
from approvals.act import act
from triggers.registry import handler


@handler("take-order")
def take_order(run):
    order = run.event.data["data"]["order"]
    drawn = run.step("draw", lambda: str(uuid.uuid4()))
    if order >= 100:
        act(run, "tell", kind="github.comment", repo="acme/shop", number=order, body=drawn)
    run.step("see", see, order, drawn)
    return drawn


def see(order, drawn):
    with open(settings.DATA_DIR / "seen", "a") as file:
        file.write(f"{order} {os.getpid()} {drawn}\\n")
    while order % 2 and not (settings.DATA_DIR / f"go-on-{order}").exists():
        time.sleep(0.02)
"""

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def hub() -> SlowGitHub:
    return SlowGitHub()


@pytest.fixture(scope="module")
def haunted(postgres_server: str, hub: SlowGitHub) -> Iterator[Plan]:
    """An open desk with two workers whose steps may be remembered twice."""
    with Recorder(hub.answer) as far, desk(postgres_server, EGRESS_ALLOW="127.0.0.1") as shop:
        plan = Plan(shop)
        shop.handlers(ORDERS, name="orders")
        shop.handlers(FENCE_OFF, name="fence_off")
        shop.start("--workers", "2")
        connect(shop, far)
        with psycopg.connect(shop.database_url) as connection:
            connection.execute("ALTER TABLE triggers_step DROP CONSTRAINT a_step_is_remembered_once")
        (shop.folder / "secret").write_text(shop.python(TRIGGER).split()[-1])
        yield plan


def test_with_the_fence_the_journal_holds_what_every_step_saw(haunted: Plan) -> None:
    shop = haunted.shop
    zombie = stopped_in_its_first_step(haunted, 1)
    os.kill(zombie, signal.SIGCONT)
    ring(shop, 2)  # the zombie is the only one who is free: when it took this, it is through with the other
    shop.until(lambda: seen(shop, 2), seconds=60)
    (shop.folder / "go-on-1").touch()
    shop.until(lambda: ended(shop, 1) and ended(shop, 2), seconds=60)

    assert [pid for pid, _ in seen(shop, 2)] == [zombie]
    [(pid, value)] = seen(shop, 1)
    assert pid != zombie
    assert journal(shop, 1) == [("succeeded", 1, value, value)]


def test_without_it_a_zombie_writes_a_second_truth(haunted: Plan) -> None:
    shop = haunted.shop
    (shop.folder / "fence_off").touch()
    try:
        zombie = stopped_in_its_first_step(haunted, 3)
        os.kill(zombie, signal.SIGCONT)
        shop.until(lambda: len(seen(shop, 3)) == 2, seconds=60)
        (shop.folder / "go-on-3").touch()
        shop.until(lambda: ended(shop, 3), seconds=60)
    finally:
        (shop.folder / "fence_off").unlink()

    assert zombie in [pid for pid, _ in seen(shop, 3)]
    assert len({value for _, value in seen(shop, 3)}) == 2, "two values of one step were believed"
    assert len(journal(shop, 3)) == 2


def test_held_up_before_its_call_it_sends_nothing_any_more(haunted: Plan, hub: SlowGitHub) -> None:
    shop = haunted.shop
    zombie = stopped(haunted, "after_delivering_commit", 100)
    shop.until(lambda: ended(shop, 100), seconds=90)
    assert [item["issue"] for item in hub.comments] == ["100"]
    os.kill(zombie, signal.SIGCONT)
    outcomes = "SELECT number, outcome FROM approvals_attempt ORDER BY number"
    shop.until(lambda: shop.rows(outcomes) == [(1, "put_back"), (2, "delivered")], seconds=60)

    assert [item["issue"] for item in hub.comments] == ["100"]
    assert shop.rows("SELECT status, tries FROM approvals_action") == [("delivered", 2)]


def stopped_in_its_first_step(plan: Plan, order: int) -> int:
    """The worker that stands still with a value in its hands, while another one has taken its run on to the second."""
    zombie = stopped(plan, "after_step_call", order)
    plan.shop.until(lambda: seen(plan.shop, order), seconds=60)
    return zombie


def stopped(plan: Plan, place: str, order: int) -> int:
    before = len(plan.struck("stop"))
    plan.strike(f"{place} stop #1")
    ring(plan.shop, order)
    plan.shop.until(lambda: len(plan.struck("stop")) > before, seconds=60)
    plan.rest()
    return plan.struck("stop")[-1]


def ring(shop: Desk, order: int) -> None:
    headers, body = sign((shop.folder / "secret").read_text(), order)
    url = f"{shop.url}/hooks/generic"
    assert httpx.post(url, content=body, headers=headers, timeout=30, trust_env=False).status_code == 202


def seen(shop: Desk, order: int) -> list[tuple[int, str]]:
    """Who executed the second step of this order's run, and with what."""
    place = shop.folder / "seen"
    lines = [line.split() for line in place.read_text().splitlines()] if place.exists() else []
    return [(int(pid), value) for number, pid, value in lines if int(number) == order]


def ended(shop: Desk, order: int) -> int:
    return shop.rows(
        "SELECT count(*) FROM triggers_run r JOIN triggers_event e ON e.id = r.event_id"
        " WHERE e.ce_id = ? AND r.finished_at IS NOT NULL", f"order-{order}"
    )[0][0]  # fmt: skip


def journal(shop: Desk, order: int) -> list[tuple[str, int, str, str]]:
    """How the run ended, and each value its first step is remembered with."""
    rows = shop.rows(
        "SELECT r.status, r.attempt, r.result_json, s.result_json FROM triggers_run r"
        " JOIN triggers_event e ON e.id = r.event_id JOIN triggers_step s ON s.run_id = r.id"
        " WHERE e.ce_id = ? AND s.name = 'draw'", f"order-{order}"
    )  # fmt: skip
    return [(status, attempt, result.strip('"'), kept.strip('"')) for status, attempt, result, kept in rows]
