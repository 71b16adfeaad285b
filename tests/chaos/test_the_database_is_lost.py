"""The database crashes or its disk is full, under load: what was accepted is there, the rest was told to come again."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres
from tests.chaos.load import QUIET, TRIGGER, Caller
from tests.processes import DATABASE, Desk, desk

CRASHES = 3 * int(os.environ.get("NIGHTDESK_CHAOS_ROUNDS", "1"))
DISK = 100  # MB; less than 64 free counts as full
pytestmark = [pytest.mark.processes, pytest.mark.timeout(300 + 60 * CRASHES)]


def test_a_server_that_crashes_takes_nothing_along() -> None:
    with postgres.server(durable=True) as server, desk(server.address) as shop:
        shop.handlers(QUIET, name="orders")
        shop.start("--workers", "3")
        with Caller(shop, shop.python(TRIGGER).split()[-1]) as caller:
            for _ in range(CRASHES):
                heard = len(caller.answered)
                shop.until(lambda heard=heard: len(caller.answered) > heard + 10, seconds=90)
                server.crash()
                shop.until(lambda: shop.problem("database"), seconds=60)
                server.start()
        assert_nothing_was_lost(shop, caller)
        shop.tell(40)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that is soon full. Only root may mount one."""
    if os.getuid():
        pytest.skip("a disk is mounted by root")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "none", tmp_path], check=False)
    if done.returncode:
        pytest.skip("nothing may be mounted here")
    yield tmp_path
    subprocess.run(["umount", "--lazy", tmp_path], check=True)


def test_a_full_disk_refuses_at_the_door_and_loses_nothing(small_disk: Path) -> None:
    place = small_disk / DATABASE
    with desk(DATABASE_URL=f"sqlite:///{place}") as shop:
        shutil.move(shop.folder / DATABASE, place)
        (shop.folder / DATABASE).symlink_to(place)
        shop.handlers(QUIET, name="orders")
        shop.start()
        with Caller(shop, shop.python(TRIGGER).split()[-1], pause=0.2) as caller:
            shop.until(lambda: len(caller.answered) > 10, seconds=60)
            with filled(small_disk):
                refused = caller.refused
                shop.until(lambda: caller.refused > refused + 5, seconds=90)
                assert "disk is full" in shop.problem("storage")
            heard = len(caller.answered)
            shop.until(lambda: len(caller.answered) > heard + 10, seconds=60)
        assert_nothing_was_lost(shop, caller)
        shop.until(lambda: not shop.problem("storage"), seconds=90)  # it is said for a minute


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Not a byte is left; all of it again afterwards."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    try:
        yield
    finally:
        ballast.unlink()


def assert_nothing_was_lost(shop: Desk, caller: Caller) -> None:
    orders = len(caller.answered)
    done = "handler = 'take-order' AND finished_at IS NOT NULL"
    shop.until(lambda: shop.count("triggers_run", done) == orders, seconds=180, every=0.5)
    stored = dict(shop.rows("SELECT ce_id, id FROM triggers_event WHERE source_slug = 'generic'"))
    assert {f"order-{order}": seq for order, seq in caller.answered.items()} == stored
    assert caller.refused, "nobody noticed: nothing was proven"
    assert caller.surprises == [], "every refusal says: come again"
    ends = shop.rows("SELECT DISTINCT status, attempt FROM triggers_run WHERE handler = 'take-order'")
    assert ends == [("succeeded", 1)], "the database's trouble is no failure of a handler"
