"""The drill of docs/production.md: a backup of PostgreSQL is restored after more was sent; nothing is sent twice."""

import subprocess
from collections.abc import Iterator

import pytest

from tests import postgres
from tests.chaos.conftest import SHORT_CALLS, SlowGitHub
from tests.chaos.test_triage_survives_its_workers import approve, awaiting, begin, ended, statuses
from tests.processes import Desk, desk, fresh_database
from tests.recorder import Recorder

pytestmark = pytest.mark.processes
WHOLE = {"github.create_pr": "delivered", "github.comment": "delivered"}


@pytest.fixture
def server() -> Iterator[str]:
    with postgres.serve() as address:
        yield address


@pytest.fixture
def shop(server: str) -> Iterator[Desk]:
    with desk(server, EGRESS_ALLOW="127.0.0.1") as made:
        made.handlers(SHORT_CALLS, name="short_calls")
        yield made
        made.tell()


def test_what_was_sent_after_the_backup_is_found_and_not_sent_again(
    shop: Desk, server: str, github: SlowGitHub, far_side: Recorder
) -> None:
    ann = begin(shop, far_side)
    approve(ann, awaiting(shop, ann))
    backup = dumped(shop.database_url)
    assert statuses(shop) == {"github.create_pr": "approved"}, "it can still be taken back when the backup is made"
    shop.until(lambda: ended(shop), seconds=90)
    sent = (len(github.pulls), len(github.comments))
    assert (sent, statuses(shop)) == ((1, 1), WHOLE)
    shop.stop()

    shop.database_url = restored(backup, server)
    assert "1 approved actions are in doubt now" in shop.manage("restored")
    shop.start()
    shop.until(lambda: shop.is_ready() and ticked(shop), seconds=60)
    assert (len(github.pulls), len(github.comments)) == sent, "everything is paused"
    assert statuses(shop) == {"github.create_pr": "unknown"}

    shop.manage("switch", "--resume")
    shop.until(lambda: ended(shop), seconds=120)
    assert (len(github.pulls), len(github.comments)) == sent
    assert statuses(shop) == WHOLE
    assert shop.rows("SELECT status FROM triggers_run") == [("succeeded",)]


def dumped(address: str) -> bytes:
    """What `pg_dump` writes of this database, while the desk works on it."""
    return subprocess.run([postgres.program("pg_dump"), address], check=True, capture_output=True).stdout


def restored(backup: bytes, server: str) -> str:
    """The address of a new database made of it."""
    address = fresh_database(server)
    command = [postgres.program("psql"), "--quiet", "--set", "ON_ERROR_STOP=1", address]
    subprocess.run(command, input=backup, check=True, capture_output=True)
    return address


def ticked(shop: Desk) -> bool:
    """Has the desk looked at everything at least once since the restore?"""
    since = "SELECT until FROM triggers_counted WHERE name = 'restored'"
    return bool(shop.rows(f"SELECT 1 FROM triggers_pulse WHERE name = 'tick' AND at > ({since})"))
