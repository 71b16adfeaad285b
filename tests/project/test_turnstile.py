"""Writers of SQLite pass one by one, and nobody waits for one that is gone or stopped."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError, connections, transaction
from pytest_django import DjangoDbBlocker

from project.lib import turnstile
from project.lib.sqlite.base import DatabaseWrapper
from project.lib.turnstile import Turnstile


@pytest.fixture
def database(path: str, django_db_blocker: DjangoDbBlocker) -> Iterator[DatabaseWrapper]:
    """A connection of its own, which `transaction.atomic("other")` finds."""
    given = {"NAME": path, "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 0.1}}
    settings = connections["default"].settings_dict | given | {"ENGINE": "project.lib.sqlite", "TEST": {}}
    made = DatabaseWrapper(settings, "other")
    connections["other"] = made
    with django_db_blocker.unblock():
        yield made
        made.close()
    del connections["other"]


def is_free(path: str) -> bool:
    one = Turnstile(path)
    free = one.is_free()
    one.close()
    return free


def test_whoever_writes_holds_the_turn_until_the_end(database: DatabaseWrapper, path: str) -> None:
    with transaction.atomic("other"):
        assert not is_free(path)
        with transaction.atomic("other"):
            pass
        assert not is_free(path)
    assert is_free(path)


def test_the_turn_is_given_back_when_a_transaction_is_undone(database: DatabaseWrapper, path: str) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic("other"):
        raise ZeroDivisionError
    assert is_free(path)


def test_the_turn_is_given_back_when_the_database_is_locked(database: DatabaseWrapper, path: str) -> None:
    database.ensure_connection()
    other = DatabaseWrapper(database.settings_dict, "third")
    other.cursor().execute("BEGIN IMMEDIATE")  # by somebody who does not pass the turnstile
    with pytest.raises(OperationalError, match="locked"), transaction.atomic("other"):
        pass
    other.close()
    assert is_free(path)
    with transaction.atomic("other"):
        pass


def test_the_turn_goes_with_its_connection(database: DatabaseWrapper, path: str) -> None:
    database.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    assert not is_free(path)
    database.close()
    assert is_free(path)


def test_the_turn_comes_when_the_one_before_leaves(path: str) -> None:
    first, second, passed = Turnstile(path), Turnstile(path), threading.Event()
    first.enter()
    thread = threading.Thread(target=lambda: (second.enter(), passed.set()))
    thread.start()
    assert not passed.wait(0.05)
    first.leave()
    thread.join(30)
    assert passed.is_set()
    assert not first.is_free()


def test_nobody_waits_for_one_who_died(path: str) -> None:
    child = os.fork()
    if child == 0:
        Turnstile(path).enter()
        os._exit(0)
    os.waitpid(child, 0)
    assert is_free(path)


def test_one_who_was_stopped_holds_up_nobody_for_long(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turnstile, "PATIENCE", 1.0)
    stopped, other = Turnstile(path), Turnstile(path)
    stopped.enter()
    began = time.monotonic()
    other.enter()  # SQLite's own lock decides
    assert time.monotonic() - began >= 1.0
    began = time.monotonic()
    other.enter()
    assert time.monotonic() - began < 1.0, "not again for each that follows"
    stopped.leave()
    other.enter()
    assert other.patience == turnstile.PATIENCE


@pytest.mark.parametrize("there", [False, True])
def test_where_there_can_be_no_turn_nobody_waits_for_one(tmp_path: Path, there: bool) -> None:
    """A file system that is full or read-only, or a file that is somebody else's."""
    one = Turnstile(str(tmp_path / "no folder" / "desk.sqlite3"))
    if there:
        one = Turnstile(str(tmp_path / "desk.sqlite3"))
        assert one.file is not None
        one.file.close()  # what flock says of it is an OSError
    with one.held():
        pass
    one.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes files for others")
def test_the_file_is_whoevers_the_database_is(path: str) -> None:
    """`sudo manage.py restored` must not leave the desk with a file it cannot open."""
    Path(path).touch()
    os.chown(path, 65534, 65534)
    Turnstile(path).close()
    assert os.stat(f"{path}-turn").st_uid == 65534


def test_a_connection_that_is_forgotten_leaves_no_descriptor(path: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        Turnstile(path).enter()
    assert len(os.listdir("/proc/self/fd")) == before
