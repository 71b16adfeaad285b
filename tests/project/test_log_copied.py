"""SQLite's log is copied into the database by the desk's round: no commit waits for that."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection, transaction

from project import desk
from project.lib import clock
from project.lib.sqlite import log
from triggers.models import Refusal

PAGES = 3000  # 12 MB, three times what SQLite leaves in its log by itself


@pytest.fixture(autouse=True)
def _only_where_there_is_such_a_log(transactional_db: None) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL copies its log itself, beside all commits")


def write() -> None:
    """About so many pages, a hundred in each commit."""
    for _ in range(PAGES // 100):
        Refusal.objects.create(at=clock.now(), reason="noise", answered=404, detail="x" * 400_000)


def waiting() -> int:
    return log.uncopied(connection.settings_dict["NAME"])


def test_no_commit_copies_the_log() -> None:
    write()
    assert waiting() >= PAGES


def test_a_round_copies_it_and_it_is_used_from_its_beginning_again() -> None:
    write()
    assert desk.upkeep()["log_copied"]() >= PAGES
    assert waiting() == 0
    write()
    with closing(sqlite3.connect(connection.settings_dict["NAME"])) as other:
        [(_, pages, _)] = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    assert pages < 1.5 * PAGES


def test_few_pages_are_left_to_a_later_round() -> None:
    write()
    desk.upkeep()["log_copied"]()
    Refusal.objects.create(at=clock.now(), reason="noise", answered=404)
    before = waiting()
    assert (desk.upkeep()["log_copied"](), before > 0, waiting()) == (0, True, before)


def test_nobody_waits_who_reads_meanwhile() -> None:
    """What somebody still reads is copied by a later round."""
    write()
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM triggers_refusal").fetchall()
        write()
        desk.upkeep()["log_copied"]()
        assert waiting() > 0
    desk.upkeep()["log_copied"]()
    assert waiting() == 0


WRITE = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_a_look_at_the_log_leaves_every_lock_where_it_was() -> None:
    """Another process cannot write beside a transaction of ours in whose time somebody looked."""
    write()
    with transaction.atomic():
        Refusal.objects.create(at=clock.now(), reason="noise", answered=404)
        assert waiting() > 0
        command = [sys.executable, "-c", WRITE, str(connection.settings_dict["NAME"])]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "database is locked\n"


def test_a_new_database_at_the_same_place_is_looked_at_anew(tmp_path: Path) -> None:
    path = tmp_path / "some.sqlite3"
    for pages in (40, 20):
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("CREATE TABLE kept (text TEXT)")
            db.execute("INSERT INTO kept VALUES (?)", ["x" * 4096 * pages])
            db.commit()
            assert pages <= log.uncopied(path) < pages + 10
        path.unlink()
    assert log.uncopied(path) == 0
