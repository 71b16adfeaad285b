"""Every page says what keeps the desk from its work, for as long as it does."""

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.db import DatabaseError
from django.test import Client

from project import health, trouble
from project.lib import clock, unwritten
from project.people.models import User
from tests import builders
from triggers import group_commit
from triggers.models import Pulse, Switch
from triggers.pausing import pause

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _well(settings: Any, valkey: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A desk with a broker, a tick and a disk; nothing is remembered from before."""
    settings.REDIS = type(settings.REDIS)(client=valkey, celery="", ours=False)
    monkeypatch.setattr(unwritten.Last, "at", float("-inf"))
    Pulse.beat("tick", clock.now())
    trouble.forget()
    yield
    trouble.forget()


@pytest.fixture
def banner(ben: User, sign_in: Callable[[User], Client]) -> Callable[[], str]:
    """What the banner on a page says to Ben now, from `troubles` on."""

    def said() -> str:
        trouble.forget()
        page = sign_in(ben).get("/runs").content.decode()
        part: str = page.partition('id="trouble"')[2].partition("</div></div>")[0].partition("<h1>")[0]
        return part

    return said


def test_a_desk_that_works_says_nothing(banner: Callable[[], str]) -> None:
    assert "<b>" not in banner()
    assert health.problems() == {}


def test_a_late_tick_is_said(banner: Callable[[], str], later: Callable[..., None]) -> None:
    later(seconds=90)
    assert "The tick is late: the last round was 1 min ago." in banner()
    assert health.problems()["tick"].startswith("tick is 9")
    Pulse.beat("tick", clock.now())
    assert "tick" not in banner()


def test_a_broker_that_is_down_is_said(banner: Callable[[], str], settings: Any, tmp_path: Any) -> None:
    settings.REDIS = type(settings.REDIS)(client=f"unix://{tmp_path}/nobody.sock?db=0", celery="", ours=False)
    assert "The broker does not answer." in banner()


def test_a_broker_that_takes_no_messages_is_said(banner: Callable[[], str], settings: Any, valkey: str) -> None:
    settings.CELERY_BROKER_URL = "redis://"
    with redis.Redis.from_url(valkey) as client:
        client.config_set("maxmemory", "1kb")
        assert client.ping()
    assert "The broker is full: it takes no messages." in banner()
    assert "maxmemory" in health.problems()["broker"]


def test_workers_that_are_gone_are_told_by_what_waits(banner: Callable[[], str], later: Callable[..., None]) -> None:
    builders.run("no-such-handler", reason="handler_missing")
    run = builders.run("story")
    later(seconds=40)
    Pulse.beat("tick", clock.now())
    assert "No worker takes runs: the oldest has waited for 40 s." in banner()
    busy = builders.run("story", status="running", leased_until=clock.now() + timedelta(seconds=30), fence=1)
    assert "No worker" not in banner(), "the others wait for their turn"
    busy.delete()
    run.delete()
    assert "No worker" not in banner(), "a handler that is missing is nobody's fault here"


def test_a_paused_desk_does_not_miss_its_workers(
    banner: Callable[[], str], ann: User, later: Callable[..., None]
) -> None:
    builders.run("story")
    pause("all", by=ann, reason="the move")
    later(seconds=40)
    Pulse.beat("tick", clock.now())
    assert "Paused by ann" in banner()
    assert "No worker" not in banner()
    assert Switch.objects.holding().exists()


def test_a_database_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def silent() -> str:
        asked.append(1)
        raise DatabaseError("no answer")

    checks = {"database": silent, "storage": silent, "broker": lambda: "it is full", "tick": silent}
    monkeypatch.setattr(health, "CHECKS", checks)
    assert health.problems() == {"database": "no answer", "broker": "it is full"}
    assert asked == [1]


def test_a_full_disk_is_said(banner: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(free=3 * 1024**2, total=10**12)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    assert "The disk is full: 3 MB are free where" in banner()
    assert health.problems()["storage"].startswith("the disk is full: 3 MB")


def test_writes_that_the_door_could_not_make_are_said_for_a_minute(
    banner: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group_commit.full(DatabaseError("database or disk is full"))
    assert "The database takes no writes: database or disk is full." in banner()
    monkeypatch.setattr(unwritten, "RECENT", 0.0)
    assert "no writes" not in banner()


def test_a_read_only_database_is_said(banner: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "is_read_only", lambda: True)
    assert "The database is read-only." in banner()


def test_the_file_of_a_read_only_disk_is_read_only(settings: Any, tmp_path: Any, monkeypatch: Any) -> None:
    if not health.is_sqlite():
        pytest.skip("PostgreSQL has no file of the desk's own")
    (tmp_path / "desk.sqlite3").touch()
    monkeypatch.setitem(settings.DATABASES["default"], "NAME", str(tmp_path / "desk.sqlite3"))
    assert not health.is_read_only()
    monkeypatch.setattr(health.os, "access", lambda path, mode: path != tmp_path / "desk.sqlite3")
    assert health.is_read_only()


def test_an_answer_is_kept_for_some_seconds(
    banner: Callable[[], str], ben: User, sign_in: Callable[[User], Client], later: Callable[..., None]
) -> None:
    banner()
    later(seconds=90)
    assert "The tick is late" not in sign_in(ben).get("/runs").content.decode(), "no page asks all of this twice"
    assert "The tick is late" in banner()
