"""The real `listen` process is killed again and again while files arrive: each file is told exactly once."""

import signal
from pathlib import Path

import pytest

from tests.processes import Desk

pytestmark = pytest.mark.processes
WATCHING = "SELECT count(*) FROM triggers_watch WHERE status = 'watching' AND mode = 'native'"


def drop(inbox: Path, numbers: range) -> None:
    """Half of them written in place, half renamed into place."""
    for number in numbers:
        path = inbox / f"order-{number}.csv"
        if number % 2:
            path.write_text(f"order,total\n{number},1\n")
        else:
            draft = path.with_name(f".{path.name}.draft")
            draft.write_text(f"order,total\n{number},1\n")
            draft.replace(path)


def told(shop: Desk) -> list[tuple[str, str]]:
    return shop.rows("SELECT type, subject FROM triggers_event WHERE source_slug = 'inbox' ORDER BY id")


def test_each_file_is_told_once(shop: Desk) -> None:
    inbox = shop.folder / "inbox"
    shop.start()
    shop.until(lambda: shop.rows(WATCHING)[0][0], seconds=60)
    for first, last in ((0, 20), (20, 40)):  # killed while they arrive
        drop(inbox, range(first, first + 10))
        shop.kill("listen")
        drop(inbox, range(first + 10, last))
        shop.until(lambda last=last: len(told(shop)) >= last, seconds=90)

    pid = shop.kill("listen", signal.SIGSTOP)  # nobody listens, and nobody is told so
    drop(inbox, range(40, 50))
    (inbox / "order-0.csv").write_text("order,total\n0,2\n")
    (inbox / "order-1.csv").unlink()
    assert shop.kill("listen") == pid
    shop.until(lambda: len(told(shop)) >= 52, seconds=90)
    drop(inbox, range(50, 51))
    shop.until(lambda: ("inbox.created", "order-50.csv") in told(shop), seconds=60)

    created = [("inbox.created", f"order-{number}.csv") for number in range(51)]
    assert sorted(told(shop)) == sorted([*created, ("inbox.modified", "order-0.csv"), ("inbox.deleted", "order-1.csv")])
    assert shop.count("triggers_run", "handler = 'new-upload'") == 51  # some wait: more than 30 an hour ask first
    assert shop.count("triggers_run", "handler = 'new-upload' AND status = 'dead'") == 0


def test_an_upload_rings_through_and_again_tells_nothing(shop: Desk) -> None:
    shop.start()
    shop.until(lambda: shop.rows(WATCHING)[0][0], seconds=60)
    first = shop.command("ring", "upload")
    assert "accepted" in first
    shop.until(lambda: shop.count("triggers_run", "handler = 'new-upload' AND status = 'succeeded'") == 1)
    again = shop.command("ring", "upload", "--again")
    assert "nothing to tell" in again
    assert first.split()[0] == again.split()[0]
    assert "accepted" in shop.command("ring", "upload")
    assert len(told(shop)) == 2
