"""Two machines, two beats, clocks an hour apart: every slot fires once, and none is lost when one dies (CR-12).

The database's clock decides; the second machine's own is an hour behind."""

import itertools
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.processes import Desk, desk

pytestmark = pytest.mark.processes

EVERY_SECOND = """
    from project.lib import clock
    from triggers.models import ConfigVersion, Source
    Source.objects.create(slug="each-second", name="Each second", kind="schedule", types=["**"],
                          config={"every": 1, "catch_up": "all"}, next_fire_at=clock.now())
    ConfigVersion.bump()
"""
HOUR = 3600  # seconds


@pytest.fixture
def pair(shop: Desk, request: pytest.FixtureRequest) -> Iterator[tuple[Desk, Desk]]:
    """Two desks on one database, broker and set of keys; the second one's clock is late."""
    shop.start()
    shared = {
        "DATABASE_URL": f"sqlite:///{shop.folder}/nightdesk.sqlite3",
        "REDIS_URL": f"unix://{shop.folder}/valkey.sock?db=0",
        "SECRET_KEY_FILE": str(shop.folder / "secret.key"),
        "FIELD_KEY_FILE": str(shop.folder / "field.key"),
    }
    with desk(**shared, DJANGO_SETTINGS_MODULE="tests.chaos.settings", NIGHTDESK_CLOCK_OFF=f"-{HOUR}") as second:
        second.start("--processes", getattr(request, "param", "desk,beat"), ready=False)
        second.until(lambda: len(second.pids("desk")) > 1 and second.main("beat"), seconds=120)
        yield shop, second
        second.tell()


def test_each_slot_fires_once(pair: tuple[Desk, Desk]) -> None:
    first, second = pair
    first.python(EVERY_SECOND)
    for number, shop in enumerate((second, first), 1):
        first.until(lambda number=number: len(slots(first)) >= 5 * number, seconds=60)
        shop.kill("beat")
        shop.kill("desk")
    before = len(slots(first))
    first.until(lambda: len(slots(first)) >= before + 3, seconds=60)
    first.stop()

    fired = slots(first)
    assert {later - slot for slot, later in itertools.pairwise(fired)} == {timedelta(seconds=1)}
    assert first.count("triggers_event", "source_slug = 'each-second'") == len(fired)
    assert "IntegrityError" not in first.log + second.log


@pytest.mark.parametrize("pair", ["desk,beat,listen"], indirect=True)  # a beat that is late may wait; `listen` ticks
def test_a_desk_whose_clock_is_late_keeps_the_times_of_a_request(pair: tuple[Desk, Desk]) -> None:
    """Alone it carries out what was approved once it cannot be taken back any more, and ends what nobody decided."""
    first, second = pair
    asks = ("create_token", "--service", "robot", "--name", "robot", "--scope", "propose")
    robot = httpx.Client(
        base_url=first.url, headers={"authorization": f"Bearer {first.command(*asks).split()[-1]}"}, trust_env=False
    )
    ann = first.token("read", "decide")
    with robot, first.nobody_starts_anything():
        for name in ("beat", "desk", "listen"):
            first.kill(name)
        early, late = (ask(robot, f"k{number}") for number in range(2))
        said = {"verdict": "approve", "digest": early["digest"], "revision": 1}
        assert ann.post(f"/api/v1/actions/{early['id']}/decisions", json=said).status_code == 201
        second.until(lambda: status(first, early) == "delivered", seconds=150)
        second.until(lambda: status(first, late) == "expired", seconds=300)
    [(lasted, took)] = first.rows(
        "SELECT unixepoch(b.settled_at) - unixepoch(b.created_at), unixepoch(a.settled_at) - unixepoch(a.decided_at)"
        " FROM approvals_action a JOIN approvals_action b ON a.id = ? AND b.id = ?",
        *(early["id"], late["id"]),
    )
    assert 59 <= lasted < 360
    assert 9 <= took < 160


def ask(robot: httpx.Client, key: str) -> dict[str, Any]:
    """A request that waits for a minute."""
    order = {"repo": "acme/shop", "base": "main", "title": key, "files": [{"path": "a.txt", "content": key}]}
    wish = {"kind": "github.create_pr", "arguments": order, "expires": 60}
    answer = robot.post("/api/v1/actions", json=wish, headers={"Idempotency-Key": key})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def status(shop: Desk, action: dict[str, Any]) -> str:
    return str(shop.rows("SELECT status FROM approvals_action WHERE id = ?", action["id"])[0][0])


def slots(shop: Desk) -> list[datetime]:
    """Those that were fired, oldest first."""
    query = "SELECT fire_at FROM triggers_schedulefire f JOIN triggers_source s ON s.id = f.source_id WHERE s.slug = ?"
    return sorted(datetime.fromisoformat(slot) for (slot,) in shop.rows(query, "each-second"))
