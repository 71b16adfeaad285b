"""Workers say that they are there; who stops saying so is missing, who was told to go is not."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from project import figures, health, rollcall, tasks
from project.lib import stream
from project.people.models import User
from project.rollcall import Roll, Speaker
from tests.conftest import until


@pytest.fixture(autouse=True)
def _valkey(settings: Any, valkey: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.REDIS = type(settings.REDIS)(client=valkey, celery="", ours=False)
    monkeypatch.setattr(health.Silence, "until", float("-inf"))
    with stream.client() as client:
        client.delete(rollcall.KEY)


def speaks(name: str, *, ago: float = 0.0, places: int = 4) -> None:
    with stream.client() as client:
        client.zadd(rollcall.KEY, {rollcall.said(name, places): rollcall.seconds(client) - ago})


def test_who_spoke_lately_is_there_and_who_did_not_is_missing_for_a_while() -> None:
    assert rollcall.roll() == Roll(0, 0, 0)
    speaks("worker-1@one")
    speaks("worker-2@two", places=8)
    speaks("worker-3@three", ago=rollcall.GONE + 5)
    speaks("worker-4@four", ago=rollcall.FORGOTTEN + 5)
    found = rollcall.roll()
    assert found == Roll(there=2, known=3, places=12)
    assert found.is_short
    rollcall.speak("worker-3@three", 4)
    assert rollcall.roll() == Roll(3, 3, 16)


def test_a_worker_speaks_while_it_is_there_and_takes_leave_when_it_is_told_to_go(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollcall, "EVERY", 0.05)
    monkeypatch.setattr(tasks, "speakers", [])
    monkeypatch.setattr(tasks.threading, "Timer", lambda *_: SimpleNamespace(start=lambda: None))
    monkeypatch.setattr(tasks.stopping, "tell", lambda: None)
    worker = SimpleNamespace(hostname="worker-7@one", controller=SimpleNamespace(concurrency=2))
    settings.PROCESS = "desk"
    tasks.say_it_is_there(worker)
    settings.PROCESS = "worker"
    tasks.say_it_is_there(worker)
    until(lambda: rollcall.roll() == Roll(1, 1, 2))
    with stream.client() as client:
        client.delete(rollcall.KEY)
    until(lambda: rollcall.roll() == Roll(1, 1, 2))
    tasks.end_in_time()
    tasks.speakers[0].join(5)
    assert rollcall.roll() == Roll(0, 0, 0)


def test_a_worker_without_its_valkey_goes_on_and_nobody_is_counted(settings: Any, tmp_path: Any) -> None:
    settings.REDIS = type(settings.REDIS)(client=f"unix://{tmp_path}/nobody.sock?db=0", celery="", ours=False)
    assert rollcall.roll() is None
    alone = Speaker("worker-1@one", 2)
    alone.start()
    alone.stop()
    alone.join(5)
    assert not alone.is_alive()


@pytest.mark.django_db
def test_home_counts_them(owner: User, sign_in: Callable[[User], Client]) -> None:
    browser = sign_in(owner)
    assert "No worker is up" in browser.get("/").content.decode()
    speaks("worker-1@one", places=2)
    figures.forget()
    assert "<span>1 of 1 workers up, 2 runs at a time</span>" in browser.get("/").content.decode()
    speaks("worker-2@two", ago=rollcall.GONE + 5)
    figures.forget()
    assert '<span class="is-fail">1 of 2 workers up' in browser.get("/").content.decode()
